//! The result of sending.

use rustix::io::Errno;

/// What a [`TxHalf::flush`](crate::TxHalf::flush) did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flush {
    /// System calls made.
    pub syscalls: u32,
    /// Frames that the driver refused and dropped.
    pub dropped: u32,
    /// The interface is down or gone: nothing can be sent now.
    pub down: bool,
}

impl Flush {
    /// Notes why a call sent less than everything. Returns how many frames it dropped.
    #[cold]
    pub(crate) fn note(&mut self, error: Errno) -> u32 {
        match error {
            // The driver took the frame and dropped it (`NET_XMIT_DROP`).
            Errno::BUSY => {
                self.dropped += 1;
                return 1;
            }
            Errno::NETDOWN | Errno::NXIO | Errno::NODEV => self.down = true,
            // The call exceeded the kernel's budget, or memory or queue space is short for now.
            _ => {}
        }
        0
    }
}
