//! The process that takes over, until it serves. It waits for the giver, for a time at most.

use std::net::TcpListener;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use petasos_attach::packet::connect;
use petasos_base::{SystemClock, Time};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::predecessor::Predecessor;
use super::wire::{
    CONFIGURATION_BYTES_MAX, Output, Reach, Reached, Received, Said, Which, receive,
};

/// The longest wait for the giver's next packet.
const PATIENCE: Duration = Duration::from_secs(10);

/// What the giver offers. Until [`Taken::serve`], it serves.
pub struct Taken {
    socket: OwnedFd,
    /// The configuration in force.
    pub configuration: Vec<u8>,
    sockets: [Option<[OwnedFd; 2]>; 3],
    reached: Vec<(Reached, OwnedFd)>,
}

/// Asks the process that listens at `path` for all that it has.
///
/// # Errors
/// Why it does not give it.
pub fn take(path: &Path) -> Result<Taken, String> {
    let failed = |error: Errno| match error {
        Errno::NOENT | Errno::CONNREFUSED => {
            format!("no service is there to take over from at {}", path.display())
        }
        Errno::ACCESS | Errno::PERM => "only the service's user and root may take over".to_owned(),
        error => format!("cannot take over at {}: {error}", path.display()),
    };
    let socket = connect(path).map_err(failed)?;
    // If it has hung up already, it has said why.
    let _ = say(&socket, Said::Hello);
    let (configuration, sockets, reached) = (Vec::new(), [None, None, None], Vec::new());
    let mut taken = Taken { socket, configuration, sockets, reached };
    loop {
        match await_said(&taken.socket)? {
            Said::Part(part) => {
                taken.configuration.extend_from_slice(&part);
                if taken.configuration.len() > CONFIGURATION_BYTES_MAX {
                    return Err("the configuration of the other process is too long".to_owned());
                }
            }
            Said::Socket(which, files) => taken.sockets[which as usize] = Some(files),
            Said::Reached(what, file) => taken.reached.push((what, file)),
            Said::Offered => return Ok(taken),
            said => return Err(unexpected(&said)),
        }
    }
}

impl Taken {
    /// A listening socket, once.
    ///
    /// # Errors
    /// The giver has not given it.
    pub fn socket(&mut self, which: Which) -> Result<[OwnedFd; 2], String> {
        let socket = self.sockets[which as usize].take();
        socket.ok_or_else(|| format!("the other process gives no socket for {which:?}"))
    }

    /// A listening socket at which others than this host's connect, if they do: to all, or to one
    /// application.
    pub fn reached(&mut self, reach: Reach, application: Option<&str>) -> Option<TcpListener> {
        let is_it =
            |what: &Reached| (what.reach, what.application.as_deref()) == (reach, application);
        let index = self.reached.iter().position(|(what, _)| is_it(what))?;
        Some(TcpListener::from(self.reached.swap_remove(index).1))
    }

    /// Another of them, that nobody has asked for.
    pub fn reached_else(&self) -> Option<&Reached> {
        self.reached.first().map(|(what, _)| what)
    }

    /// Says that this process serves, and hears what the giver has.
    ///
    /// # Errors
    /// The giver is gone, or does not do what it should.
    pub fn serve(self) -> Result<Predecessor, String> {
        say(&self.socket, Said::Serving)?;
        let mut predecessor = Predecessor::new();
        loop {
            match await_said(&self.socket)? {
                Said::Application(owner) => predecessor.add(owner),
                Said::Port(owner, address, file) => predecessor.add_port(owner, address, file),
                Said::Given => return Ok(predecessor.on(self.socket)),
                said => return Err(unexpected(&said)),
            }
        }
    }
}

fn unexpected(said: &Said) -> String {
    match said {
        Said::Refuse(why) => format!("the other process does not let this one take over: {why}"),
        said => format!("the other process said what was not expected: {said:?}"),
    }
}

fn say(socket: &OwnedFd, said: Said) -> Result<(), String> {
    let mut output = Output::default();
    output.push(said);
    output.flush(socket.as_fd()).map_err(|error| format!("the other process is gone: {error}"))
}

fn await_said(socket: &OwnedFd) -> Result<Said, String> {
    let clock = SystemClock::default();
    let deadline = clock.now() + PATIENCE;
    loop {
        match receive(socket.as_fd()) {
            Received::Said(said) => return Ok(said),
            Received::Gone => return Err("the other process has hung up".to_owned()),
            Received::Garbage => return Err("the other process said garbage".to_owned()),
            Received::Nothing => await_readable(socket, deadline, clock.now())?,
        }
    }
}

fn await_readable(socket: &OwnedFd, deadline: Time, now: Time) -> Result<(), String> {
    if now >= deadline {
        return Err("the other process does not answer".to_owned());
    }
    let timeout = Timespec::try_from(deadline - now).ok();
    // Whatever comes of it is seen when the socket is read.
    let _ = poll(&mut [PollFd::new(socket, PollFlags::IN)], timeout.as_ref());
    Ok(())
}
