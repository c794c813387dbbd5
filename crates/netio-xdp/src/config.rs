//! Configuration of the backend.

use crate::mode::{AttachMode, XdpMode};
use crate::{XdpError, XskConfig};
use petasos_netio_frame::ETHERNET_BYTES;
use petasos_netlink::Interface;

/// How an [`XdpIo`](crate::XdpIo) behaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct XdpConfig {
    /// The interface to use; `None` for the one that has the address.
    pub interface: Option<String>,
    /// The queue to use, in both directions. An endpoint has its own queue and receives only what
    /// arrives there. If the interface has several queues, steer the endpoint's UDP port to it
    /// (`ethtool -N INTERFACE flow-type udp4 dst-port PORT action QUEUE`).
    /// [`XdpStats::rx_diverted`] counts what arrived on others.
    ///
    /// [`XdpStats::rx_diverted`]: crate::XdpStats::rx_diverted
    pub queue: u32,
    /// Where the steering program may run.
    pub attach: AttachMode,
    /// Use zero copy if the driver can.
    pub zero_copy: bool,
    /// Take frames from the pool of huge pages if it has enough.
    pub huge_pages: bool,
    /// The longest time for which a receive call runs the driver, in microseconds; 0 leaves the
    /// driver to its interrupts. Useful with one core per endpoint and a device with a busy queue.
    pub busy_poll_us: u32,
    /// How many frames to receive into, a power of two. This is also how many packets can wait.
    pub rx_frames: u32,
    /// How many frames to send from, a power of two.
    pub tx_frames: u32,
    /// Bytes of a frame, 2048 or 4096; `None` uses the smaller one that holds the interface's MTU.
    pub frame_bytes: Option<u32>,
    /// Mark sent packets as ECN-capable. Set this only if senders slow down when they learn of
    /// congestion. The marks of received packets are always read.
    pub ecn_capable: bool,
    /// Accept datagrams whose checksum a virtual interface has left for a device to compute. Needed
    /// for kernel sockets at the other end of a veth pair, unless their interface has checksum
    /// offload off (`ethtool -K INTERFACE tx off`). It weakens the check for all datagrams: one
    /// damaged datagram in 2^15 passes instead of one in 2^16.
    pub partial_checksums: bool,
    /// Largest datagram payload, in bytes, whatever the path allows.
    pub datagram_bytes_max: usize,
    /// The most peers that the backend knows at once.
    pub routes_max: usize,
    /// How long a new route may wait for the neighbour's address, in milliseconds. The kernel
    /// continues to ask after that, so a later attempt may succeed.
    pub resolve_wait_ms: u64,
}

impl Default for XdpConfig {
    fn default() -> XdpConfig {
        XdpConfig {
            interface: None,
            queue: 0,
            attach: AttachMode::Auto,
            zero_copy: true,
            huge_pages: false,
            busy_poll_us: 0,
            rx_frames: 4096,
            tx_frames: 1024,
            frame_bytes: None,
            ecn_capable: false,
            partial_checksums: false,
            datagram_bytes_max: 8972,
            routes_max: 1 << 16,
            resolve_wait_ms: 100,
        }
    }
}

impl XdpConfig {
    /// The socket for an interface with this MTU.
    pub(crate) fn socket(
        &self,
        interface: &Interface,
        mode: XdpMode,
    ) -> Result<XskConfig, XdpError> {
        Ok(XskConfig {
            frame_bytes: frame_bytes(self.frame_bytes, interface)?,
            rx_frames: self.rx_frames,
            tx_frames: self.tx_frames,
            huge_pages: self.huge_pages,
            zero_copy: self.zero_copy && mode == XdpMode::Native,
            busy_poll_us: self.busy_poll_us,
        })
    }
}

/// The size of frames that hold the interface's packets; at most `asked`.
pub(crate) fn frame_bytes(asked: Option<u32>, interface: &Interface) -> Result<u32, XdpError> {
    let (mtu, name) = (interface.mtu, interface.name.clone());
    let fits = |bytes: &u32| mtu <= mtu_max(*bytes);
    let candidates = asked.map_or(FRAME_BYTES, |asked| [asked; 2]);
    candidates.into_iter().find(fits).ok_or(XdpError::MtuTooLarge {
        name,
        mtu,
        mtu_max: mtu_max(candidates[1]),
    })
}

/// The largest MTU whose packets fit into a frame after the kernel's headroom of 256 bytes.
fn mtu_max(frame_bytes: u32) -> u32 {
    frame_bytes.saturating_sub(256 + ETHERNET_BYTES as u32)
}

const FRAME_BYTES: [u32; 2] = [2048, 4096];

#[cfg(test)]
mod tests {
    use super::*;

    fn interface(mtu: u32) -> Interface {
        Interface {
            index: 1,
            name: "eth0".to_owned(),
            mac: Some([2; 6]),
            loopback: false,
            up: true,
            mtu,
            rx_queues: 1,
            tx_queues: 1,
            kind: None,
            program_id: None,
        }
    }

    #[test]
    fn the_smallest_frame_that_holds_the_mtu_is_taken() {
        for (mtu, expected) in [(1500, 2048), (1778, 2048), (1779, 4096), (3826, 4096)] {
            assert_eq!(frame_bytes(None, &interface(mtu)).unwrap(), expected, "MTU {mtu}");
        }
        assert_eq!(frame_bytes(Some(4096), &interface(1500)).unwrap(), 4096);
    }

    #[test]
    fn an_mtu_beyond_a_frame_is_refused_with_the_one_that_works() {
        let refused = frame_bytes(None, &interface(9000)).unwrap_err();
        assert!(matches!(refused, XdpError::MtuTooLarge { mtu: 9000, mtu_max: 3826, .. }));
        assert!(refused.to_string().contains("ip link set eth0 mtu 3826"));
        let refused = frame_bytes(Some(2048), &interface(2000)).unwrap_err();
        assert!(matches!(refused, XdpError::MtuTooLarge { mtu_max: 1778, .. }));
    }
}
