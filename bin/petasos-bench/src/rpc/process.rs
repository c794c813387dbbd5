//! The parent's handles of a measurement's processes.

use std::io::Write;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use nix::time::clock_getcpuclockid;
use nix::unistd::Pid;

use super::answers::{read_answers, ready, turn};
use super::args::RpcArgs;
use super::certificates::Certificates;
use super::phase::{Phase, Turn};
use super::role::{Contender, Role, Side};
use crate::error::BenchError;
use crate::turns::pin;

/// How long an answer may take on a busy machine, in addition to its turn.
const ANSWER_MAX: Duration = Duration::from_secs(60);
/// How long a process may take to end after its input is closed, before it is killed.
const END_MAX: Duration = Duration::from_secs(3);

/// A child that waits for commands.
pub struct Process {
    /// What errors call it.
    who: String,
    child: Child,
    commands: Option<ChildStdin>,
    answers: Receiver<String>,
}

/// A contender's two processes, idle between turns.
pub struct Duo {
    client: Process,
    server: Process,
    /// Whether the parent measures the processor time, as of separate programs.
    is_program: bool,
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
    /// Starts both processes: this program with its arguments, or a separate program.
    pub fn start(
        contender: Contender,
        args: &RpcArgs,
        certificates: Option<&Certificates>,
    ) -> Result<Duo, BenchError> {
        let program = match contender {
            Contender::Program(program) => Some(program.build()?),
            _ => None,
        };
        let start = |side, server: &[String]| {
            let role = Role { side, contender };
            let mut command = match &program {
                Some(path) => program_command(path, role.side, server, args),
                None => own_command(role, server)?,
            };
            if let Some(certificates) = certificates {
                certificates.hand_to(&mut command)?;
            }
            let who = format!("{} of {}", side.name(), contender.name());
            Process::start(who, command, program.as_ref().map(|_| side.core()))
        };
        let (server, addresses) = start(Side::Server, &[])?;
        let (client, _) = start(Side::Client, &addresses)?;
        Ok(Duo { client, server, is_program: program.is_some() })
    }

    /// Lets the client make calls for `duration`.
    pub fn turn(&mut self, phase: Phase, duration: Duration) -> Result<DuoTurn, BenchError> {
        let cpu_s = [self.client.cpu_s(), self.server.cpu_s()];
        let DuoTurn { mut client, mut server } =
            turn_of(&mut self.client, &mut self.server, phase, duration)?;
        // For separate programs, the parent measures the processor time.
        for (side, process, before) in
            [(&mut client, &self.client, cpu_s[0]), (&mut server, &self.server, cpu_s[1])]
        {
            let times = (before, process.cpu_s());
            if let (true, (Some(before), Some(after))) = (self.is_program, times) {
                side.cpu_s = after - before;
            }
        }
        Ok(DuoTurn { client, server })
    }
}

/// Lets `client` make calls of `server` for `duration`.
pub fn turn_of(
    client: &mut Process,
    server: &mut Process,
    phase: Phase,
    duration: Duration,
) -> Result<DuoTurn, BenchError> {
    begin_turn(client, server, phase, duration)?;
    end_turn(client, server)
}

/// Begins a turn. Until it ends, others may begin theirs.
pub fn begin_turn(
    client: &mut Process,
    server: &mut Process,
    phase: Phase,
    duration: Duration,
) -> Result<(), BenchError> {
    let phase = phase.name();
    server.say(&format!("serve {phase}"))?;
    if server.hear()? != "started" {
        return Err("the server answered out of turn".into());
    }
    client.say(&format!("turn {phase} {}", duration.as_micros()))
}

/// Waits until the turn that was begun has ended.
pub fn end_turn(client: &mut Process, server: &mut Process) -> Result<DuoTurn, BenchError> {
    let client = client.hear_turn()?;
    server.say("stop")?;
    Ok(DuoTurn { client, server: server.hear_turn()? })
}

/// This program, as one side of a contender.
fn own_command(role: Role, server: &[String]) -> Result<Command, BenchError> {
    let name = format!("{}:{}", role.side.name(), role.contender.name());
    let mut command = Command::new(std::env::current_exe()?);
    command.args(std::env::args_os().skip(1)).args(["--role", &name]);
    if !server.is_empty() {
        command.args(["--server", &server.join(",")]);
    }
    Ok(command)
}

/// The command for a separate program, as specified in `bench/peers/README.md`.
fn program_command(path: &Path, side: Side, server: &[String], args: &RpcArgs) -> Command {
    let mut command = Command::new(path);
    command.arg(match side {
        Side::Client => "call",
        Side::Server => "serve",
    });
    for address in server {
        command.args(["--server", address]);
    }
    let numbers = [
        ("--size", u64::from(args.size)),
        ("--response", u64::from(args.response_bytes())),
        ("--window", args.window() as u64),
    ];
    for (name, number) in numbers {
        command.args([name, &number.to_string()]);
    }
    command
}

impl Process {
    /// Starts the process, and waits until it is ready. A server reports its addresses. A program
    /// that does not pin itself is pinned to a core.
    pub fn start(
        who: String,
        mut command: Command,
        core: Option<usize>,
    ) -> Result<(Process, Vec<String>), BenchError> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let spawned = match core {
            Some(core) => spawn_pinned(&mut command, core),
            None => command.spawn(),
        };
        let mut child = spawned.map_err(|error| format!("cannot start a process: {error}"))?;
        let commands = child.stdin.take();
        let answers = read_answers(child.stdout.take().ok_or("the process has no output")?);
        let mut process = Process { who, child, commands, answers };
        let addresses = ready(&process.hear()?)?;
        Ok((process, addresses))
    }

    /// Lets a client that needs no server have a turn.
    pub fn turn_alone(&mut self, phase: Phase) -> Result<Turn, BenchError> {
        self.say(&format!("turn {} 0", phase.name()))?;
        self.hear_turn()
    }

    /// What it answers to a line.
    ///
    /// # Errors
    /// If it has died, or does not answer.
    pub fn ask(&mut self, line: &str) -> Result<String, BenchError> {
        self.say(line)?;
        self.hear()
    }

    fn say(&mut self, line: &str) -> Result<(), BenchError> {
        let died = self.died();
        let commands = self.commands.as_mut().ok_or("the process has been told to end")?;
        writeln!(commands, "{line}").map_err(|_| died)
    }

    fn hear(&mut self) -> Result<String, BenchError> {
        self.answers.recv_timeout(ANSWER_MAX).map_err(|error| match error {
            RecvTimeoutError::Disconnected => self.died(),
            RecvTimeoutError::Timeout => format!("the {} does not answer", self.who).into(),
        })
    }

    fn hear_turn(&mut self) -> Result<Turn, BenchError> {
        turn(&self.hear()?)
    }

    /// The processor time so far, in seconds; `None` if it has ended.
    pub fn cpu_s(&self) -> Option<f64> {
        cpu_s_of(self.id())
    }

    /// The process's number.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// What errors call it.
    pub fn who(&self) -> &str {
        &self.who
    }

    /// Whether it has ended by itself.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().is_ok_and(|status| status.is_some())
    }

    /// The error for a process that has ended. It has printed the reason to standard error.
    fn died(&self) -> BenchError {
        format!("the {} has died", self.who).into()
    }
}

/// The processor time of a process so far, in seconds; `None` if it has ended.
pub fn cpu_s_of(id: u32) -> Option<f64> {
    let id = Pid::from_raw(i32::try_from(id).ok()?);
    let time = clock_getcpuclockid(id).and_then(|clock| clock.now()).ok()?;
    Some(time.tv_sec() as f64 + time.tv_nsec() as f64 / 1e9)
}

/// Starts a program on a core, which it inherits from the starting thread.
fn spawn_pinned(command: &mut Command, core: usize) -> std::io::Result<Child> {
    std::thread::scope(|scope| {
        let spawned = scope.spawn(|| {
            pin(core);
            command.spawn()
        });
        spawned.join().expect("starting a process does not panic")
    })
}

impl Drop for Process {
    /// The process ends when its input is closed, which also closes its output. If it does not, it
    /// is killed.
    fn drop(&mut self) {
        drop(self.commands.take());
        loop {
            match self.answers.recv_timeout(END_MAX) {
                Ok(_) => {}
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {
                    self.child.kill().ok();
                    break;
                }
            }
        }
        self.child.wait().ok();
    }
}
