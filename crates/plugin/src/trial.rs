//! Trying an object in a child process before it is let into the service.
//!
//! The child is a program that calls [`run_trial`]: this crate's `petasos-plugin-try`, or the
//! service itself with a hidden option. It gets what to try as its standard input, a file in
//! memory, and writes its answer into another one. It ends by itself, or is killed with its process
//! group when its time is up.
//!
//! The child limits itself: no core files, bounded output, and processor time as long as the limit.

mod child;
mod message;

use std::ffi::OsString;
use std::fs::File;
use std::io::{Read, Seek, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use petasos_base::{SystemClock, Time};
use petasos_engine::State;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::MemfdFlags;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};
use thiserror::Error;

pub use child::run_trial;
use message::{ANSWER_BYTES_MAX, Answer, Making, Refusal, Request};

/// How objects are tried.
#[derive(Clone, Debug)]
pub struct Trial {
    /// A program that calls [`run_trial`] with these arguments.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// How long it may take.
    pub limit: Duration,
}

/// An object that has not stood its trial. Nothing has happened to this process.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TrialError {
    /// The trial could not be made: the system's fault, or the operator's. A retry may succeed.
    #[error("it cannot be tried: {0}")]
    System(std::io::Error),
    /// It does not end.
    #[error("it has not come to an end within {} ms when it was tried", .limit.as_millis())]
    TooSlow {
        /// The limit.
        limit: Duration,
    },
    /// It ended the process.
    #[error("it has crashed when it was tried: {0}")]
    Crashed(String),
    /// It is no plug-in of this version, or does not work.
    #[error("{0}")]
    Refused(String),
    /// It refuses the configuration.
    #[error("{0}")]
    Configuration(String),
    /// It refuses the state.
    #[error("{0}")]
    State(String),
}

impl Trial {
    /// Tries an object: loads it, and, with a configuration, makes a policy and an engine, has them
    /// see calls, and go on from their own states. Waits until that is done or the limit is over.
    ///
    /// # Errors
    /// See [`TrialError`].
    pub(crate) fn run(
        &self,
        object: &[u8],
        making: Option<(&str, Option<&State>)>,
    ) -> Result<(), TrialError> {
        let making = making.map(|(configuration, state)| Making::new(configuration, state));
        let limit_ms = u64::try_from(self.limit.as_millis()).unwrap_or(u64::MAX);
        let request = Request { making, limit_ms };
        let input = input(&request, object).map_err(TrialError::System)?;
        let mut output = memory().map_err(TrialError::System)?;
        let status = self.wait(input, &output).map_err(TrialError::System)?;
        let status = status.ok_or(TrialError::TooSlow { limit: self.limit })?;
        match answer(&mut output) {
            Some(Answer::Passed) if status.success() => Ok(()),
            Some(Answer::Refused(refusal)) if status.success() => Err(refusal.into()),
            _ => Err(TrialError::Crashed(describe(status))),
        }
    }

    /// Runs the child. None if it had to be killed.
    fn wait(&self, input: File, output: &File) -> std::io::Result<Option<ExitStatus>> {
        let mut child = Command::new(&self.program)
            .args(&self.arguments)
            .stdin(input)
            .stdout(output.try_clone()?)
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()?;
        let has_ended = ends_within(&child, self.limit);
        // What it has started ends with it, too.
        if let Some(group) = Pid::from_raw(child.id().cast_signed()) {
            let _ = kill_process_group(group, Signal::KILL);
        }
        let status = child.wait()?;
        Ok(has_ended?.then_some(status))
    }
}

impl From<Refusal> for TrialError {
    fn from(refusal: Refusal) -> TrialError {
        match refusal {
            Refusal::Object(why) => TrialError::Refused(why),
            Refusal::Configuration(why) => TrialError::Configuration(why),
            Refusal::State(why) => TrialError::State(why),
        }
    }
}

fn ends_within(child: &Child, limit: Duration) -> std::io::Result<bool> {
    let pid = Pid::from_raw(child.id().cast_signed()).expect("a process has a number above 0");
    let ended = pidfd_open(pid, PidfdFlags::empty())?;
    let clock = SystemClock::default();
    let due = clock.now() + limit;
    loop {
        let left = remaining(due, clock.now());
        match poll(&mut [PollFd::new(&ended, PollFlags::IN)], Some(&left)) {
            Ok(0) => return Ok(false),
            Ok(_) => return Ok(true),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

fn remaining(due: Time, now: Time) -> Timespec {
    let left = due - now;
    Timespec { tv_sec: left.as_secs().cast_signed(), tv_nsec: i64::from(left.subsec_nanos()) }
}

/// How a child has ended, for people.
fn describe(status: ExitStatus) -> String {
    match status.signal() {
        Some(signal) => format!("signal {signal}"),
        None => format!("{status}, without an answer"),
    }
}

fn memory() -> std::io::Result<File> {
    Ok(rustix::fs::memfd_create("petasos-trial", MemfdFlags::CLOEXEC)?.into())
}

fn input(request: &Request, object: &[u8]) -> std::io::Result<File> {
    let mut file = memory()?;
    file.write_all(&request.to_line())?;
    file.write_all(object)?;
    file.rewind()?;
    Ok(file)
}

fn answer(output: &mut File) -> Option<Answer> {
    output.rewind().ok()?;
    let mut bytes = Vec::new();
    output.take(ANSWER_BYTES_MAX).read_to_end(&mut bytes).ok()?;
    serde_json::from_slice(&bytes).ok()
}
