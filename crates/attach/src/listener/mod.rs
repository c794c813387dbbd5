//! The service's socket, and connections until they have sent a hello (D1).
//!
//! Nothing here waits, and all use by strangers is bounded: the number of connections without a
//! hello, in total and per user; the time until the hello; the bytes read and the connections
//! accepted in a turn; and the number of applications. The listener tells a process that exceeds a
//! bound so, if the process reads, and closes the connection.

mod path;
mod pending;

pub use path::{Bound, ListenError};

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use petasos_base::Time;
use rustix::event::epoll;
use rustix::io::Errno;
use rustix::net::{SocketFlags, accept_with};

use crate::attached::{AcceptError, Attached, Beginning, Shared, Terms};
use crate::credentials::{Credentials, Process};
use crate::hello::{Hello, Token};
use crate::places::{Place, Places};
use crate::reason::RefuseCode;
use path::failed;
use pending::{Look, Pending, send_refusal};

/// The most connections that are accepted in a turn.
const ACCEPTED_MAX: usize = 16;

/// How a [`Listener`] behaves.
#[derive(Clone, Debug)]
pub struct ListenerConfig {
    /// The mode of the socket's file: who may write it may connect.
    pub mode: u32,
    /// The token that applications have to show.
    pub token: Option<Token>,
    /// The most connections that have not said hello.
    pub pending_max: usize,
    /// The same, of one user.
    pub pending_per_user_max: usize,
    /// How long a connection has to say hello; later, how long an application has to end a frame
    /// that it has begun, and to take what it is sent.
    pub patience: Duration,
    /// The most applications. One counts until it has detached and its process has ended.
    pub applications_max: usize,
    /// The same, of one user.
    pub applications_per_user_max: usize,
}

impl Default for ListenerConfig {
    fn default() -> ListenerConfig {
        ListenerConfig {
            mode: 0o660,
            token: None,
            pending_max: 64,
            pending_per_user_max: 16,
            patience: Duration::from_secs(5),
            applications_max: 1024,
            applications_per_user_max: 128,
        }
    }
}

/// What has happened at a [`Listener`] so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ListenerStats {
    /// Connections that were accepted.
    pub accepted: u64,
    /// Those of them that were refused before they became an [`Applicant`].
    pub refused: u64,
    /// Those that left before.
    pub left: u64,
}

/// Listens for applications. Its descriptor is readable when [`Listener::poll`] has something to
/// do, except for what time brings ([`Listener::next_due`]).
#[derive(Debug)]
pub struct Listener {
    /// None once another process has taken it over.
    bound: Option<Bound>,
    epoll: OwnedFd,
    config: ListenerConfig,
    pending: Vec<Pending>,
    places: Places,
    stats: ListenerStats,
}

impl Listener {
    /// Listens at `path`. Beside it, the file `PATH.lock` says that a service has it; only the
    /// service may be able to make files in that folder.
    ///
    /// # Errors
    /// See [`ListenError`].
    pub fn bind(path: &Path, config: ListenerConfig) -> Result<Listener, ListenError> {
        Listener::on(Bound::new(path, config.mode)?, config)
    }

    /// Takes a socket over that another process listens at (see [`Bound::adopt`]).
    ///
    /// # Errors
    /// See [`ListenError`].
    pub fn adopt(
        path: &Path,
        files: [OwnedFd; 2],
        config: ListenerConfig,
    ) -> Result<Listener, ListenError> {
        Listener::on(Bound::adopt(path, files)?, config)
    }

    fn on(bound: Bound, config: ListenerConfig) -> Result<Listener, ListenError> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(failed("open an epoll"))?;
        let mut listener = Listener {
            places: Places::new(config.applications_max, config.applications_per_user_max),
            pending: Vec::new(),
            stats: ListenerStats::default(),
            bound: None,
            epoll,
            config,
        };
        listener.watch(bound.as_fd()).map_err(failed("watch a socket"))?;
        listener.bound = Some(bound);
        Ok(listener)
    }

    /// Descriptors for a process that takes the socket over; see [`Bound::shared`]. `None` if one
    /// has.
    ///
    /// # Errors
    /// The process has as many descriptors as it may.
    pub fn shared(&self) -> std::io::Result<Option<[OwnedFd; 2]>> {
        self.bound.as_ref().map(Bound::shared).transpose()
    }

    /// The path is this process's from now on: see [`Bound::own`].
    pub fn own(&mut self) {
        self.bound.iter_mut().for_each(Bound::own);
    }

    /// Accepts nobody any more: another process has taken the socket over. Who has connected and
    /// not said hello still may.
    pub fn give(&mut self) {
        if let Some(bound) = self.bound.take() {
            let _ = epoll::delete(&self.epoll, &bound);
            bound.give();
        }
    }

    /// Accepts some connections, reads once from each that has not said hello, and returns an
    /// application that has. Call it again while it returns one.
    ///
    /// # Errors
    /// [`ListenError::System`] if no connection can be accepted, for want of descriptors or memory.
    /// Those that wait stay; try again later.
    pub fn poll(&mut self, now: Time) -> Result<Option<Applicant>, ListenError> {
        let accepted = self.accept(now);
        let mut at = 0;
        while at < self.pending.len() {
            match self.pending[at].look(now) {
                Look::Nothing => {
                    at += 1;
                    continue;
                }
                Look::Hello(hello) => {
                    let pending = self.pending.swap_remove(at);
                    if let Some(applicant) = self.admit(pending, *hello) {
                        return Ok(Some(applicant));
                    }
                }
                Look::Gone => {
                    self.stats.left += 1;
                    self.pending.swap_remove(at);
                }
                Look::Refuse(code, text) => {
                    let pending = self.pending.swap_remove(at);
                    self.refuse(pending.socket.as_fd(), code, &text);
                }
            }
        }
        accepted.map(|()| None)
    }

    /// When a connection will have taken too long to say hello.
    pub fn next_due(&self) -> Option<Time> {
        self.pending.iter().map(|pending| pending.due).min()
    }

    /// What has happened so far.
    pub fn stats(&self) -> ListenerStats {
        self.stats
    }

    /// Connections that have not said hello.
    pub fn pending(&self) -> usize {
        self.pending.len()
    }

    /// Applications that are attached, or have been and have not ended.
    pub fn applications(&mut self) -> usize {
        self.places.count()
    }

    fn accept(&mut self, now: Time) -> Result<(), ListenError> {
        for _ in 0..ACCEPTED_MAX {
            let Some(bound) = &self.bound else { return Ok(()) };
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            match accept_with(bound, flags) {
                Ok(socket) => self.on_connection(socket, now),
                Err(Errno::WOULDBLOCK) => return Ok(()),
                Err(Errno::CONNABORTED | Errno::INTR) => {}
                Err(error) => return Err(failed("accept a connection")(error)),
            }
        }
        Ok(())
    }

    fn on_connection(&mut self, socket: OwnedFd, now: Time) {
        self.stats.accepted += 1;
        let Ok(credentials) = Credentials::of(socket.as_fd()) else {
            self.stats.left += 1;
            return;
        };
        let of_user = |pending: &&Pending| pending.credentials.uid == credentials.uid;
        let is_full = self.pending.len() >= self.config.pending_max
            || self.pending.iter().filter(of_user).count() >= self.config.pending_per_user_max;
        if is_full || self.watch(socket.as_fd()).is_err() {
            return self.refuse(socket.as_fd(), RefuseCode::Busy, "too many are attaching");
        }
        let due = now + self.config.patience;
        self.pending.push(Pending::new(socket, credentials, due));
    }

    /// Checks what the configuration says of a hello.
    fn admit(&mut self, pending: Pending, hello: Hello) -> Option<Applicant> {
        let Pending { socket, credentials, session, rest, .. } = pending;
        // Whoever takes the socket now watches it.
        let _ = epoll::delete(&self.epoll, &socket);
        if self.config.token.as_ref().is_some_and(|token| !token.matches(&hello.token)) {
            self.refuse(socket.as_fd(), RefuseCode::Token, "the token is wrong");
            return None;
        }
        let process = Process::of(socket.as_fd(), credentials);
        let Some(place) = self.places.take(credentials.uid, process) else {
            self.refuse(socket.as_fd(), RefuseCode::TooMany, "too many applications");
            return None;
        };
        let patience = self.config.patience;
        let beginning = Beginning { socket, session, rest, credentials, patience };
        Some(Applicant { beginning, hello, place })
    }

    fn refuse(&mut self, socket: BorrowedFd<'_>, code: RefuseCode, text: &str) {
        self.stats.refused += 1;
        send_refusal(socket, code, text);
    }

    fn watch(&self, socket: BorrowedFd<'_>) -> rustix::io::Result<()> {
        // Which one is ready does not matter: there are few.
        epoll::add(&self.epoll, socket, epoll::EventData::new_u64(0), epoll::EventFlags::IN)
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

/// An application that has said hello and waits for an answer. Dropping it closes its connection.
#[derive(Debug)]
pub struct Applicant {
    beginning: Beginning,
    hello: Hello,
    place: Place,
}

impl Applicant {
    /// What it said.
    pub fn hello(&self) -> &Hello {
        &self.hello
    }

    /// Who it is.
    pub fn credentials(&self) -> Credentials {
        self.beginning.credentials
    }

    /// Takes it, on these terms. What it is to be sent goes out with [`Attached::turn`].
    ///
    /// # Errors
    /// See [`AcceptError`].
    ///
    /// # Panics
    /// If the terms are impossible: [`Terms::is_possible`].
    pub fn accept(self, terms: &Terms) -> Result<Attached, AcceptError> {
        match Shared::make(terms, self.hello.lanes) {
            Ok(shared) => Ok(Attached::new(self.beginning, self.hello, self.place, shared)),
            Err(error) => {
                let socket = self.beginning.socket.as_fd();
                send_refusal(socket, RefuseCode::Busy, "the service has no room");
                Err(error)
            }
        }
    }

    /// Does not take it.
    pub fn refuse(self, code: RefuseCode, text: &str) {
        send_refusal(self.beginning.socket.as_fd(), code, text);
    }
}
