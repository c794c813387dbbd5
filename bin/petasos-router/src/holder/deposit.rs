//! What a router says to its holder, and how it goes on without one.

use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use petasos_attach::{Credentials, packet};
use petasos_base::{SystemClock, Time};
use petasos_netio_xdp::{BpfFiles, InterfacePlace, XdpMode};
use petasos_router_xdp::RouterProgram;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::keeper::OUTLIVE;
use super::may_share;
use super::wire::{self, Answer, Received};
use crate::said::say;

/// How long the holder has for an answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often to look whether the holder is there.
const LOOK: Duration = Duration::from_secs(1);

/// A connection to the holder.
pub struct Holder {
    socket: OwnedFd,
    path: PathBuf,
}

/// What a router that was killed has left.
pub struct Left {
    /// Its link, which still has its program.
    pub link: OwnedFd,
    /// Its program.
    pub program: OwnedFd,
    /// Where it runs.
    pub mode: XdpMode,
}

impl Holder {
    /// Connects to the holder at a path.
    ///
    /// # Errors
    /// A text that says what to do.
    pub fn connect(path: &Path) -> Result<Holder, String> {
        let at = path.display();
        let socket = packet::connect(path).map_err(|error| match error {
            Errno::NOENT | Errno::CONNREFUSED => format!(
                "no holder is there at {at}: start one (petasos-router --hold {at}), or leave \
                 holder out"
            ),
            Errno::ACCESS | Errno::PERM => {
                format!("the holder at {at} is for its own user only: run it as this one")
            }
            error => format!("the holder at {at} cannot be reached: {error}"),
        })?;
        let who = Credentials::of(socket.as_fd()).map_err(|error| error.to_string())?;
        if !may_share(who.uid) {
            return Err(format!(
                "the holder at {at} is {who}, who would have the interface: run it as this user"
            ));
        }
        Ok(Holder { socket, path: path.to_owned() })
    }

    /// What is left at an interface.
    ///
    /// # Errors
    /// The holder does not answer as it should.
    pub fn ask(&self, place: InterfacePlace) -> Result<Option<Left>, String> {
        match self.answer(wire::send_ask(self.socket.as_fd(), place))? {
            Answer::Nothing => Ok(None),
            Answer::Given(mode, [link, program]) => Ok(Some(Left { link, program, mode })),
            answer => Err(self.unexpected(answer)),
        }
    }

    /// Has a program kept.
    ///
    /// # Errors
    /// The holder refuses, or does not answer as it should.
    pub fn keep(
        &self,
        place: InterfacePlace,
        mode: XdpMode,
        files: &BpfFiles,
    ) -> Result<(), String> {
        match self.answer(wire::send_keep(self.socket.as_fd(), place, mode, files))? {
            Answer::Done => Ok(()),
            answer => Err(self.unexpected(answer)),
        }
    }

    /// Has it forgotten.
    fn forget(&self) -> Result<(), String> {
        self.answer(wire::send_forget(self.socket.as_fd())).map(drop)
    }

    /// Whether it is gone.
    fn is_gone(&self) -> bool {
        // It says nothing that it is not asked.
        !matches!(wire::receive_answer(self.socket.as_fd()), Received::Nothing)
    }

    fn answer(&self, sent: Result<(), Errno>) -> Result<Answer, String> {
        let at = self.path.display();
        // What it has said before it hung up is there to be read.
        let error = sent.err().map(|error| format!("the holder at {at} has hung up: {error}"));
        let clock = SystemClock::default();
        let deadline = clock.now() + PATIENCE;
        loop {
            match (wire::receive_answer(self.socket.as_fd()), &error) {
                (Received::Said(answer), _) => return Ok(answer),
                (_, Some(error)) => return Err(error.clone()),
                (Received::Gone, _) => return Err(format!("the holder at {at} has hung up")),
                (Received::Garbage, _) => return Err(format!("what listens at {at} is no holder")),
                (Received::Nothing, _) => {}
            }
            let left = deadline - clock.now();
            if left.is_zero() {
                return Err(format!("the holder at {at} does not answer"));
            }
            let timeout = Timespec::try_from(left).ok();
            // Whatever comes of it is seen when the socket is read.
            let _ = poll(&mut [PollFd::new(&self.socket, PollFlags::IN)], timeout.as_ref());
        }
    }

    fn unexpected(&self, answer: Answer) -> String {
        let at = self.path.display();
        match answer {
            Answer::Refused(why) => format!("the holder at {at} refuses: {why}"),
            answer => format!("the holder at {at} has said what was not expected: {answer:?}"),
        }
    }
}

/// A program that a holder keeps, as long as there is one. Dropping this takes it back.
pub struct Deposit {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Deposit {
    /// Watches over what `holder` keeps. If the program follows that of a process before, the
    /// earlier one goes after a while.
    ///
    /// # Errors
    /// There is no thread for it.
    pub fn watch(
        holder: Holder,
        (place, mode, files): (InterfacePlace, XdpMode, BpfFiles),
        program: Arc<RouterProgram>,
        follows: bool,
    ) -> Result<Deposit, String> {
        let clock = SystemClock::default();
        let follows_until = if follows { clock.now() + OUTLIVE } else { Time::NEVER };
        let path = holder.path.clone();
        let holder = Some(holder);
        let mut watch = Watch { holder, path, place, mode, files, program, clock, follows_until };
        let (stop, stopped) = channel();
        let thread = std::thread::Builder::new().name("petasos-holder".to_owned());
        let thread = thread.spawn(move || watch.run(&stopped));
        let thread = thread.map_err(|error| format!("there is no thread: {error}"))?;
        Ok(Deposit { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Deposit {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // If it has panicked, that was reported.
            let _ = thread.join();
        }
    }
}

struct Watch {
    /// None while it is gone.
    holder: Option<Holder>,
    path: PathBuf,
    place: InterfacePlace,
    mode: XdpMode,
    files: BpfFiles,
    program: Arc<RouterProgram>,
    clock: SystemClock,
    follows_until: Time,
}

impl Watch {
    fn run(&mut self, stopped: &Receiver<()>) {
        while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(LOOK) {
            self.look_at_holder();
            if self.clock.now() >= self.follows_until {
                self.follows_until = Time::NEVER;
                // If there is none any more, it is gone already.
                let _ = self.program.follow(None);
            }
        }
        // If it does not hear that, it drops a link that has no program.
        let _ = self.holder.take().map(|holder| holder.forget());
    }

    fn look_at_holder(&mut self) {
        let at = self.path.display();
        if self.holder.as_ref().is_some_and(Holder::is_gone) {
            self.holder = None;
            say(&format!(
                "the holder at {at} is gone: until it is back, the program at the interface ends \
                 with this process"
            ));
        } else if self.holder.is_none() {
            let kept = Holder::connect(&self.path).and_then(|holder| {
                holder.keep(self.place, self.mode, &self.files)?;
                Ok(holder)
            });
            // It was said that it is gone.
            if let Ok(holder) = kept {
                say(&format!("the holder at {at} has the program again"));
                self.holder = Some(holder);
            }
        }
    }
}
