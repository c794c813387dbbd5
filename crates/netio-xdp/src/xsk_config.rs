//! Configuration of an AF_XDP socket.

use crate::XdpError;

/// The parameters of an [`XskSocket`](crate::XskSocket).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct XskConfig {
    /// Bytes of a frame: 2048 or 4096. The kernel reserves 256 bytes of a received frame.
    pub frame_bytes: u32,
    /// How many frames to receive into, a power of two.
    pub rx_frames: u32,
    /// How many frames to send from, a power of two.
    pub tx_frames: u32,
    /// Take the frames from the pool of huge pages if it has enough.
    pub huge_pages: bool,
    /// Try zero copy before copy mode.
    pub zero_copy: bool,
    /// The longest busy polling in a receive call, in microseconds; 0 leaves it to interrupts.
    pub busy_poll_us: u32,
}

impl XskConfig {
    /// Bytes of the receive frames.
    pub(crate) fn rx_bytes(&self) -> usize {
        self.rx_frames as usize * self.frame_bytes as usize
    }

    /// Bytes of all frames.
    pub(crate) fn umem_bytes(&self) -> usize {
        self.rx_bytes() + self.tx_frames as usize * self.frame_bytes as usize
    }

    /// Entries of the fill ring: see `sys::halves` for the factor.
    pub(crate) fn fill_entries(&self) -> u32 {
        2 * self.rx_frames
    }

    /// Entries of the transmit ring.
    pub(crate) fn tx_entries(&self) -> u32 {
        2 * self.tx_frames
    }

    /// Longest frame that can be received, in bytes.
    pub(crate) fn rx_frame_bytes_max(&self) -> usize {
        self.frame_bytes as usize - KERNEL_HEADROOM_BYTES
    }

    pub(crate) fn check(&self) -> Result<(), XdpError> {
        let power = |count: u32| count.is_power_of_two() && (64..=1 << 20).contains(&count);
        if !matches!(self.frame_bytes, 2048 | 4096) {
            return Err(XdpError::Config("frames have 2048 or 4096 bytes"));
        }
        if !power(self.rx_frames) || !power(self.tx_frames) {
            return Err(XdpError::Config("the number of frames is a power of two from 64 to 2^20"));
        }
        if self.umem_bytes() as u64 > 1 << 32 {
            return Err(XdpError::Config("all frames together have at most 4 GiB"));
        }
        Ok(())
    }
}

/// What the kernel keeps free before each received frame (`XDP_PACKET_HEADROOM`).
const KERNEL_HEADROOM_BYTES: usize = 256;
