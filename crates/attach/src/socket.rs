//! Bytes and file descriptors over Unix sockets. Nothing here waits.

use std::collections::VecDeque;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

use crate::message::FromService;

/// The most descriptors that come with one frame.
const FILES_MAX: usize = 2;

/// What a read found.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Received {
    /// So many bytes, at least one.
    Bytes(usize),
    /// Nothing yet.
    Nothing,
    /// More descriptors of files than there may be. They have been closed.
    TooManyFiles,
    /// The other side has closed its end, or died.
    Closed,
}

/// Reads from a peer that has no descriptors to send: the system closes any that come.
pub(crate) fn receive(socket: BorrowedFd<'_>, bytes: &mut [u8]) -> Received {
    let mut control = RecvAncillaryBuffer::default();
    receive_with(socket, bytes, &mut control)
}

/// Reads from the service, which sends descriptors. They are appended to `files`.
pub(crate) fn receive_files(
    socket: BorrowedFd<'_>,
    bytes: &mut [u8],
    files: &mut VecDeque<OwnedFd>,
) -> Received {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FILES_MAX))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = receive_with(socket, bytes, &mut control);
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(received) = message {
            files.extend(received);
        }
    }
    received
}

fn receive_with(
    socket: BorrowedFd<'_>,
    bytes: &mut [u8],
    control: &mut RecvAncillaryBuffer<'_>,
) -> Received {
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    match recvmsg(socket, &mut [IoSliceMut::new(bytes)], control, flags) {
        Ok(received) if received.flags.contains(ReturnFlags::CTRUNC) => Received::TooManyFiles,
        Ok(received) if received.bytes == 0 => Received::Closed,
        Ok(received) => Received::Bytes(received.bytes),
        Err(Errno::WOULDBLOCK | Errno::INTR) => Received::Nothing,
        Err(_) => Received::Closed,
    }
}

/// Sends what fits, without descriptors.
pub(crate) fn send(socket: BorrowedFd<'_>, bytes: &[u8]) -> rustix::io::Result<usize> {
    rustix::net::send(socket, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL)
}

/// Frames that wait to be sent, with their descriptors.
#[derive(Debug, Default)]
pub(crate) struct Output {
    frames: VecDeque<(Vec<u8>, Vec<OwnedFd>)>,
    /// How many bytes of the first frame are sent, and its descriptors with the first of them.
    sent: usize,
}

impl Output {
    pub(crate) fn push(&mut self, message: &FromService, files: Vec<OwnedFd>) {
        assert_eq!(message.descriptors(), files.len(), "each descriptor has been announced");
        let mut bytes = Vec::new();
        message.write(&mut bytes);
        self.frames.push_back((bytes, files));
    }

    pub(crate) fn len(&self) -> usize {
        self.frames.len()
    }

    /// Sends what fits. Returns how many bytes that were.
    ///
    /// # Errors
    /// If the other side is gone.
    pub(crate) fn flush(&mut self, socket: BorrowedFd<'_>) -> io::Result<usize> {
        let mut total = 0;
        while let Some((bytes, files)) = self.frames.front_mut() {
            match send_files(socket, &bytes[self.sent..], files) {
                Ok(count) => {
                    // They went with the first byte.
                    files.clear();
                    (self.sent, total) = (self.sent + count, total + count);
                }
                Err(error) if is_passing(error) => break,
                Err(error) => return Err(error.into()),
            }
            if self.sent == bytes.len() {
                self.frames.pop_front();
                self.sent = 0;
            }
        }
        Ok(total)
    }
}

/// Whether the same may succeed later: there is no room, or the system has too many descriptors in
/// flight or no memory.
pub(crate) fn is_passing(error: Errno) -> bool {
    matches!(
        error,
        Errno::WOULDBLOCK | Errno::INTR | Errno::TOOMANYREFS | Errno::NOBUFS | Errno::NOMEM
    )
}

fn send_files(
    socket: BorrowedFd<'_>,
    bytes: &[u8],
    files: &[OwnedFd],
) -> rustix::io::Result<usize> {
    if files.is_empty() {
        return send(socket, bytes);
    }
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FILES_MAX))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let files: Vec<_> = files.iter().map(AsFd::as_fd).collect();
    assert!(control.push(SendAncillaryMessage::ScmRights(&files)), "there is space for two");
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    sendmsg(socket, &[IoSlice::new(bytes)], &mut control, flags)
}

/// Which of `flags` came true in time, errors and the other side's end included.
pub(crate) fn poll_socket(
    socket: BorrowedFd<'_>,
    flags: PollFlags,
    timeout: Duration,
) -> PollFlags {
    // A time that the system cannot represent is for ever.
    let timeout = Timespec::try_from(timeout).ok();
    let mut fds = [PollFd::from_borrowed_fd(socket, flags)];
    match poll(&mut fds, timeout.as_ref()) {
        Ok(1..) => fds[0].revents(),
        _ => PollFlags::empty(),
    }
}
