//! Decompression that takes a while, off the loops' threads.
//!
//! A loop serves others meanwhile. The threads are the process's: as many as half of the processors
//! have, whatever peers send, begun with the first message that needs one. Messages beyond
//! `WAITING_MAX` are refused.

use core::future::Future;
use core::pin::Pin;
use std::num::NonZero;
use std::sync::OnceLock;

use petasos_call::Status;
use petasos_rpc::intercept::CallSpan;

use crate::workers::Workers;

/// Messages that may wait for the threads, or be with them.
const WAITING_MAX: usize = 1024;

/// As many messages wait as may.
#[derive(Debug)]
pub struct Busy;

impl From<Busy> for Status {
    fn from(_: Busy) -> Status {
        Status::resource_exhausted("too many messages wait to be decompressed")
    }
}

/// What is awaited in the loop. Given up when it is dropped, if its turn has not come.
pub type Unpacking<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Has `unpack` run on one of the threads.
///
/// # Errors
/// If as many wait as may.
#[cold]
pub fn start<T: Send + 'static>(
    unpack: impl FnOnce() -> T + Send + 'static,
) -> Result<Unpacking<T>, Busy> {
    static WORKERS: OnceLock<Option<Workers>> = OnceLock::new();
    let workers = WORKERS.get_or_init(|| {
        let processors = std::thread::available_parallelism().map_or(1, NonZero::get);
        Workers::on_threads((processors / 2).max(1), WAITING_MAX).ok()
    });
    let workers = workers.as_ref().ok_or(Busy)?;
    let running = workers.run(None, CallSpan::default(), || async move { unpack() });
    Ok(Box::pin(running.map_err(|_| Busy)?))
}
