//! Loops on their own threads.

use core::time::Duration;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, Weak, mpsc};

use super::shared::{Command, Shared};
use super::{LoopConfig, LoopError, Runtime, Security, ServiceChoice};

/// A thread that turns a loop until this is dropped.
pub struct LoopThread {
    runtime: Arc<Shared>,
}

/// The threads that the process's channels share: one for channels that need only IPv4, one for
/// others.
static SHARED: Mutex<[Weak<LoopThread>; 2]> = Mutex::new([Weak::new(), Weak::new()]);

impl LoopThread {
    /// The shared thread, for channels that are made on a thread without a loop. With `is_ipv6` it
    /// reaches both families, if the host has both.
    pub fn shared(is_ipv6: bool) -> Result<Arc<LoopThread>, LoopError> {
        let mut threads = SHARED.lock().expect("nothing panics under the lock");
        let slot = &mut threads[usize::from(is_ipv6)];
        if let Some(thread) = slot.upgrade().filter(|thread| !thread.runtime.is_closed()) {
            return Ok(thread);
        }
        let thread =
            Arc::new(LoopThread::start(is_ipv6, &Security::default(), &ServiceChoice::default())?);
        *slot = Arc::downgrade(&thread);
        Ok(thread)
    }

    /// A thread for a single channel, which has its own security settings.
    pub fn own(
        is_ipv6: bool,
        security: Security,
        service: ServiceChoice,
    ) -> Result<Arc<LoopThread>, LoopError> {
        Ok(Arc::new(LoopThread::start(is_ipv6, &security, &service)?))
    }

    fn start(
        is_ipv6: bool,
        security: &Security,
        service: &ServiceChoice,
    ) -> Result<LoopThread, LoopError> {
        match LoopThread::start_at(is_ipv6, security.clone(), service.clone()) {
            // Without IPv6 on this host, servers with an IPv4 address can still be reached.
            Err(LoopError::Sockets(_)) if is_ipv6 => {
                LoopThread::start_at(false, security.clone(), service.clone())
            }
            started => started,
        }
    }

    fn start_at(
        is_ipv6: bool,
        security: Security,
        service: ServiceChoice,
    ) -> Result<LoopThread, LoopError> {
        let (report, started) = mpsc::channel();
        // The unspecified IPv6 address reaches IPv4 as well.
        let ip = is_ipv6.then_some(IpAddr::V6(Ipv6Addr::UNSPECIFIED));
        let config = LoopConfig { ip, security, service, ..LoopConfig::default() };
        let run = move || match Runtime::start(config) {
            Ok(runtime) => {
                // The code that started the thread waits for this.
                let _ = report.send(Ok(runtime.shared().clone()));
                runtime.block_on(runtime.stopped());
            }
            Err(error) => drop(report.send(Err(error))),
        };
        let thread = std::thread::Builder::new().name("petasos-calls".into());
        thread.spawn(run).map_err(LoopError::Thread)?;
        let runtime = started.recv().expect("the thread says how it begins")?;
        Ok(LoopThread { runtime })
    }

    /// Its loop.
    pub fn runtime(&self) -> &Arc<Shared> {
        &self.runtime
    }
}

impl core::fmt::Debug for LoopThread {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("LoopThread").finish_non_exhaustive()
    }
}

impl Drop for LoopThread {
    fn drop(&mut self) {
        // Not joined: this may be the thread itself, or one that must not block.
        self.runtime.send(Command::Stop { grace: Duration::ZERO });
    }
}
