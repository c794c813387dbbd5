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
            let unpacked = spawn_blocking(move || {
                // Not free before the thread has finished, even if the message was given up.
                let _held = held;
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
