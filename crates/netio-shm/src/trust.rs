//! Whose memory may be shared.
//!
//! A network namespace and a user number say little: containers often share both. What is asked
//! for in addition is what the kernel asks of a debugger that wants to read: the peer must be a
//! process of the same mount and user namespace. `/proc` does not even tell the namespaces of a
//! process that this one may not look into. So whoever passes could read this process's memory,
//! or at least its files and keys, without rings (Yama, which forbids to *attach* to strangers,
//! leaves those readable).

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;

use nix::sys::socket::{getsockopt, sockopt};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// The namespaces that must be the same.
const NAMESPACES: [&str; 2] = ["mnt", "user"];

/// Whether the process at the other end was this one's user, in its mount and user namespace, when
/// it connected or listened. Not, if that cannot be told: it has ended, or `/proc` does not
/// show it.
pub(crate) fn is_trusted(socket: BorrowedFd<'_>) -> io::Result<bool> {
    // Not through rustix, which cannot represent a peer of another PID namespace.
    let peer = getsockopt(&socket, sockopt::PeerCredentials)?;
    if peer.uid() != rustix::process::geteuid().as_raw() {
        return Ok(false);
    }
    // A peer of a PID namespace that this one does not see has the number 0.
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
    // While the process lives, nobody else has had its number.
    Ok(same && lives(&process))
}

/// The peer itself (Linux 6.5). Before, whoever has its number now: a process that ended before it
/// was looked at may have left it to another.
fn open_process(socket: BorrowedFd<'_>, pid: Pid) -> io::Result<OwnedFd> {
    match getsockopt(&socket, sockopt::PeerPidfd) {
        Ok(process) => Ok(process),
        Err(nix::errno::Errno::ENOPROTOOPT) => Ok(pidfd_open(pid, PidfdFlags::empty())?),
        Err(error) => Err(error.into()),
    }
}

/// What names a namespace; `None` if this process may not know.
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
