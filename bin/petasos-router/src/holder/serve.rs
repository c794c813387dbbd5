//! The holder's process: its socket, and who is connected.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use petasos_attach::{Bound, Credentials};
use petasos_base::{SystemClock, Time};
use petasos_netio_xdp::{BpfFiles, InterfacePlace, XdpMode};
use petasos_operator::notify;
use petasos_router_xdp::HeldProgram;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{SocketFlags, accept_with};

use super::keeper::{Keeper, OUTLIVE, Peer};
use super::may_share;
use super::wire::{self, Received, Said};
use crate::said::say;

/// The most connections. One more takes the place of one for which nothing is kept.
const CONNECTIONS_MAX: usize = 64;
/// So long a connection is there for which nothing is kept.
const PATIENCE: Duration = Duration::from_secs(5);
/// So long nobody is let in after the system had no descriptor or memory left for it.
const PAUSE: Duration = Duration::from_secs(1);

/// Holds programs for the routers that connect at a path, without an end.
///
/// # Errors
/// A text that says what is wrong.
pub fn hold(path: &Path) -> Result<(), String> {
    let failed =
        |error: &dyn std::fmt::Display| format!("cannot listen at {}: {error}", path.display());
    let bound = Bound::packets(path, 0o600).map_err(|error| failed(&error))?;
    let (keeper, peers) = (Keeper::default(), Vec::new());
    let mut server = Server { bound, keeper, peers, next: 0, accepts_from: Time::ZERO };
    say(&format!("ready: holds programs of routers at {}", path.display()));
    notify::ready();
    let clock = SystemClock::default();
    loop {
        server.wait(clock.now()).map_err(|error| failed(&error))?;
        server.turn(clock.now());
    }
}

struct Server {
    bound: Bound,
    keeper: Keeper<HeldProgram>,
    peers: Vec<Connected>,
    next: Peer,
    /// When somebody may be let in again.
    accepts_from: Time,
}

struct Connected {
    peer: Peer,
    socket: OwnedFd,
    who: Credentials,
    /// When it has to have given something to keep.
    due: Time,
}

impl Server {
    /// Waits until something may be to do.
    fn wait(&self, now: Time) -> Result<(), Errno> {
        let accepts = now >= self.accepts_from;
        let due = self.peers.iter().filter(|it| !self.keeper.keeps_for(it.peer)).map(|it| it.due);
        let pause = if accepts { Time::NEVER } else { self.accepts_from };
        let due = due.chain([self.keeper.next_due(), pause]).min().unwrap_or(Time::NEVER);
        // A time that the system cannot represent is for ever.
        let timeout = Some(due - now).filter(|_| due != Time::NEVER);
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        let sockets = self.peers.iter().map(|it| it.socket.as_fd());
        let sockets = sockets.chain(accepts.then_some(self.bound.as_fd()));
        let mut all: Vec<_> =
            sockets.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        match poll(&mut all, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Hears each peer once, so that none keeps the others waiting.
    fn turn(&mut self, now: Time) {
        for at in (0..self.peers.len()).rev() {
            if !self.hear(at, now) {
                let peer = self.peers.swap_remove(at);
                self.lose(&peer, now);
            }
        }
        for held in self.keeper.lapse(now) {
            say(&format!("interface {}: nobody has come for its program", held.interface()));
        }
        self.accept(now);
    }

    /// Hears a peer. Whether it stays.
    fn hear(&mut self, at: usize, now: Time) -> bool {
        let Connected { peer, ref socket, who, due } = self.peers[at];
        let socket = socket.as_fd();
        let answered = match wire::receive(socket) {
            Received::Said(Said::Ask(place)) => match self.keeper.ask(peer, place) {
                Some(held) => wire::send_given(socket, held.mode(), [held.link(), held.program()]),
                None => wire::send_nothing(socket),
            },
            Received::Said(Said::Keep(place, mode, files)) => {
                match keep(&mut self.keeper, peer, (place, mode), files) {
                    Ok(()) => {
                        say(&format!("interface {}: has the program of {who}", place.interface));
                        wire::send_done(socket)
                    }
                    Err(why) => {
                        say(&format!("interface {}: {who} is refused: {why}", place.interface));
                        wire::send_refused(socket, &why)
                    }
                }
            }
            Received::Said(Said::Forget) => {
                for held in self.keeper.forget(peer) {
                    say(&format!("interface {}: {who} ends, with it", held.interface()));
                }
                wire::send_done(socket)
            }
            Received::Nothing => return now < due || self.keeper.keeps_for(peer),
            Received::Garbage => {
                say(&format!("{who} has sent garbage, and is not heard any more"));
                return false;
            }
            Received::Gone => return false,
        };
        // Who does not read its answers is not waited for.
        answered.is_ok()
    }

    /// A connection has ended.
    fn lose(&mut self, peer: &Connected, now: Time) {
        if let Some(held) = self.keeper.lose(peer.peer, now) {
            held.leave_alone();
            let interface = held.interface();
            say(&format!(
                "interface {interface}: {} is gone, its program goes on for {OUTLIVE:?}",
                peer.who
            ));
        }
    }

    /// Lets in who waits, but no other user's process.
    fn accept(&mut self, now: Time) {
        if now < self.accepts_from {
            return;
        }
        let socket = match accept_with(&self.bound, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
            Ok(socket) => socket,
            Err(Errno::WOULDBLOCK | Errno::INTR | Errno::CONNABORTED) => return,
            Err(error) => {
                say(&format!("nobody is let in for a while: {error}"));
                self.accepts_from = now + PAUSE;
                return;
            }
        };
        let Ok(who) = Credentials::of(socket.as_fd()) else { return };
        if !may_share(who.uid) {
            say(&format!("{who} is not let in"));
            let _ = wire::send_refused(socket.as_fd(), "only the holder's user and root may");
            return;
        }
        if self.peers.len() >= CONNECTIONS_MAX {
            // The one that has been there for longest.
            let idle = self.peers.iter().enumerate();
            let idle = idle.filter(|(_, it)| !self.keeper.keeps_for(it.peer));
            let Some((at, _)) = idle.min_by_key(|(_, it)| it.peer) else { return };
            let peer = self.peers.swap_remove(at);
            self.lose(&peer, now);
        }
        self.next += 1;
        self.peers.push(Connected { peer: self.next, socket, who, due: now + PATIENCE });
    }
}

/// Keeps a program, if it is one.
fn keep(
    keeper: &mut Keeper<HeldProgram>,
    peer: Peer,
    (place, mode): (InterfacePlace, XdpMode),
    files: BpfFiles,
) -> Result<(), String> {
    let held = HeldProgram::new(files, mode).map_err(|error| error.to_string())?;
    if held.interface() != place.interface {
        return Err(format!("the link is at interface {}", held.interface()));
    }
    keeper.keep(peer, place, held).map_err(str::to_owned)
}
