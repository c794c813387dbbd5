//! The Tokio runtime that drives a channel's connections.

use std::io;
use std::sync::{Mutex, PoisonError};

use tokio::runtime::{Builder, Handle};

/// The runtime of this thread, or else one of the process's own, on a thread that it starts when
/// it is first wanted and that lives as long as the process.
pub(super) fn here_or_own() -> io::Result<Handle> {
    match Handle::try_current() {
        Ok(here) => Ok(here),
        Err(_) => own(),
    }
}

/// The Tokio runtime of the process's own, which has one thread: for connections of channels that
/// are made outside of runtimes, and for what works beside channels, such as resolvers.
///
/// # Errors
/// The system gives no thread for it.
pub fn own() -> io::Result<Handle> {
    static OWN: Mutex<Option<Handle>> = Mutex::new(None);
    let mut own = OWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(handle) = &*own {
        return Ok(handle.clone());
    }
    let runtime = Builder::new_current_thread().enable_io().enable_time().build()?;
    let handle = runtime.handle().clone();
    let thread = std::thread::Builder::new().name("petasos-grpc".to_owned());
    thread.spawn(move || runtime.block_on(core::future::pending::<()>()))?;
    *own = Some(handle.clone());
    Ok(handle)
}
