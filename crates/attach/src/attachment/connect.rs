//! Connects to the service at a path, up to the lanes.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use petasos_base::{SystemClock, Time};
use petasos_shm::{HeapError, RegionError};
use rustix::event::{Timespec, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, socket_with};

use super::wire::{Said, Wire};
use crate::ended::Ended;
use crate::hello::Welcome;
use crate::lane::Lane;
use crate::message::FromService;
use crate::reason::{RefuseCode, Text};
use crate::session::Violation;

/// After this long a service whose queue of connections is full is tried again.
const BUSY_INTERVAL: Duration = Duration::from_millis(5);

/// Why an application is not attached.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// No service listens there. A retry is safe, and of use when one has started.
    #[error("no service listens at {0}")]
    NotThere(PathBuf),
    /// This user may not connect. A retry fails again.
    #[error("this user may not connect to {0}")]
    NotAllowed(PathBuf),
    /// No socket can have such a path. The caller is at fault.
    #[error("{0} is too long for a socket")]
    Path(PathBuf),
    /// The service has refused; [`RefuseCode::may_retry`] says whether a retry is of use.
    #[error("the service has refused ({0:?}): {1}")]
    Refused(RefuseCode, Text),
    /// The service has not answered in time. A retry is safe.
    #[error("the service has not answered in time")]
    Timeout,
    /// The service has ended the attachment while it began, or broken the rules.
    #[error(transparent)]
    Ended(#[from] Ended),
    /// A lane could not be mapped.
    #[error("a lane cannot be used: {0}")]
    Lane(#[from] RegionError),
    /// A heap's range could not be reserved.
    #[error("a heap cannot be reserved: {0}")]
    Heap(#[from] HeapError),
    /// The system refused.
    #[error("cannot {attempt}: {error}")]
    System {
        /// What was attempted.
        attempt: &'static str,
        /// What the system said.
        error: io::Error,
    },
}

pub(super) fn system<E: Into<io::Error>>(attempt: &'static str) -> impl FnOnce(E) -> ConnectError {
    move |error| ConnectError::System { attempt, error: error.into() }
}

/// Connects to the service. As long as too many others are connecting, it waits.
pub(super) fn connect(path: &Path, deadline: Time) -> Result<OwnedFd, ConnectError> {
    let address = SocketAddrUnix::new(path).map_err(|_| ConnectError::Path(path.to_owned()))?;
    let clock = SystemClock::default();
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None);
    let socket = socket.map_err(system("open a socket"))?;
    loop {
        match rustix::net::connect(&socket, &address) {
            Ok(()) => return Ok(socket),
            Err(Errno::NOENT | Errno::CONNREFUSED) => {
                return Err(ConnectError::NotThere(path.to_owned()));
            }
            Err(Errno::ACCESS | Errno::PERM) => {
                return Err(ConnectError::NotAllowed(path.to_owned()));
            }
            Err(Errno::AGAIN) if clock.now() >= deadline => return Err(ConnectError::Timeout),
            Err(Errno::AGAIN) => pause(BUSY_INTERVAL),
            Err(Errno::INTR) => {}
            Err(error) => return Err(system("connect to the service")(error)),
        }
    }
}

fn pause(interval: Duration) {
    let interval = Timespec::try_from(interval).ok();
    let _ = poll(&mut [], interval.as_ref());
}

impl Wire {
    /// The service's answer to the hello.
    pub(super) fn await_welcome(&mut self, deadline: Time) -> Result<Welcome, ConnectError> {
        let (said, _) = self.await_said(deadline)?;
        match said {
            FromService::Welcome(welcome) => Ok(welcome),
            FromService::Refuse(code, text) => Err(ConnectError::Refused(code, text)),
            _ => unreachable!("a session takes nothing else as an answer"),
        }
    }

    /// The lanes, which come next.
    pub(super) fn await_lanes(
        &mut self,
        count: u16,
        deadline: Time,
    ) -> Result<Vec<Lane>, ConnectError> {
        let mut lanes = Vec::with_capacity(count.into());
        while lanes.len() < count.into() {
            let (said, files) = self.await_said(deadline)?;
            let slots = match said {
                FromService::Lane { slots, .. } => slots,
                FromService::Detach(code, text) => return Err(Ended::Detached(code, text).into()),
                _ => unreachable!("a session takes nothing else among lanes"),
            };
            let files: [OwnedFd; 2] =
                files.try_into().map_err(|_| Ended::from(Violation::Descriptors))?;
            let [region, socket] = files;
            lanes.push(Lane::adopt(slots, region, socket)?);
        }
        Ok(lanes)
    }

    fn await_said(&mut self, deadline: Time) -> Result<Said, ConnectError> {
        self.await_message(deadline)?.ok_or(ConnectError::Timeout)
    }
}
