//! What the runtimes of the service share, besides their letters.

mod published;

use std::sync::{Arc, OnceLock};

use petasos_base::sync::AtomicBool;
use petasos_service::Host;
use rustix::thread::{CpuSet, sched_setaffinity};

use crate::ports::KeptPorts;
use published::Published;

/// Where threads may run that are not pinned.
static CPUS: OnceLock<CpuSet> = OnceLock::new();

/// Where the calling thread may run is where all may that are not pinned. To be called before any
/// is.
pub fn note_cpus(cpus: CpuSet) {
    // The first is what the process was started with.
    let _ = CPUS.set(cpus);
}

/// Lets the calling thread run wherever the process may: it began where a runtime is pinned,
/// perhaps.
pub fn run_anywhere() {
    if let Some(cpus) = CPUS.get() {
        // It only runs less well without.
        let _ = sched_setaffinity(None, cpus);
    }
}

/// What the runtimes of the service share.
pub struct Common {
    pub host: Arc<Host>,
    /// Addresses that are kept for applications that attach again.
    pub kept: KeptPorts,
    /// Which of what applications serve others than this host's can call.
    pub published: Published,
    /// Some policy has a budget.
    pub has_budgets: AtomicBool,
}

impl Common {
    pub fn new(host: Arc<Host>) -> Arc<Common> {
        let (kept, published) = Default::default();
        Arc::new(Common { host, kept, published, has_budgets: AtomicBool::new(false) })
    }
}
