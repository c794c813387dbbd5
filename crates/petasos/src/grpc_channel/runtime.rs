//! The Tokio runtime that drives a channel's connections.

use std::io;
use std::sync::{Mutex, PoisonError};

use tokio::runtime::{Builder, Handle};

/// The Tokio runtime of this thread, otherwise the process-wide one of this crate; see [`own`].
pub(super) fn here_or_own() -> io::Result<Handle> {
    match Handle::try_current() {
        Ok(here) => Ok(here),
        Err(_) => own(),
    }
}

/// This crate's process-wide Tokio runtime. It has one thread, which starts with the first use and
/// runs as long as the process. It serves the connections of channels that are made outside of
/// runtimes, and helpers of channels, such as resolvers.
///
/// # Errors
/// The system could not start the thread.
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
