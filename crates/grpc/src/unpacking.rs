//! Slow decompression, on threads that may block.
//!
//! The thread that reads a connection's frames also serves other calls. So slow decompression runs
//! on other threads, in the places of [`crate::places`].

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use tokio::runtime::Handle;
use tokio::task::{JoinHandle, spawn_blocking};

use crate::deframe::{FrameError, Packed};
use crate::places::Share;

/// A message that is being decompressed. Dropping this cancels it, if its turn has not come.
pub(crate) struct Unpacking(JoinHandle<Result<Bytes, FrameError>>);

impl Unpacking {
    pub(crate) fn start(runtime: &Handle, share: &Share, packed: Packed) -> Unpacking {
        let share = share.clone();
        Unpacking(runtime.spawn(async move {
            let held = share.place().await;
            // The thread returns the place, so that it is not free before the thread has finished,
            // even if the message was given up, and messages are done in the order of their turns.
            let unpacked = spawn_blocking(move || (packed.unpack(), held));
            unpacked.await.map_or(Err(FrameError::CutOff), |(unpacked, _held)| unpacked)
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
    use tokio::sync::mpsc;

    use super::*;
    use crate::compress::Compression;
    use crate::deframe::{Deframer, Framed};
    use crate::places::Places;

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
    async fn issue_10_a_peer_that_floods_delays_another_by_one_message() {
        const FLOOD: usize = 20;
        let places = Places::new(1);
        let (hostile, other) = (Share::of(&places), Share::of(&places));
        let runtime = Handle::current();
        let start = |share: &Share| Unpacking::start(&runtime, share, packed());
        let (done, mut next_done) = mpsc::unbounded_channel();
        let tell = |is_wanted, mut unpacking: Unpacking| {
            let done = done.clone();
            runtime.spawn(async move {
                let unpacked = poll_fn(|cx| unpacking.poll(cx)).await;
                done.send((is_wanted, unpacked.map(|bytes| bytes.len())))
            });
        };
        (0..FLOOD).for_each(|_| tell(false, start(&hostile)));
        tell(true, start(&other));
        drop(done);
        let mut order = Vec::new();
        while let Some((is_wanted, unpacked)) = next_done.recv().await {
            assert_eq!(unpacked, Ok(1 << 20), "each has its turn");
            order.push(is_wanted);
        }
        assert_eq!(order.len(), FLOOD + 1);
        let first = order.iter().position(|is_wanted| *is_wanted);
        assert!(first.is_some_and(|first| first <= 2), "{first:?} of the flood came first");
    }
}
