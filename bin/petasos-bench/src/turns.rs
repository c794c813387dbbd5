//! What both sides of a measurement share: pinning, processor time, and the commands on their pipe.

use petasos_endpoint::Endpoint;
use petasos_floor::Path;
use rustix::thread::{CpuSet, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};

/// Pins the thread to `core`. On a machine with fewer cores, the thread is not pinned.
pub fn pin(core: usize) {
    let mut set = CpuSet::new();
    set.set(core);
    if sched_setaffinity(None, &set).is_err() {
        eprintln!("petasos bench: cannot pin to core {core}; the figures will be noisier");
    }
}

/// Processor time of this thread, in seconds.
pub fn thread_cpu_s() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Processor time of this process, all threads, in seconds.
pub fn process_cpu_s() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// The server's task in one turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerTurn {
    /// Runs its endpoint's loop.
    Petasos,
    /// Echoes raw datagrams.
    Echo(Path),
    /// Receives raw trains of datagrams of this many bytes.
    Drain(usize),
    /// Lets its endpoint's loop wait as in production.
    Idle,
}

impl ServerTurn {
    /// The command on the pipe.
    pub fn word(self) -> String {
        match self {
            ServerTurn::Petasos => "petasos".into(),
            ServerTurn::Echo(Path::Singles) => "echo 0".into(),
            ServerTurn::Echo(Path::Trains { datagram_bytes }) => format!("echo {datagram_bytes}"),
            ServerTurn::Idle => "idle".into(),
            ServerTurn::Drain(datagram_bytes) => format!("drain {datagram_bytes}"),
        }
    }

    /// Parses a command from the pipe.
    pub fn parse(line: &str) -> Option<ServerTurn> {
        let mut words = line.split_whitespace();
        let turn = match (words.next()?, words.next()) {
            ("petasos", None) => ServerTurn::Petasos,
            ("idle", None) => ServerTurn::Idle,
            ("echo", Some("0")) => ServerTurn::Echo(Path::Singles),
            ("echo", Some(bytes)) => {
                ServerTurn::Echo(Path::Trains { datagram_bytes: bytes.parse().ok()? })
            }
            ("drain", Some(bytes)) => ServerTurn::Drain(bytes.parse().ok()?),
            _ => return None,
        };
        words.next().is_none().then_some(turn)
    }
}

/// The traffic counters of an endpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Packets sent.
    pub packets: u64,
    /// System calls that transferred something. Empty polls of a spinning loop are not counted.
    pub syscalls: u64,
    /// Packets sent again: requests, pulls and repeated responses.
    pub retransmissions: u64,
    /// Received packets that were duplicates, or whose call was over.
    pub duplicates: u64,
}

impl Traffic {
    /// All traffic of an endpoint so far.
    pub fn of<S>(endpoint: &Endpoint<S>) -> Traffic {
        let stats = endpoint.stats();
        let (io, client, server) = (stats.io, stats.client, stats.server);
        Traffic {
            packets: io.tx_frames,
            syscalls: io.rx_syscalls - io.rx_syscalls_empty + io.tx_syscalls,
            retransmissions: client.retransmissions + server.responses_repeated,
            duplicates: client.duplicates + client.stale + server.duplicates + server.stale,
        }
    }

    /// The traffic since `before`.
    pub fn since(self, before: Traffic) -> Traffic {
        Traffic {
            packets: self.packets - before.packets,
            syscalls: self.syscalls - before.syscalls,
            retransmissions: self.retransmissions - before.retransmissions,
            duplicates: self.duplicates - before.duplicates,
        }
    }

    /// Adds the traffic of another endpoint or turn.
    pub fn add(&mut self, other: Traffic) {
        self.packets += other.packets;
        self.syscalls += other.syscalls;
        self.retransmissions += other.retransmissions;
        self.duplicates += other.duplicates;
    }
}

/// What the server reports after a turn, as one line of numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ServerReport {
    /// Bytes that a drain received.
    pub bytes: u64,
    /// The time over which they arrived.
    pub elapsed_s: f64,
    /// The turn's processor time.
    pub cpu_s: f64,
    /// The traffic of its endpoint since the last report.
    pub traffic: Traffic,
    /// Bytes of its endpoint's sessions.
    pub session_bytes: usize,
    /// The bytes of its endpoint's buffers, both in use and pooled.
    pub pool_bytes: usize,
}

impl ServerReport {
    /// Formats the report for the pipe.
    pub fn line(&self) -> String {
        let ServerReport { bytes, elapsed_s, cpu_s, session_bytes, pool_bytes, traffic } = self;
        let Traffic { packets, syscalls, retransmissions, duplicates } = traffic;
        format!(
            "done {bytes} {elapsed_s} {cpu_s} {packets} {syscalls} {retransmissions} {duplicates} \
             {session_bytes} {pool_bytes}"
        )
    }

    /// Parses a report from the pipe.
    pub fn parse(line: &str) -> Option<ServerReport> {
        let mut words = line.strip_prefix("done ")?.split_whitespace();
        Some(ServerReport {
            bytes: words.next()?.parse().ok()?,
            elapsed_s: words.next()?.parse().ok()?,
            cpu_s: words.next()?.parse().ok()?,
            traffic: Traffic {
                packets: words.next()?.parse().ok()?,
                syscalls: words.next()?.parse().ok()?,
                retransmissions: words.next()?.parse().ok()?,
                duplicates: words.next()?.parse().ok()?,
            },
            session_bytes: words.next()?.parse().ok()?,
            pool_bytes: words.next()?.parse().ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_reports_survive_the_pipe() {
        let trains = ServerTurn::Echo(Path::Trains { datagram_bytes: 56 });
        let turns =
            [ServerTurn::Petasos, ServerTurn::Echo(Path::Singles), trains, ServerTurn::Drain(1472)];
        for turn in turns {
            assert_eq!(ServerTurn::parse(&turn.word()), Some(turn));
        }
        assert_eq!(ServerTurn::parse("echo"), None);
        assert_eq!(ServerTurn::parse("petasos now"), None);
        let report = ServerReport {
            bytes: 1,
            elapsed_s: 0.25,
            cpu_s: 0.5,
            traffic: Traffic { packets: 2, syscalls: 3, retransmissions: 4, duplicates: 5 },
            session_bytes: 6,
            pool_bytes: 7,
        };
        assert_eq!(ServerReport::parse(&report.line()), Some(report));
        assert_eq!(ServerReport::parse("done 1"), None);
    }
}
