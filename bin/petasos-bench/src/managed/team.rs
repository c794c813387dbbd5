//! The processes of one contender.

use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

use super::folder::Folder;
use super::launch::Launched;
use super::part_args::PartName;
use super::shape::Shape;
use super::sidecars::Running;
use crate::error::BenchError;
use crate::rpc::phase::{Phase, Turn};
use crate::rpc::process::{DuoTurn, Process, cpu_s_of, turn_of};

/// The core of the client's host.
pub const CLIENT_CORE: usize = 0;
/// The core of the server's host.
pub const SERVER_CORE: usize = 1;

/// A client, a server, and what stands between them. All of them end with the team.
pub struct Team {
    client: Process,
    server: Process,
    between: Vec<Between>,
    /// Files that those between them use.
    _folders: Vec<Folder>,
}

/// A process between client and server.
pub enum Between {
    /// A process of this program.
    Part(Process),
    /// A program of its own.
    Program(Launched),
}

/// One turn of a team.
#[derive(Clone, Debug)]
pub struct TeamTurn {
    pub client: Turn,
    /// Processor time of all processes, in seconds.
    pub cpu_s: f64,
}

/// The most memory that processes have had so far, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PeakMemory {
    pub client: u64,
    pub server: u64,
    /// All processes between them together.
    pub between: u64,
}

impl PeakMemory {
    /// All processes.
    pub fn total(self) -> u64 {
        self.client + self.server + self.between
    }
}

impl Team {
    /// A team of running processes.
    pub fn new(client: Process, server: Process, between: Vec<Between>) -> Team {
        Team { client, server, between, _folders: Vec::new() }
    }

    /// A team whose calls pass programs between client and server.
    pub fn with_sidecars(
        client: Process,
        server: Process,
        sidecars: impl IntoIterator<Item = Running>,
    ) -> Team {
        let mut team = Team::new(client, server, Vec::new());
        for Running { program, folder, .. } in sidecars {
            team.between.push(Between::Program(program));
            team._folders.push(folder);
        }
        team
    }

    /// Lets the client make calls for `duration`.
    ///
    /// # Errors
    /// If a process has died or answers nonsense. The error names a process that has died.
    pub fn turn(&mut self, phase: Phase, duration: Duration) -> Result<TeamTurn, BenchError> {
        let before = self.cpu_s();
        let turn = turn_of(&mut self.client, &mut self.server, phase, duration);
        let DuoTurn { client, .. } = turn.map_err(|error| self.explain(error))?;
        if let Some(dead) = self.dead() {
            return Err(format!("the {dead} has died").into());
        }
        let (Some(before), Some(after)) = (before, self.cpu_s()) else {
            return Err("a process has died".into());
        };
        Ok(TeamTurn { client, cpu_s: after - before })
    }

    /// The most memory that its processes have had so far.
    pub fn peak_memory(&self) -> PeakMemory {
        let of = |id| peak_bytes(id).unwrap_or(0);
        PeakMemory {
            client: of(self.client.id()),
            server: of(self.server.id()),
            between: self.between.iter().map(|between| of(between.id())).sum(),
        }
    }

    /// A process between the others that has died explains why these fail.
    fn explain(&mut self, error: BenchError) -> BenchError {
        let between = self.between.iter_mut().find_map(Between::dead);
        between.map_or(error, |dead| format!("the {dead} has died").into())
    }

    fn dead(&mut self) -> Option<String> {
        let ends = [&mut self.client, &mut self.server];
        let mut ends = ends.into_iter().filter_map(|end| {
            let has_ended = end.has_ended();
            has_ended.then(|| end.who().to_owned())
        });
        ends.next().or_else(|| self.between.iter_mut().find_map(Between::dead))
    }

    fn ids(&self) -> impl Iterator<Item = u32> {
        let between = self.between.iter().map(Between::id);
        [self.client.id(), self.server.id()].into_iter().chain(between)
    }

    /// Processor time of all processes so far; `None` if one has died.
    fn cpu_s(&self) -> Option<f64> {
        self.ids().map(cpu_s_of).sum()
    }
}

impl Between {
    fn id(&self) -> u32 {
        match self {
            Between::Part(process) => process.id(),
            Between::Program(program) => program.id(),
        }
    }

    /// Its name, if it has died.
    fn dead(&mut self) -> Option<String> {
        let (has_ended, who) = match self {
            Between::Part(process) => (process.has_ended(), process.who().to_owned()),
            Between::Program(program) => (program.has_ended(), program.who().to_owned()),
        };
        has_ended.then_some(who)
    }
}

/// Starts a part of a contender on a core, and waits until it is ready. Returns its addresses.
///
/// # Errors
/// If it does not come up.
pub fn part(
    name: PartName,
    core: usize,
    shape: Shape,
    servers: &[SocketAddr],
) -> Result<(Process, Vec<SocketAddr>), BenchError> {
    part_behind(name, core, shape, servers, None)
}

/// The same, for an application behind the managed service at `unix:PATH`.
///
/// # Errors
/// If it does not come up.
pub fn part_behind(
    name: PartName,
    core: usize,
    shape: Shape,
    servers: &[SocketAddr],
    service: Option<&str>,
) -> Result<(Process, Vec<SocketAddr>), BenchError> {
    let options: Vec<_> = service.into_iter().flat_map(|service| ["--service", service]).collect();
    part_with(name, core, shape, servers, &options)
}

/// The same, for a part with options of its own.
///
/// # Errors
/// If it does not come up.
pub fn part_with(
    name: PartName,
    core: usize,
    shape: Shape,
    servers: &[SocketAddr],
    options: &[&str],
) -> Result<(Process, Vec<SocketAddr>), BenchError> {
    let mut command = Command::new(std::env::current_exe()?);
    let parent = std::process::id().to_string();
    command.args(["managed-part", name.name(), "--core", &core.to_string(), "--parent", &parent]);
    command.args(["--work", shape.work.name()]);
    let numbers = [
        ("--request-bytes", shape.request_bytes as usize),
        ("--response-bytes", shape.response_bytes as usize),
        ("--window", shape.window),
        ("--threads", shape.threads),
    ];
    for (name, number) in numbers {
        command.args([name, &number.to_string()]);
    }
    for server in servers {
        command.args(["--server", &server.to_string()]);
    }
    command.args(options);
    let (process, addresses) =
        Process::start(format!("{} on core {core}", name.name()), command, None)?;
    let addresses = addresses.iter().map(|address| address.parse()).collect::<Result<_, _>>()?;
    Ok((process, addresses))
}

/// The most memory that a process has had resident, in bytes.
fn peak_bytes(id: u32) -> Option<u64> {
    bytes_of("VmHWM:", &std::fs::read_to_string(format!("/proc/{id}/status")).ok()?)
}

/// The memory that a process has resident now, in bytes.
pub fn resident_bytes(id: u32) -> Option<u64> {
    bytes_of("VmRSS:", &std::fs::read_to_string(format!("/proc/{id}/status")).ok()?)
}

/// A value in the text of a process's status.
fn bytes_of(name: &str, status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    let kilobytes: u64 = line.trim().strip_suffix(" kB")?.trim().parse().ok()?;
    kilobytes.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peak_is_read_from_a_status() {
        let status = "Name:\tx\nVmPeak:\t  9 kB\nVmHWM:\t   1234 kB\nVmRSS:\t   5 kB\n";
        assert_eq!(bytes_of("VmHWM:", status), Some(1234 * 1024));
        assert_eq!(bytes_of("VmRSS:", status), Some(5 * 1024));
        for bad in ["", "VmHWM: many kB", "VmHWM: 5 MB", "VmHWM: 18446744073709551615 kB"] {
            assert_eq!(bytes_of("VmHWM:", bad), None, "{bad}");
        }
        let own = std::process::id();
        let (peak, now) = (peak_bytes(own).unwrap_or(0), resident_bytes(own).unwrap_or(0));
        assert!(4096 < now && now <= peak_bytes(own).unwrap_or(0).max(peak), "{now} of {peak}");
    }
}
