//! Decompression that takes a while, on threads that may be kept busy.
//!
//! The thread that reads a connection's frames serves other calls too. As many messages as half of
//! the processors are decompressed at one time, whatever peers send; others wait.

use std::num::NonZero;
use std::pin::Pin;
use std::sync::OnceLock;
use std::task::{Context, Poll};

use bytes::Bytes;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::task::{JoinHandle, spawn_blocking};

use crate::deframe::{FrameError, Packed};

/// A message that is being decompressed. Given up when it is dropped, if its turn has not come.
pub(crate) struct Unpacking(JoinHandle<Result<Bytes, FrameError>>);

impl Unpacking {
    pub(crate) fn start(runtime: &Handle, packed: Packed) -> Unpacking {
        Unpacking(runtime.spawn(async {
            let permit = permits().acquire().await.expect("the semaphore is never closed");
            let unpacked = spawn_blocking(|| {
                let _permit = permit;
                packed.unpack()
            });
            unpacked.await.unwrap_or(Err(FrameError::CutOff))
        }))
    }

    /// What came of it. Without a runtime, the message is as good as cut off.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Bytes, FrameError>> {
        let unpacked = Pin::new(&mut self.0).poll(cx);
        unpacked.map(|unpacked| unpacked.unwrap_or(Err(FrameError::CutOff)))
    }
}

impl Drop for Unpacking {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn permits() -> &'static Semaphore {
    static PERMITS: OnceLock<Semaphore> = OnceLock::new();
    PERMITS.get_or_init(|| {
        let processors = std::thread::available_parallelism().map_or(1, NonZero::get);
        Semaphore::new((processors / 2).max(1))
    })
}
