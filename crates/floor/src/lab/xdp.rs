//! Guidelines on AF_XDP transmit rings. Frames are sent to an interface that discards them, so that
//! only sending is measured.

use petasos_netio_xdp::{TxHalf, XdpError, XskConfig, XskSocket};

use super::{BATCH, MESSAGE_BYTES, Switch};
use crate::FloorError;

/// The length of a frame: Ethernet, IPv4 and UDP headers, and the message.
const FRAME_BYTES: usize = 14 + 20 + 8 + MESSAGE_BYTES;
/// The local experimental EtherType 1 of IEEE 802, which no host handles.
const ETHERTYPE: [u8; 2] = [0x88, 0xb5];

/// A socket on one queue of an interface, for sending only.
pub struct Sender {
    socket: XskSocket,
    frame: [u8; FRAME_BYTES],
}

impl Sender {
    /// A socket on `queue` of the interface with this index in the thread's network namespace. It
    /// may be used by other threads, and keeps the namespace.
    ///
    /// # Errors
    /// See [`XskSocket::open`].
    pub fn open(interface_index: u32, queue: u32) -> Result<Sender, XdpError> {
        let config = XskConfig {
            frame_bytes: 2048,
            rx_frames: 64,
            tx_frames: 256,
            huge_pages: false,
            zero_copy: false,
            busy_poll_us: 0,
        };
        let mut frame = [1; FRAME_BYTES];
        // From one locally administered address to another.
        frame[..6].copy_from_slice(&[2, 0, 0, 0, 0, 1]);
        frame[6..12].copy_from_slice(&[2, 0, 0, 0, 0, 2]);
        frame[12..14].copy_from_slice(&ETHERTYPE);
        Ok(Sender { socket: XskSocket::open(interface_index, queue, &config)?, frame })
    }

    /// Sends a batch as far as there are free frames, and calls `after_each` after each frame.
    /// Returns the number of frames.
    #[inline]
    fn send(
        &mut self,
        mut after_each: impl FnMut(&mut TxHalf) -> Result<(), FloorError>,
    ) -> Result<u64, FloorError> {
        let (_, tx) = self.socket.halves();
        let mut sent = 0;
        while sent < BATCH as u64 {
            let Some(frame) = tx.frame() else { break };
            frame[..FRAME_BYTES].copy_from_slice(&self.frame);
            tx.push(FRAME_BYTES);
            sent += 1;
            after_each(tx)?;
        }
        flush(tx)?;
        Ok(sent)
    }
}

#[inline]
fn flush(tx: &mut TxHalf) -> Result<(), FloorError> {
    match tx.flush().down {
        false => Ok(()),
        true => Err(FloorError::Socket(std::io::Error::other("the interface is down"))),
    }
}

/// Batched doorbells: the kernel is notified for each frame, or once for a batch.
pub struct Kicks(
    /// Where they are sent.
    pub Sender,
);

impl Switch for Kicks {
    fn step(&mut self, follow: bool) -> Result<u64, FloorError> {
        if follow { self.0.send(|_| Ok(())) } else { self.0.send(flush) }
    }
}

/// Unsignalled completions: the completion ring is emptied after each frame, or before a batch.
pub struct Reclaiming(
    /// Where they are sent.
    pub Sender,
);

impl Switch for Reclaiming {
    fn step(&mut self, follow: bool) -> Result<u64, FloorError> {
        if follow {
            return self.0.send(|_| Ok(()));
        }
        self.0.send(|tx| {
            tx.reclaim();
            Ok(())
        })
    }
}

/// Several queues: the same batches over one queue, or over several in turn.
pub struct QueueCount(
    /// One for each queue.
    pub Vec<Sender>,
);

impl Switch for QueueCount {
    fn step(&mut self, follow: bool) -> Result<u64, FloorError> {
        let (count, active) = (self.0.len(), if follow { self.0.len() } else { 1 });
        let mut sent = 0;
        for index in 0..count {
            sent += self.0[index % active].send(|_| Ok(()))?;
        }
        Ok(sent)
    }
}
