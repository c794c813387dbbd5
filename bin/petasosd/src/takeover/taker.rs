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
    CONFIGURATION_BYTES_MAX, NOT_EXPECTED, Output, Reach, Reached, Received, Said, Which, receive,
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
    match ask(path, true)? {
        Some(taken) => Ok(taken),
        None => ask(path, false)?.ok_or_else(|| refused(NOT_EXPECTED)),
    }
}

/// Asks for all, and for the states of policies if `takes_states`. None if the process knows no
/// such question: it is of an earlier version, and has hung up.
fn ask(path: &Path, takes_states: bool) -> Result<Option<Taken>, String> {
    let failed = |error: Errno| match error {
        Errno::NOENT | Errno::CONNREFUSED => {
            format!("no service is there to take over from at {}", path.display())
        }
        Errno::ACCESS | Errno::PERM => "only the service's user and root may take over".to_owned(),
        error => format!("cannot take over at {}: {error}", path.display()),
    };
    let socket = connect(path).map_err(failed)?;
    // If it has hung up already, it has said why.
    let _ = say(&socket, Said::Hello { takes_states });
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
            Said::Offered => return Ok(Some(taken)),
            Said::Refuse(why) if why == NOT_EXPECTED => return Ok(None),
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
                Said::States(part) => predecessor.add_states(&part),
                Said::Given => return Ok(predecessor.on(self.socket)),
                said => return Err(unexpected(&said)),
            }
        }
    }
}

fn unexpected(said: &Said) -> String {
    match said {
        Said::Refuse(why) => refused(why),
        said => format!("the other process said what was not expected: {said:?}"),
    }
}

fn refused(why: &str) -> String {
    format!("the other process does not let this one take over: {why}")
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

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use petasos_attach::Bound;
    use rustix::net::{SocketFlags, accept_with};

    use super::*;

    fn path(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("petasosd-taker-{}-{name}", std::process::id()))
    }

    /// A process that is taken over from: answers to each first packet.
    fn giver(path: &Path, answer: fn(bool) -> Said) -> std::thread::JoinHandle<Vec<bool>> {
        let bound = Bound::packets(path, 0o600).expect("the path is free");
        std::thread::spawn(move || {
            let mut asked = Vec::new();
            loop {
                await_readable_at(bound.as_fd());
                let socket = accept_with(&bound, SocketFlags::CLOEXEC).expect("one comes");
                let Ok(Said::Hello { takes_states }) = await_said(&socket) else {
                    return asked;
                };
                asked.push(takes_states);
                let answer = answer(takes_states);
                let is_last = matches!(answer, Said::Offered);
                say(&socket, answer).expect("it listens");
                if is_last {
                    return asked;
                }
            }
        })
    }

    fn await_readable_at(socket: std::os::fd::BorrowedFd<'_>) {
        let timeout = Timespec::try_from(PATIENCE).ok();
        let mut fds = [PollFd::from_borrowed_fd(socket, PollFlags::IN)];
        assert_eq!(poll(&mut fds, timeout.as_ref()), Ok(1), "nobody comes");
    }

    #[test]
    fn one_of_an_earlier_version_is_asked_again_as_it_understands() {
        let path = path("earlier");
        let giver = giver(&path, |takes_states| match takes_states {
            true => Said::Refuse(NOT_EXPECTED.to_owned()),
            false => Said::Offered,
        });
        assert!(take(&path).is_ok());
        assert_eq!(giver.join().expect("it does not panic"), [true, false]);
    }

    #[test]
    fn one_that_refuses_is_not_asked_again() {
        let path = path("refuses");
        let giver = giver(&path, |_| Said::Refuse("not now".to_owned()));
        let why = take(&path).err().unwrap_or_default();
        assert!(why.ends_with("take over: not now"), "{why}");
        // Ends it.
        drop(connect(&path));
        assert_eq!(giver.join().expect("it does not panic"), [true]);
    }
}
