//! What the runtimes of the service share, besides their letters.

mod published;

use std::sync::Arc;

use petasos_base::sync::AtomicBool;
use petasos_service::Host;

use crate::ports::KeptPorts;
use published::Published;

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
