//! The process at the other end of a socket, as the kernel reports it.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::{fmt, io};

use nix::sys::socket::{getsockopt, sockopt};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// The process at the other end, when it connected or began to listen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// Its effective user.
    pub uid: u32,
    /// Its effective group.
    pub gid: u32,
    /// Its number, unless its PID namespace cannot be seen from here.
    pub pid: Option<i32>,
}

impl Credentials {
    /// Of the process at the other end of a Unix socket.
    ///
    /// # Errors
    /// The system's, if it is no such socket.
    pub fn of(socket: BorrowedFd<'_>) -> io::Result<Credentials> {
        // Not with rustix, which cannot represent a process that has no number here.
        let peer = getsockopt(&socket, sockopt::PeerCredentials)?;
        let pid = Some(peer.pid()).filter(|pid| *pid > 0);
        Ok(Credentials { uid: peer.uid(), gid: peer.gid(), pid })
    }
}

impl fmt::Display for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.pid {
            Some(pid) => write!(f, "process {pid} of user {}", self.uid),
            None => write!(f, "a process of user {}", self.uid),
        }
    }
}

/// A process whose end can be seen.
#[derive(Debug)]
pub(crate) struct Process(OwnedFd);

impl Process {
    /// The one at the other end. `None` if the system does not tell which that is, or it is gone.
    /// Before Linux 6.5, another process may have its number by now.
    pub(crate) fn of(socket: BorrowedFd<'_>, credentials: Credentials) -> Option<Process> {
        if let Ok(process) = getsockopt(&socket, sockopt::PeerPidfd) {
            return Some(Process(process));
        }
        let pid = Pid::from_raw(credentials.pid?)?;
        pidfd_open(pid, PidfdFlags::empty()).ok().map(Process)
    }

    /// A descriptor of a process becomes readable when it ends.
    pub(crate) fn has_ended(&self) -> bool {
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        let mut fds = [PollFd::from_borrowed_fd(self.0.as_fd(), PollFlags::IN)];
        poll(&mut fds, Some(&at_once)) != Ok(0)
    }
}
