//! A socket at a path: how a service puts it there, and which of two services owns it.
//!
//! The service locks a file beside the socket, `PATH.lock`, as long as it has the socket. The file
//! stays when the service has ended. The holder of the lock may replace a socket that a dead
//! service has left. It binds the new socket under another name, `PATH.new`, sets its mode, and
//! renames it. So the socket at the path never has another mode, and replaces an old one in one
//! step.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, Mode, OFlags, flock};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, socket_with};

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 128;

/// Why a service cannot listen at a path. What was there before is there still.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ListenError {
    /// Another service has the socket, and lives. A retry is safe, and of use when it has ended.
    #[error("another service listens at {0}")]
    InUse(PathBuf),
    /// Something that is no socket has this name. Whoever chose the path is at fault.
    #[error("{0} exists and is no socket")]
    NotASocket(PathBuf),
    /// Descriptors that were given are not those of this path. Whoever gave them is at fault.
    #[error("what was given is not the socket at {0}")]
    NotIt(PathBuf),
    /// No socket can have so long a path. Whoever chose it is at fault.
    #[error("{0} is too long for a socket")]
    Path(PathBuf),
    /// The system refused.
    #[error("cannot {attempt}: {error}")]
    System {
        /// What was attempted.
        attempt: &'static str,
        /// What the system said.
        error: io::Error,
    },
}

pub(super) fn failed<E: Into<io::Error>>(attempt: &'static str) -> impl FnOnce(E) -> ListenError {
    move |error| ListenError::System { attempt, error: error.into() }
}

/// A listening socket at a path, which does not block. Dropping it removes the path.
#[derive(Debug)]
pub struct Bound {
    pub(super) socket: OwnedFd,
    path: PathBuf,
    /// The device and number of the socket's file.
    file: (u64, u64),
    /// Others see that it is locked. Whoever has a copy of the descriptor has the lock.
    lock: OwnedFd,
    /// The path is this process's, and goes with this.
    is_own: bool,
}

impl Bound {
    /// Listens at `path`, whose file gets this mode. Beside it, the file `PATH.lock` says that a
    /// service has it.
    ///
    /// # Errors
    /// See [`ListenError`].
    pub fn new(path: &Path, mode: u32) -> Result<Bound, ListenError> {
        Bound::of_type(path, mode, SocketType::STREAM)
    }

    /// The same, for packets whose bounds are kept.
    ///
    /// # Errors
    /// See [`ListenError`].
    pub fn packets(path: &Path, mode: u32) -> Result<Bound, ListenError> {
        Bound::of_type(path, mode, SocketType::SEQPACKET)
    }

    fn of_type(path: &Path, mode: u32, kind: SocketType) -> Result<Bound, ListenError> {
        let new = beside(path, ".new");
        let too_long = |_| ListenError::Path(path.to_owned());
        let (address, new_address) = (SocketAddrUnix::new(path), SocketAddrUnix::new(&new));
        let (address, new_address) = (address.map_err(too_long)?, new_address.map_err(too_long)?);
        let lock = lock(path)?;
        check_free(path, &address)?;
        let socket = unix_socket(kind).map_err(failed("open a socket"))?;
        let _ = std::fs::remove_file(&new);
        rustix::net::bind(&socket, &new_address).map_err(failed("bind a socket"))?;
        let listened = listen(&socket, &new, path, mode);
        let file = listened.inspect_err(|_| drop(std::fs::remove_file(&new)))?;
        Ok(Bound { socket, path: path.to_owned(), file, lock, is_own: true })
    }

    /// Takes a socket over that another process listens at: its descriptor and the lock's, as from
    /// [`Bound::shared`]. The path is that process's until [`Bound::own`].
    ///
    /// # Errors
    /// They are not those of `path`.
    pub fn adopt(path: &Path, [socket, lock]: [OwnedFd; 2]) -> Result<Bound, ListenError> {
        let other = |_| ListenError::Path(path.to_owned());
        let (address, locked) = (SocketAddrUnix::new(path).map_err(other)?, beside(path, ".lock"));
        let named = rustix::net::getsockname(&socket).map_err(failed("examine a socket"))?;
        let listens = rustix::net::sockopt::socket_acceptconn(&socket);
        let listens = listens.map_err(failed("examine a socket"))?;
        // Sockets are bound under another name, and then renamed.
        let new = SocketAddrUnix::new(beside(path, ".new")).map_err(other)?;
        let is_it = [address, new].into_iter().any(|address| named == address.into());
        let file = identity(path).map_err(failed("examine a socket"))?;
        let held = rustix::fs::fstat(&lock).map_err(failed("examine a socket's lock"))?;
        let lock_file = identity(&locked).map_err(failed("examine a socket's lock"))?;
        if !is_it || !listens || (held.st_dev, held.st_ino) != lock_file {
            return Err(ListenError::NotIt(path.to_owned()));
        }
        Ok(Bound { socket, path: path.to_owned(), file, lock, is_own: false })
    }

    /// Descriptors for a process that takes the socket over: the socket's and the lock's. Until
    /// [`Bound::give`], both listen.
    ///
    /// # Errors
    /// The process has as many descriptors as it may.
    pub fn shared(&self) -> io::Result<[OwnedFd; 2]> {
        Ok([self.socket.try_clone()?, self.lock.try_clone()?])
    }

    /// The path is this process's from now on.
    pub fn own(&mut self) {
        self.is_own = true;
    }

    /// Closes the socket, which another process has taken over, and leaves the path to it.
    pub fn give(mut self) {
        self.is_own = false;
    }

    /// The same socket, for somebody else to accept from. It does not keep the path.
    ///
    /// # Errors
    /// The process has as many descriptors as it may.
    pub fn listener(&self) -> io::Result<UnixListener> {
        self.socket.try_clone().map(UnixListener::from)
    }
}

impl AsFd for Bound {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        // Only if nobody has put something else there.
        if self.is_own && identity(&self.path).is_ok_and(|file| file == self.file) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

fn unix_socket(kind: SocketType) -> rustix::io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    socket_with(AddressFamily::UNIX, kind, flags, None)
}

fn listen(socket: &OwnedFd, new: &Path, path: &Path, mode: u32) -> Result<(u64, u64), ListenError> {
    let permissions = std::fs::Permissions::from_mode(mode);
    std::fs::set_permissions(new, permissions).map_err(failed("set a socket's mode"))?;
    rustix::net::listen(socket, BACKLOG).map_err(failed("listen on a socket"))?;
    let file = identity(new).map_err(failed("examine a socket"))?;
    std::fs::rename(new, path).map_err(failed("rename a socket"))?;
    Ok(file)
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    let metadata = std::fs::symlink_metadata(path)?;
    Ok((metadata.dev(), metadata.ino()))
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    name.into()
}

fn lock(path: &Path) -> Result<OwnedFd, ListenError> {
    let flags = OFlags::CREATE | OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let file = rustix::fs::open(beside(path, ".lock"), flags, Mode::RUSR | Mode::WUSR);
    let file = file.map_err(failed("open a socket's lock"))?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(file),
        Err(Errno::WOULDBLOCK) => Err(ListenError::InUse(path.to_owned())),
        Err(error) => Err(failed("lock a socket's path")(error)),
    }
}

/// Whether the path is free, or a dead socket's. A socket that somebody listens at without the lock
/// is in use as well.
fn check_free(path: &Path, address: &SocketAddrUnix) -> Result<(), ListenError> {
    match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed("examine a socket's path")(error)),
        Ok(metadata) if !metadata.file_type().is_socket() => {
            return Err(ListenError::NotASocket(path.to_owned()));
        }
        Ok(_) => {}
    }
    let probe = unix_socket(SocketType::STREAM).map_err(failed("open a socket"))?;
    match rustix::net::connect(&probe, address) {
        Err(Errno::CONNREFUSED) => Ok(()),
        // Connected; or so many wait, or it is of another type: somebody lives.
        Ok(()) | Err(Errno::AGAIN | Errno::PROTOTYPE) => Err(ListenError::InUse(path.to_owned())),
        Err(error) => Err(failed("try a socket")(error)),
    }
}
