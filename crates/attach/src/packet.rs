//! Packets with descriptors of files, over Unix sockets that keep the bounds of packets (those of
//! [`Bound::packets`](crate::Bound::packets)). None is ever half there, and nothing here waits.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
    connect as connect_to, recvmsg, sendmsg, socket_with,
};

/// The most descriptors of a packet. Of what comes with more, none stays open.
pub const FILES_MAX: usize = 4;

/// What a look at a socket found.
#[derive(Debug)]
pub enum Received {
    /// A packet of so many bytes, 1 or more, and its descriptors, which are not inherited by
    /// programs that are run.
    Packet(usize, Vec<OwnedFd>),
    /// Nothing now.
    Nothing,
    /// A packet that is too long, or has too many descriptors. The peer's fault.
    Cut,
    /// The other process is gone, or has hung up.
    Gone,
}

/// Connects to who listens at a path.
///
/// # Errors
/// The system's.
pub fn connect(path: &Path) -> rustix::io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
    connect_to(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket)
}

/// Takes the next packet, which is written to the beginning of `bytes`.
pub fn receive(socket: BorrowedFd<'_>, bytes: &mut [u8]) -> Received {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FILES_MAX))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    let got = recvmsg(socket, &mut [IoSliceMut::new(bytes)], &mut control, flags);
    let mut files = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(received) = message {
            files.extend(received);
        }
    }
    match got {
        // After a reset, the next look finds what was said before it, or the end.
        Err(Errno::WOULDBLOCK | Errno::INTR | Errno::CONNRESET) => Received::Nothing,
        Ok(got) if got.bytes > 0 => {
            match got.flags.intersects(ReturnFlags::CTRUNC | ReturnFlags::TRUNC) {
                true => Received::Cut,
                false => Received::Packet(got.bytes, files),
            }
        }
        Ok(_) | Err(_) => Received::Gone,
    }
}

/// Sends a packet, whole or not at all.
///
/// # Errors
/// [`is_passing`] says whether it may go later; otherwise the other process is gone.
///
/// # Panics
/// If there are more than [`FILES_MAX`] descriptors. The program's fault.
pub fn send(
    socket: BorrowedFd<'_>,
    packet: &[u8],
    files: &[BorrowedFd<'_>],
) -> rustix::io::Result<()> {
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FILES_MAX))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !files.is_empty() {
        assert!(control.push(SendAncillaryMessage::ScmRights(files)), "there is space for them");
    }
    sendmsg(socket, &[IoSlice::new(packet)], &mut control, flags).map(drop)
}

/// Whether what could not be sent may be sent later. With too many descriptors in flight, the other
/// process has to take some first.
pub fn is_passing(error: Errno) -> bool {
    crate::socket::is_passing(error)
}
