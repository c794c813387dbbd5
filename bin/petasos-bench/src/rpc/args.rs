//! The command line of `petasos bench rpc`, and values derived from it.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use petasos_report::Quantity;
use serde_json::{Map, Value, json};

use super::certificates::Certificates;
use super::phase::Phase;
use super::program::Program;
use super::role::{Peer, Role};
use crate::error::BenchError;

/// Measure typed calls against another RPC system, in the same run
///
/// Petasos, the peer and the floor (bare UDP) take turns of 100 ms, each between two processes
/// pinned to two cores. Latency is that of one call at a time, once with both sides spinning and
/// once with both asleep; rate, goodput and processor time are those of a window of calls.
#[derive(Args, Clone, Debug)]
pub struct RpcArgs {
    /// The system to compare with
    #[arg(long, default_value = "tonic")]
    pub peer: Peer,
    /// Bytes of a request's payload
    #[arg(long, default_value_t = 64)]
    pub size: u32,
    /// Bytes of a response's payload [default: the request's; from 4096 on: 32]
    #[arg(long)]
    pub response: Option<u32>,
    /// Calls outstanding where the rate is measured [default: 128, with at most 16 MB under way]
    #[arg(long)]
    pub window: Option<usize>,
    /// Use messages of one stream each way instead of calls. Where the rate is measured, as many as
    /// flow control allows
    #[arg(long)]
    pub streaming: bool,
    /// What to measure
    #[arg(long, value_delimiter = ',', default_value = "spinning,sleeping,window")]
    pub phases: Vec<Phase>,
    /// Use TLS 1.3 with certificates at both ends, made for the measurement: Petasos's packets are
    /// sealed, and HTTP/2 is encrypted by rustls; the floor is unencrypted. Not with --transport
    /// auto
    #[arg(long)]
    pub tls: bool,
    /// How Petasos's packets are transported
    #[arg(long, default_value = "udp")]
    pub transport: Carrier,
    /// Keep tonic's runtimes busy where both sides spin, so that they never sleep in epoll
    #[arg(long)]
    pub peer_awake: bool,
    /// Seconds to measure, all turns together
    #[arg(long, default_value_t = 10.0)]
    pub seconds: f64,
    /// Also write the result as JSON to this file
    #[arg(long)]
    pub json: Option<PathBuf>,
    /// With `--peer all`: also draw the result as SVG to this file, and as PNG next to it
    #[arg(long)]
    pub figure: Option<PathBuf>,
    /// Print the result as JSON instead of a table
    #[arg(long)]
    pub print_json: bool,
    /// Run as one side of one contender of another process's measurement (internal)
    #[arg(long, hide = true)]
    pub role: Option<Role>,
    /// The addresses of the other side (internal)
    #[arg(long, hide = true, value_delimiter = ',')]
    pub server: Vec<SocketAddr>,
}

/// How Petasos's packets are transported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Carrier {
    /// Kernel sockets, as the peer's
    Udp,
    /// Shared memory, which Petasos chooses automatically between processes of one host
    Auto,
}

/// The length of a turn.
pub const TURN: Duration = Duration::from_millis(100);
/// The fewest turns of each contender in each phase.
const ROUNDS_MIN: usize = 5;
/// Payloads from this size on are measured in bytes instead of calls.
const BULK_BYTES: u32 = 4096;
/// The most bytes in the default window.
const WINDOW_BYTES: usize = 16_000_000;

impl RpcArgs {
    /// Unary calls of these sizes over UDP, with the ends' other settings at their defaults.
    pub fn of_calls(size: u32, response: u32, window: usize, server: Vec<SocketAddr>) -> RpcArgs {
        RpcArgs {
            peer: Peer::Tonic,
            size,
            response: Some(response),
            window: Some(window),
            streaming: false,
            phases: Phase::ALL.to_vec(),
            tls: false,
            transport: Carrier::Udp,
            peer_awake: false,
            seconds: 0.0,
            json: None,
            figure: None,
            print_json: false,
            role: None,
            server,
        }
    }

    /// Bytes of a response's payload.
    pub fn response_bytes(&self) -> u32 {
        self.response.unwrap_or(if self.size < BULK_BYTES { self.size } else { 32 })
    }

    /// Bytes of the larger of request and response.
    pub fn payload_bytes(&self) -> u32 {
        self.size.max(self.response_bytes())
    }

    /// Calls outstanding where the rate is measured.
    pub fn window(&self) -> usize {
        let fitting = WINDOW_BYTES / (self.payload_bytes() as usize).max(1);
        self.window.unwrap_or(fitting.clamp(1, 128)).max(1)
    }

    /// The certificates that this process inherited, if calls use TLS.
    pub fn certificates(&self) -> Result<Option<Certificates>, BenchError> {
        self.tls.then(Certificates::handed).transpose()
    }

    /// The quantity for a window of calls.
    pub fn window_quantity(&self) -> Quantity {
        match self.payload_bytes() {
            BULK_BYTES.. => Quantity::GbitPerS,
            _ => Quantity::OpsPerS,
        }
    }

    /// The phases to measure, without duplicates.
    pub fn phases(&self) -> Vec<Phase> {
        Phase::ALL.into_iter().filter(|phase| self.phases.contains(phase)).collect()
    }

    /// The number of rounds that fit into the time, if each has `turns` turns.
    pub fn rounds(&self, turns: usize) -> usize {
        let round_s = TURN.as_secs_f64() * turns as f64;
        ((self.seconds / round_s) as usize).max(ROUNDS_MIN)
    }

    /// Every parameter by name, for the JSON.
    pub fn parameters(&self) -> Map<String, Value> {
        let phases: Vec<_> = self.phases().into_iter().map(Phase::name).collect();
        let value = json!({
            "peer": self.peer.name(),
            "transport": format!("{:?}", self.transport).to_lowercase(),
            "size_bytes": self.size,
            "response_bytes": self.response_bytes(),
            "window": (!self.streaming).then(|| self.window()),
            "streaming": self.streaming,
            "tls": self.tls,
            "peer_awake": self.peer_awake,
            "phases": phases,
            "seconds": self.seconds,
        });
        match value {
            Value::Object(map) => map,
            _ => unreachable!("the literal above is an object"),
        }
    }
}

impl Peer {
    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Peer::Tonic => "tonic",
            Peer::PetasosDirect => "petasos-direct",
            Peer::PetasosGrpc => "petasos-grpc",
            Peer::All => "all",
            _ => self.program().map_or("", Program::name),
        }
    }

    /// The names of the compared systems, Petasos first.
    pub fn contenders(self) -> [&'static str; 2] {
        match self {
            Peer::PetasosGrpc => ["petasos-grpc", "tonic"],
            _ => ["petasos", self.name()],
        }
    }
}
