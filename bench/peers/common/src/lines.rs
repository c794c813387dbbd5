//! The lines between a peer and its parent.

use std::io::{BufRead, Write};
use std::str::FromStr;
use std::sync::mpsc::channel;
use std::time::Duration;

use crate::error::Error;

/// What is measured in a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// One call at a time, both sides spinning if they can.
    Spinning,
    /// One call at a time, both sides asleep between messages.
    Sleeping,
    /// A window of calls.
    Window,
}

/// A line from the parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// To a server: answer calls.
    Serve(Phase),
    /// To a server: the turn is over.
    Stop,
    /// To a client: make calls for this long.
    Turn(Phase, Duration),
}

impl FromStr for Phase {
    type Err = String;

    fn from_str(name: &str) -> Result<Phase, String> {
        match name {
            "spinning" => Ok(Phase::Spinning),
            "sleeping" => Ok(Phase::Sleeping),
            "window" => Ok(Phase::Window),
            _ => Err(format!("{name} is no phase")),
        }
    }
}

impl FromStr for Command {
    type Err = String;

    fn from_str(line: &str) -> Result<Command, String> {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["stop"] => Ok(Command::Stop),
            ["serve", phase] => Ok(Command::Serve(phase.parse()?)),
            ["turn", phase, micros] => {
                let micros = micros.parse().map_err(|_| format!("{micros} is no time"))?;
                Ok(Command::Turn(phase.parse()?, Duration::from_micros(micros)))
            }
            _ => Err(format!("{line} is not known")),
        }
    }
}

/// How long a peer may take to end once its parent has gone.
const GRACE: Duration = Duration::from_secs(1);

/// The parent's commands, until it has gone. Then the process ends, after a short time at the
/// latest, even if it waits for an answer that will not come.
pub fn commands() -> impl Iterator<Item = Result<Command, Error>> {
    let (send, received) = channel();
    watch(move |command| send.send(command).is_ok());
    received.into_iter().map(|command| command.map_err(Error::from))
}

/// Passes every line to `hear`, on a separate thread.
pub(crate) fn watch(mut hear: impl FnMut(Result<Command, String>) -> bool + Send + 'static) {
    std::thread::spawn(move || {
        let mut lines = std::io::stdin().lock().lines().map_while(Result::ok);
        while lines.next().is_some_and(|line| hear(line.parse())) {}
        // Dropping `hear` tells its receiver that the input has ended.
        drop(hear);
        std::thread::sleep(GRACE);
        std::process::exit(1);
    });
}

/// Sends a line to the parent.
///
/// # Errors
/// If the parent has gone.
pub fn say(line: &str) -> Result<(), Error> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")?;
    Ok(out.flush()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_read_and_others_refused() {
        let turn = Command::Turn(Phase::Window, Duration::from_micros(5));
        assert_eq!("turn window 5".parse(), Ok(turn));
        assert_eq!("serve spinning".parse(), Ok(Command::Serve(Phase::Spinning)));
        assert_eq!("stop".parse(), Ok(Command::Stop));
        for line in ["", "serve", "serve x", "turn window", "turn window -1", "turn x 1", "stop 1"]
        {
            assert!(line.parse::<Command>().is_err(), "{line}");
        }
    }
}
