//! Slow decompression, on threads that may block.
//!
//! The thread that reads a connection's frames also serves other calls. So slow decompression runs
//! on other threads: for at most half as many messages at a time as there are processors, whatever
//! peers send; others wait. Each connection has one message among these, and its other messages
//! wait behind it. So connections take turns, however much one of them sends. The listener limits
//! how many connections a peer may have.

use std::num::NonZero;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use bytes::Bytes;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::task::{JoinHandle, spawn_blocking};

use crate::deframe::{FrameError, Packed};

/// Places for messages that are decompressed at the same time.
#[derive(Clone)]
struct Places(Arc<Semaphore>);

impl Places {
    fn new(count: usize) -> Places {
        Places(Arc::new(Semaphore::new(count)))
    }

    /// The places of the process.
    fn all() -> &'static Places {
        static PLACES: OnceLock<Places> = OnceLock::new();
        PLACES.get_or_init(|| {
            let processors = std::thread::available_parallelism().map_or(1, NonZero::get);
            Places::new((processors / 2).max(1))
        })
    }
}

/// A connection's share of the places: at most one, or one turn in the queue.
#[derive(Clone)]
pub(crate) struct Share {
    places: Places,
    own: Arc<Semaphore>,
}

impl Default for Share {
    fn default() -> Share {
        Share::of(Places::all())
    }
}

impl Share {
    fn of(places: &Places) -> Share {
        Share { places: places.clone(), own: Arc::new(Semaphore::new(1)) }
    }
}

/// A message that is being decompressed. Dropping this cancels it, if its turn has not come.
pub(crate) struct Unpacking(JoinHandle<Result<Bytes, FrameError>>);

impl Unpacking {
    pub(crate) fn start(runtime: &Handle, share: &Share, packed: Packed) -> Unpacking {
        let Share { places, own } = share.clone();
        Unpacking(runtime.spawn(async move {
            let turn = own.acquire_owned().await.expect("the semaphore is never closed");
            let place = places.0.acquire_owned().await.expect("the semaphore is never closed");
            let unpacked = spawn_blocking(|| {
                // The thread holds both, so that they are not free before it has finished, even if
                // the message was given up.
                let _held = (turn, place);
                packed.unpack()
            });
            unpacked.await.unwrap_or(Err(FrameError::CutOff))
        }))
    }

    /// The decompressed message. If the runtime has ended, the message counts as cut off.
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

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use petasos_call::Codec;
    use petasos_call::compress::compress;

    use super::*;
    use crate::compress::Compression;
    use crate::deframe::{Deframer, Framed};

    /// A message that is decompressed elsewhere.
    fn packed() -> Packed {
        let packed = compress(Codec::GZIP, &vec![0; 1 << 20], Vec::new());
        let frame = [&[1][..], &(packed.len() as u32).to_be_bytes(), &packed].concat();
        let mut deframer = Deframer::new(Compression::Gzip, 2 << 20);
        deframer.push(frame.into());
        match deframer.next() {
            Ok(Some(Framed::Packed(packed))) => packed,
            _ => panic!("the message is long"),
        }
    }

    #[tokio::test]
    async fn issue_10_a_connection_that_floods_delays_another_by_one_message() {
        const FLOOD: usize = 20;
        let places = Places::new(1);
        let (hostile, other) = (Share::of(&places), Share::of(&places));
        let runtime = Handle::current();
        let start = |share: &Share| Unpacking::start(&runtime, share, packed());
        let mut flood: Vec<Unpacking> = (0..FLOOD).map(|_| start(&hostile)).collect();
        let mut wanted = start(&other);
        let unpacked = poll_fn(|cx| wanted.poll(cx)).await;
        assert_eq!(unpacked.map(|bytes| bytes.len()), Ok(1 << 20));
        let done = flood.iter().filter(|unpacking| unpacking.0.is_finished()).count();
        assert!(done <= 2, "{done} of the flood came first");
        for unpacking in &mut flood {
            assert!(poll_fn(|cx| unpacking.poll(cx)).await.is_ok(), "each has its turn");
        }
    }
}
