//! Sending and receiving datagrams, one at a time and in batches.
//!
//! For single messages, this makes the system call itself instead of calling the C library's
//! function of the same name. Those functions are cancellation points of POSIX threads, which costs
//! a process with several threads two atomic operations each, some 20 ns.

use core::ffi::c_int;
use core::mem::size_of;
use core::ptr;
use std::io::{self, IoSlice};
use std::os::fd::{AsRawFd, BorrowedFd};

use arrayvec::ArrayVec;
use petasos_netio::TX_BATCH_MAX;

use super::SocketAddress;
use super::control::{Control, ControlBuffer, SegmentControl, parse};

/// The most messages that one [`send_many`] sends.
const SEND_MESSAGES_MAX: usize = TX_BATCH_MAX;

/// The most messages that one [`receive_many`] receives.
pub(crate) const RECEIVE_MESSAGES_MAX: usize = 8;

/// One datagram to send, or a train of them.
#[derive(Clone, Copy)]
pub(crate) struct Message<'a> {
    /// The destination. A connected socket needs none.
    pub destination: Option<&'a SocketAddress>,
    /// The bytes, in order.
    pub pieces: &'a [IoSlice<'a>],
    /// Bytes of each datagram, if the kernel should split the bytes into several.
    pub segment_bytes: Option<u16>,
}

/// One datagram received, or a train of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    /// Bytes written to the buffer.
    pub len: usize,
    /// Whether the buffer was too short.
    pub truncated: bool,
    /// The control data.
    pub control: Control,
    /// The sender's address; empty if it was not asked for.
    pub source: SocketAddress,
}

impl Message<'_> {
    /// Whether the message needs a control message with its segment size, on a socket whose own
    /// segment size is `set`, or 0 for none.
    #[inline]
    pub(crate) fn needs_control(&self, set: u16) -> bool {
        match self.segment_bytes {
            Some(bytes) => bytes != set,
            None => set != 0 && self.bytes() > usize::from(set),
        }
    }

    fn bytes(&self) -> usize {
        self.pieces.iter().map(|piece| piece.len()).sum()
    }
}

/// Sends one message on a socket whose own segment size is `set`. Returns its length in bytes.
#[inline]
pub(crate) fn send_one(fd: BorrowedFd<'_>, message: &Message<'_>, set: u16) -> io::Result<usize> {
    let controlled = message.needs_control(set);
    if let (Some(to), [piece], false) = (message.destination, message.pieces, controlled) {
        return send_plain(fd, to, piece);
    }
    let control = SegmentControl::new(message.segment_bytes.unwrap_or(0));
    let header = send_header(message, controlled.then_some(&control));
    // SAFETY: the header's pointers come from `message` and `control`, which outlive the call and
    // which the kernel only reads.
    let sent =
        unsafe { libc::syscall(libc::SYS_sendmsg, fd.as_raw_fd(), &raw const header, SEND_FLAGS) };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

/// Sends one piece to one peer. The kernel copies less than for a message header.
#[inline]
fn send_plain(fd: BorrowedFd<'_>, to: &SocketAddress, piece: &[u8]) -> io::Result<usize> {
    let (number, fd) = (libc::SYS_sendto, fd.as_raw_fd());
    // SAFETY: `piece` and `to` outlive the call, which reads as many bytes of each as it is told.
    let sent = unsafe {
        let (bytes, len) = (piece.as_ptr(), piece.len());
        libc::syscall(number, fd, bytes, len, SEND_FLAGS, to.as_ptr(), to.len())
    };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

/// Sends a prefix of `messages`, at most [`SEND_MESSAGES_MAX`] of them, on a socket whose own
/// segment size is `set`. Returns its length, at least 1. An error is that of the first message.
pub(crate) fn send_many(
    fd: BorrowedFd<'_>,
    messages: &[Message<'_>],
    set: u16,
) -> io::Result<usize> {
    let messages = &messages[..messages.len().min(SEND_MESSAGES_MAX)];
    // Filled in place, since `collect` would move kilobytes.
    let mut controls: ArrayVec<SegmentControl, SEND_MESSAGES_MAX> = ArrayVec::new();
    for message in messages {
        controls.push(SegmentControl::new(message.segment_bytes.unwrap_or(0)));
    }
    let mut headers: ArrayVec<libc::mmsghdr, SEND_MESSAGES_MAX> = ArrayVec::new();
    for (message, control) in messages.iter().zip(&controls) {
        let control = message.needs_control(set).then_some(control);
        headers.push(libc::mmsghdr { msg_hdr: send_header(message, control), msg_len: 0 });
    }
    let (pointer, len) = (headers.as_mut_ptr(), headers.len() as u32);
    // SAFETY: `pointer` refers to `len` headers, of which the kernel writes only `msg_len`. Their
    // pointers come from `messages` and `controls`, which outlive the call and are only read.
    let sent = unsafe { libc::sendmmsg(fd.as_raw_fd(), pointer, len, SEND_FLAGS as _) };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

/// Receives one message into `buffer`, and also its sender's address if `named`.
#[inline]
pub(crate) fn receive_one(
    fd: BorrowedFd<'_>,
    buffer: &mut [u8],
    named: bool,
) -> io::Result<Arrival> {
    let mut source = SocketAddress::EMPTY;
    let mut control = ControlBuffer([0; _]);
    let mut piece = receive_piece(buffer);
    let mut header = receive_header(&mut piece, &mut control);
    if named {
        name_source(&mut header, &mut source);
    }
    // SAFETY: the header's pointers come from exclusive borrows of `buffer` and local
    // variables, with their lengths; all outlive the call.
    let len =
        unsafe { libc::syscall(libc::SYS_recvmsg, fd.as_raw_fd(), &raw mut header, RECEIVE_FLAGS) };
    let len = usize::try_from(len).map_err(|_| io::Error::last_os_error())?;
    Ok(arrival(len, &header, &control, source))
}

/// Receives up to `count` messages, but no more than [`RECEIVE_MESSAGES_MAX`], each into its own
/// `stride` bytes of `memory`. `arrivals` is cleared and then gets one entry per message.
pub(crate) fn receive_many(
    fd: BorrowedFd<'_>,
    memory: &mut [u8],
    stride: usize,
    count: usize,
    arrivals: &mut ArrayVec<Arrival, RECEIVE_MESSAGES_MAX>,
) -> io::Result<()> {
    arrivals.clear();
    let count = count.min(RECEIVE_MESSAGES_MAX);
    let mut controls: ArrayVec<ControlBuffer, RECEIVE_MESSAGES_MAX> = ArrayVec::new();
    let mut pieces: ArrayVec<libc::iovec, RECEIVE_MESSAGES_MAX> = ArrayVec::new();
    for buffer in memory.chunks_exact_mut(stride).take(count) {
        controls.push(ControlBuffer([0; _]));
        pieces.push(receive_piece(buffer));
    }
    let mut sources = [SocketAddress::EMPTY; RECEIVE_MESSAGES_MAX];
    let mut headers: ArrayVec<libc::mmsghdr, RECEIVE_MESSAGES_MAX> = ArrayVec::new();
    for ((piece, control), source) in pieces.iter_mut().zip(&mut controls).zip(&mut sources) {
        let mut msg_hdr = receive_header(piece, control);
        name_source(&mut msg_hdr, source);
        headers.push(libc::mmsghdr { msg_hdr, msg_len: 0 });
    }
    let (pointer, len) = (headers.as_mut_ptr(), headers.len() as u32);
    let (flags, timeout) = (RECEIVE_FLAGS as _, ptr::null_mut());
    // SAFETY: `pointer` refers to `len` headers, whose pointers come from exclusive borrows of
    // disjoint parts of `memory`, `pieces`, `controls` and `sources`, with their lengths; all
    // outlive the call.
    let received = unsafe { libc::recvmmsg(fd.as_raw_fd(), pointer, len, flags, timeout) };
    let received = usize::try_from(received).map_err(|_| io::Error::last_os_error())?;
    for ((header, control), source) in headers.iter().zip(&controls).zip(sources).take(received) {
        arrivals.push(arrival(header.msg_len as usize, &header.msg_hdr, control, source));
    }
    Ok(())
}

const SEND_FLAGS: c_int = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
const RECEIVE_FLAGS: c_int = libc::MSG_DONTWAIT;

fn empty_header() -> libc::msghdr {
    // SAFETY: `msghdr` consists of integers and raw pointers, for which zero is a valid value.
    unsafe { core::mem::zeroed() }
}

/// A header whose pointers live as long as `message` and `control`.
#[inline]
fn send_header(message: &Message<'_>, control: Option<&SegmentControl>) -> libc::msghdr {
    let mut header = empty_header();
    if let Some(destination) = message.destination {
        header.msg_name = destination.as_ptr().cast_mut().cast();
        header.msg_namelen = destination.len();
    }
    // `IoSlice` has the layout of `iovec`, as its documentation guarantees on Unix.
    header.msg_iov = message.pieces.as_ptr().cast_mut().cast();
    header.msg_iovlen = message.pieces.len() as _;
    if let Some(control) = control {
        header.msg_control = ptr::from_ref(control).cast_mut().cast();
        header.msg_controllen = size_of::<SegmentControl>() as _;
    }
    header
}

fn receive_piece(buffer: &mut [u8]) -> libc::iovec {
    libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() }
}

/// A header whose pointers live as long as `piece` and `control`.
#[inline]
fn receive_header(piece: &mut libc::iovec, control: &mut ControlBuffer) -> libc::msghdr {
    let mut header = empty_header();
    header.msg_iov = piece;
    header.msg_iovlen = 1;
    header.msg_controllen = control.0.len() as _;
    header.msg_control = control.0.as_mut_ptr().cast();
    header
}

/// Makes the kernel write the sender's address to `source`, which must outlive the call.
#[inline]
fn name_source(header: &mut libc::msghdr, source: &mut SocketAddress) {
    header.msg_namelen = source.len();
    header.msg_name = source.as_mut_ptr().cast();
}

#[inline]
fn arrival(
    len: usize,
    header: &libc::msghdr,
    control: &ControlBuffer,
    source: SocketAddress,
) -> Arrival {
    let control_len = header.msg_controllen.min(control.0.len());
    let truncated = header.msg_flags & libc::MSG_TRUNC != 0;
    Arrival { len, truncated, control: parse(&control.0[..control_len]), source }
}
