//! One AF_XDP socket, bound to one queue of one interface.

use std::io;
use std::net::UdpSocket;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::xdp::{SocketAddrXdp, SocketAddrXdpFlags, XdpOptionsFlags, XdpStatistics};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, socket_with, sockopt};

use crate::XdpError;
use crate::error::{PRIVILEGES, kernel_lacks, system};
use crate::sys::{BusyPoll, FrameMemory, RxHalf, TxHalf, prefer_busy_poll};
use crate::xsk_config::XskConfig;

/// How frames travel between the driver and the UMEM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyMode {
    /// The device reads and writes the frames.
    ZeroCopy,
    /// The kernel copies each frame once in each direction.
    Copy,
}

/// An AF_XDP socket: frames, four rings, and the queue that it is bound to.
///
/// It receives the frames that an XDP program redirects to it ([`crate::XdpIo`] attaches one), and
/// sends whole Ethernet frames. Measurements use it alone as the floor.
pub struct XskSocket {
    rx: RxHalf,
    tx: TxHalf,
    socket: Arc<OwnedFd>,
    copy_mode: CopyMode,
    huge_pages: bool,
}

impl XskSocket {
    /// Opens a socket on `queue` of the interface with this index in the thread's network
    /// namespace. If another socket has just left a queue, the queue stays busy for a while;
    /// opening waits for it up to half a second.
    ///
    /// # Errors
    /// [`XdpError::Config`], [`XdpError::Privilege`], [`XdpError::QueueBusy`],
    /// [`XdpError::QueueMissing`], [`XdpError::LockedMemory`], [`XdpError::KernelTooOld`], or
    /// [`XdpError::System`].
    pub fn open(
        interface_index: u32,
        queue: u32,
        config: &XskConfig,
    ) -> Result<XskSocket, XdpError> {
        config.check()?;
        let socket = Arc::new(new_socket()?);
        let memory =
            FrameMemory::map(config).map_err(|error| system("map memory for frames", error))?;
        memory.register(&socket).map_err(|error| umem_error(error, config))?;
        let at = make_rings(&socket, config).map_err(|error| system("make rings", error))?;
        let map = |error: io::Error| match error.kind() {
            io::ErrorKind::Unsupported => kernel_lacks("need-wakeup flags in its rings", "5.4"),
            _ => system("map the rings", error),
        };
        let rx = RxHalf::map(Arc::clone(&socket), Arc::clone(&memory), &at).map_err(map)?;
        let tx = TxHalf::map(Arc::clone(&socket), Arc::clone(&memory), &at).map_err(map)?;
        if config.busy_poll_us > 0 {
            let poll = BusyPoll { us: config.busy_poll_us, budget: BUSY_POLL_BUDGET };
            prefer_busy_poll(&socket, poll)
                .map_err(|_| kernel_lacks("preferred busy polling", "5.11"))?;
        }
        bind_queue(&socket, interface_index, queue, config.zero_copy)?;
        let options = sockopt::xdp_options(&*socket)
            .map_err(|error| system("read the socket's mode", error.into()))?;
        let zero_copy = options.contains(XdpOptionsFlags::XDP_OPTIONS_ZEROCOPY);
        let copy_mode = if zero_copy { CopyMode::ZeroCopy } else { CopyMode::Copy };
        Ok(XskSocket { rx, tx, socket, copy_mode, huge_pages: memory.huge_pages() })
    }

    /// The two halves, which can be used independently.
    #[inline]
    pub fn halves(&mut self) -> (&mut RxHalf, &mut TxHalf) {
        (&mut self.rx, &mut self.tx)
    }

    /// Whether the driver copies.
    pub fn copy_mode(&self) -> CopyMode {
        self.copy_mode
    }

    /// Whether the frames lie in huge pages.
    pub fn huge_pages(&self) -> bool {
        self.huge_pages
    }

    /// How many system calls were made so far to make the kernel process frames, and how many of
    /// them were useless.
    pub(crate) fn wakeups(&self) -> (u64, u64) {
        self.rx.wakeups()
    }

    /// The kernel's counters of this socket.
    pub(crate) fn kernel_statistics(&self) -> io::Result<XdpStatistics> {
        Ok(sockopt::xdp_statistics(&*self.socket)?)
    }
}

impl AsFd for XskSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// A new, unbound AF_XDP socket.
pub(crate) fn new_socket() -> Result<OwnedFd, XdpError> {
    let socket = socket_with(AddressFamily::XDP, SocketType::RAW, SocketFlags::CLOEXEC, None);
    socket.map_err(|error| match error {
        Errno::PERM | Errno::ACCESS => {
            XdpError::Privilege { attempt: "open an AF_XDP socket", needs: PRIVILEGES }
        }
        Errno::AFNOSUPPORT => kernel_lacks("AF_XDP sockets (CONFIG_XDP_SOCKETS)", "4.18"),
        error => system("open an AF_XDP socket", error.into()),
    })
}

fn make_rings(
    socket: &OwnedFd,
    config: &XskConfig,
) -> io::Result<rustix::net::xdp::XdpMmapOffsets> {
    sockopt::set_xdp_umem_fill_ring_size(socket, config.fill_entries())?;
    sockopt::set_xdp_umem_completion_ring_size(socket, config.tx_frames)?;
    sockopt::set_xdp_rx_ring_size(socket, config.rx_frames)?;
    sockopt::set_xdp_tx_ring_size(socket, config.tx_entries())?;
    Ok(sockopt::xdp_mmap_offsets(socket)?)
}

/// Binds with zero copy if the driver can and `zero_copy` allows it, otherwise with copies.
fn bind_queue(
    socket: &OwnedFd,
    interface_index: u32,
    queue: u32,
    zero_copy: bool,
) -> Result<(), XdpError> {
    let bind_as = |mode| {
        let flags = mode | SocketAddrXdpFlags::XDP_USE_NEED_WAKEUP;
        let address = SocketAddrXdp::new(flags, interface_index, queue);
        for _ in 0..BIND_TRIES {
            match bind(socket, &address) {
                Err(Errno::BUSY) => std::thread::sleep(BIND_PAUSE),
                other => return other,
            }
        }
        bind(socket, &address)
    };
    if zero_copy {
        match bind_as(SocketAddrXdpFlags::XDP_ZEROCOPY) {
            Ok(()) => return Ok(()),
            Err(Errno::BUSY) => return Err(XdpError::QueueBusy { queue }),
            // Drivers without zero copy return different errors; copy mode decides.
            Err(_) => {}
        }
    }
    bind_as(SocketAddrXdpFlags::XDP_COPY).map_err(|error| match error {
        Errno::BUSY => XdpError::QueueBusy { queue },
        Errno::INVAL => XdpError::QueueMissing { queue },
        error => system("bind the AF_XDP socket", error.into()),
    })
}

fn umem_error(error: io::Error, config: &XskConfig) -> XdpError {
    match error.raw_os_error() {
        Some(libc::ENOBUFS) => {
            let bytes = config.umem_bytes() as u64;
            XdpError::LockedMemory { bytes, limit_bytes: locked_memory_max() }
        }
        _ => system("register the frames with the kernel", error),
    }
}

/// The soft limit of locked memory, in bytes; `None` if there is none.
pub(crate) fn locked_memory_max() -> Option<u64> {
    let limits = std::fs::read_to_string("/proc/self/limits").ok()?;
    let line = limits.lines().find(|line| line.starts_with("Max locked memory"))?;
    line.split_whitespace().nth(3)?.parse().ok()
}

/// A kernel UDP socket at the backend's address, so that no other socket can use it.
pub(crate) fn reserve(address: std::net::SocketAddr) -> Result<UdpSocket, XdpError> {
    let socket = UdpSocket::bind(address).map_err(|error| match error.kind() {
        io::ErrorKind::AddrInUse => XdpError::AddressInUse(address),
        io::ErrorKind::AddrNotAvailable => XdpError::AddressNotLocal(address),
        _ => system("reserve the UDP port", error),
    })?;
    crate::sys::drop_everything(&socket)
        .map_err(|error| system("attach a filter to the reserved port", error))?;
    Ok(socket)
}
const BIND_TRIES: u32 = 50;
const BIND_PAUSE: Duration = Duration::from_millis(10);
const BUSY_POLL_BUDGET: u32 = 64;
