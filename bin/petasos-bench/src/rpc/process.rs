//! The parent's handle on a process of a measurement.

use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use super::certificates::Certificates;
use super::phase::{Phase, Turn};
use super::role::{Contender, Role, Side};
use crate::error::BenchError;

/// A child that waits for what it is told.
struct Process {
    role: Role,
    child: Child,
    commands: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

/// A contender's two processes, idle between turns.
pub struct Duo {
    client: Process,
    server: Process,
}

/// One turn of a contender, both sides.
#[derive(Clone, Debug, Default)]
pub struct DuoTurn {
    pub client: Turn,
    pub server: Turn,
}

impl DuoTurn {
    /// Processor time of both sides, in seconds.
    pub fn cpu_s(&self) -> f64 {
        self.client.cpu_s + self.server.cpu_s
    }
}

impl Duo {
    /// Starts both processes with this one's arguments.
    pub fn start(
        contender: Contender,
        certificates: Option<&Certificates>,
    ) -> Result<Duo, BenchError> {
        let start = |side, addresses: &[_]| {
            Process::start(Role { side, contender }, addresses, certificates)
        };
        let (server, addresses) = start(Side::Server, &[])?;
        let (client, _) = start(Side::Client, &addresses)?;
        Ok(Duo { client, server })
    }

    /// Lets the client make calls for `duration`.
    pub fn turn(&mut self, phase: Phase, duration: Duration) -> Result<DuoTurn, BenchError> {
        let phase = phase.name();
        self.server.say(&format!("serve {phase}"))?;
        if self.server.hear()? != "started" {
            return Err("the server answered out of turn".into());
        }
        self.client.say(&format!("turn {phase} {}", duration.as_micros()))?;
        let client = self.client.hear_turn()?;
        self.server.say("stop")?;
        Ok(DuoTurn { client, server: self.server.hear_turn()? })
    }
}

impl Process {
    /// Starts it, and waits until it says where it is, if it is somewhere.
    fn start(
        role: Role,
        server: &[SocketAddr],
        certificates: Option<&Certificates>,
    ) -> Result<(Process, Vec<SocketAddr>), BenchError> {
        let name = format!("{}:{}", role.side.name(), role.contender.name());
        let mut command = Command::new(std::env::current_exe()?);
        command.args(std::env::args_os().skip(1)).args(["--role", &name]);
        if !server.is_empty() {
            let server: Vec<_> = server.iter().map(SocketAddr::to_string).collect();
            command.args(["--server", &server.join(",")]);
        }
        if let Some(certificates) = certificates {
            certificates.hand_to(&mut command)?;
        }
        let spawned = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = spawned.map_err(|error| format!("cannot start a process: {error}"))?;
        let commands = child.stdin.take();
        let answers = BufReader::new(child.stdout.take().ok_or("the process has no output")?);
        let mut process = Process { role, child, commands, answers };
        let line = process.hear()?;
        let addresses = line.strip_prefix("ready").ok_or("the process did not come up")?;
        let addresses = addresses.split_whitespace().map(str::parse);
        let addresses = addresses.collect::<Result<_, _>>()?;
        Ok((process, addresses))
    }

    fn say(&mut self, line: &str) -> Result<(), BenchError> {
        let died = self.died();
        let commands = self.commands.as_mut().ok_or("the process has been told to end")?;
        writeln!(commands, "{line}").map_err(|_| died)
    }

    fn hear(&mut self) -> Result<String, BenchError> {
        let mut line = String::new();
        if self.answers.read_line(&mut line)? == 0 {
            return Err(self.died());
        }
        Ok(line.trim_end().to_owned())
    }

    fn hear_turn(&mut self) -> Result<Turn, BenchError> {
        let line = self.hear()?;
        let turn = line.strip_prefix("done ").ok_or("a process answered out of turn")?;
        Ok(serde_json::from_str(turn)?)
    }

    /// It has said why on standard error.
    fn died(&self) -> BenchError {
        let Role { side, contender } = self.role;
        format!("the {} of {} has died", side.name(), contender.name()).into()
    }
}

impl Drop for Process {
    /// It ends with its input.
    fn drop(&mut self) {
        drop(self.commands.take());
        self.child.wait().ok();
    }
}
