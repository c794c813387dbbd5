//! With which processes this one may share memory.
//!
//! A network namespace and a user number are not enough: containers often share both. In addition,
//! this module requires what the kernel requires of a debugger that wants to read memory: the peer
//! must be in the same mount and user namespace. `/proc` does not even show the namespaces of a
//! process that this one may not inspect. So a peer that passes could read this process's memory,
//! or at least its files and keys, without rings. (Yama, which forbids to *attach* to other
//! processes, leaves those readable.)

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;

use nix::sys::socket::{getsockopt, sockopt};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// The namespaces that must be the same.
const NAMESPACES: [&str; 2] = ["mnt", "user"];

/// Whether the process at the other end had this one's user, mount namespace and user namespace
/// when it connected or listened. False if that cannot be determined: the process has ended, or
/// `/proc` does not show it.
pub(crate) fn is_trusted(socket: BorrowedFd<'_>) -> io::Result<bool> {
    // Not with rustix, which cannot represent a peer in another PID namespace.
    let peer = getsockopt(&socket, sockopt::PeerCredentials)?;
    if peer.uid() != rustix::process::geteuid().as_raw() {
        return Ok(false);
    }
    // A peer in a PID namespace that is invisible from here has the number 0.
    let Some(pid) = Pid::from_raw(peer.pid()) else { return Ok(false) };
    if pid == rustix::process::getpid() {
        return Ok(true);
    }
    let Ok(process) = open_process(socket, pid) else { return Ok(false) };
    let own = rustix::process::getpid();
    let same = NAMESPACES.iter().all(|name| {
        let theirs = namespace(pid, name);
        theirs.is_some() && theirs == namespace(own, name)
    });
    // The process still lives, so no other can have had its number.
    Ok(same && lives(&process))
}

/// A descriptor of the peer (Linux 6.5). On older kernels, of the process that has its number now:
/// if the peer ended before this looks, that may be another process.
fn open_process(socket: BorrowedFd<'_>, pid: Pid) -> io::Result<OwnedFd> {
    match getsockopt(&socket, sockopt::PeerPidfd) {
        Ok(process) => Ok(process),
        Err(nix::errno::Errno::ENOPROTOOPT) => Ok(pidfd_open(pid, PidfdFlags::empty())?),
        Err(error) => Err(error.into()),
    }
}

/// The identity of a namespace; `None` if this process may not know it.
fn namespace(pid: Pid, name: &str) -> Option<(u64, u64)> {
    let path = format!("/proc/{}/ns/{name}", pid.as_raw_nonzero());
    let metadata = std::fs::metadata(path).ok()?;
    Some((metadata.dev(), metadata.ino()))
}

/// A descriptor of a process becomes readable when it ends.
fn lives(process: &OwnedFd) -> bool {
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    let mut fds = [PollFd::from_borrowed_fd(process.as_fd(), PollFlags::IN)];
    poll(&mut fds, Some(&at_once)) == Ok(0)
}
