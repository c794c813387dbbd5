//! The command line of `petasos bench`, and values derived from it.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use petasos_base::Clock;
use petasos_cli::security::SecurityArgs;
use petasos_endpoint::{
    Backend, Endpoint, EndpointConfig, LocalConfig, LocalIo, Polling, SessionConfig, Switches,
    TcpConfig, TcpIo,
};
use petasos_netio_shm::{ShmConfig, ShmIo};
use petasos_netio_udp::{UdpConfig, UdpIo};
use petasos_netio_xdp::{XdpConfig, XdpIo};
use serde_json::{Map, Value, json};

use crate::error::BenchError;
use petasos_cli::transport::TransportArgs;

/// Measure Petasos against the floor of its transport
#[derive(Args, Clone, Debug)]
pub struct BenchArgs {
    /// What to measure
    pub experiment: Experiment,
    /// How packets are transported
    #[arg(long, default_value = "udp")]
    pub transport: Transport,
    /// With `xdp`: the interface to use [default: a pair made for the measurement; needs root]
    #[arg(long)]
    pub interface: Option<String>,
    /// With `xdp`: the interface's queue
    #[arg(long, default_value_t = 0)]
    pub queue: u32,
    /// Request size in bytes [default: 32; bandwidth: 8000000]
    #[arg(long)]
    pub size: Option<u32>,
    /// Response size in bytes [default: the request's; bandwidth: 32]
    #[arg(long)]
    pub response: Option<u32>,
    /// Requests outstanding [default: 1; rate, factors and contention: 64]
    #[arg(long)]
    pub window: Option<usize>,
    /// The most requests enqueued per turn of the loop [default: the window]
    #[arg(long)]
    pub batch: Option<usize>,
    /// How the loops wait
    #[arg(long, default_value = "spin")]
    pub polling: PollingArg,
    /// Probability of dropping each received packet, after GRO has been split
    #[arg(long, default_value_t = 0.0)]
    pub loss: f64,
    /// Seconds to measure, all turns together [default: 5; contention: 20]
    #[arg(long)]
    pub seconds: Option<f64>,
    /// Also write the result as JSON to this file
    #[arg(long)]
    pub json: Option<PathBuf>,
    /// Print the result as JSON instead of a table
    #[arg(long)]
    pub print_json: bool,
    /// Measure against a running `petasos serve` at this address, without a floor
    #[arg(long)]
    pub connect: Option<SocketAddr>,
    /// With `--connect`. This is a separate field because clap cannot flatten into an optional one
    #[arg(skip)]
    pub security: SecurityArgs,
    /// Sessions; each call picks one at random [default: one per `--slots` requests of the
    /// window, each call on that of the one before]
    #[arg(long)]
    pub sessions: Option<usize>,
    /// Concurrent calls of a session: a power of two, 64 at most. Channels open theirs with 32
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = parse_slots)]
    pub slots: u32,
    /// Largest datagram payload in bytes, without headers of IP and UDP [default: 8972; shm and
    /// auto: the optimum for rings; tcp: the longest possible]
    #[arg(long)]
    pub datagram: Option<usize>,
    /// Go-back-N instead of selective retransmission
    #[arg(long)]
    pub go_back_n: bool,
    /// Optimisations to switch off
    #[arg(long, value_delimiter = ',')]
    pub without: Vec<Factor>,
    /// Run the server's side of another process's measurement (internal)
    #[arg(long, hide = true)]
    pub server_role: Option<String>,
}

fn parse_slots(text: &str) -> Result<u32, String> {
    let slots: u32 = text.parse().map_err(|_| "expected a number".to_owned())?;
    if slots.is_power_of_two() && slots <= 64 {
        return Ok(slots);
    }
    Err("expected 1, 2, 4, 8, 16, 32 or 64".to_owned())
}

/// The experiments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Experiment {
    /// Round trip of one request at a time, against a spinning ping-pong
    Latency,
    /// Small requests per second, against a raw GSO/GRO echo and one datagram per call
    Rate,
    /// Large requests, against a raw GSO/GRO transfer
    Bandwidth,
    /// How much each common-case optimisation improves the rate
    Factors,
    /// Memory of sessions between two processes, after every slot has been used
    Sessions,
    /// Processor time of an idle client and server
    Idle,
    /// The rate while busy processes compete for the two cores, and the recovery time afterwards
    Contention,
}

/// How packets are transported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Transport {
    /// Kernel sockets over the loopback device, two processes on two cores
    Udp,
    /// TCP connections over the loopback device, two processes on two cores; the floor is that of
    /// `udp`
    Tcp,
    /// Memory of one thread: measures the cost of the protocol alone
    Loopback,
    /// Shared-memory rings, two processes on two cores
    Shm,
    /// AF_XDP sockets across a veth pair, two processes on two cores
    Xdp,
    /// Kernel sockets and shared-memory rings in one endpoint, which chooses between them
    Auto,
}

/// How a loop waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PollingArg {
    /// Never sleep
    Spin,
    /// Spin for a while, then sleep
    Adaptive,
}

/// The optimisations that can be switched off, one at a time or together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Factor {
    /// Trains in one send (GSO)
    Gso,
    /// Trains in one receive (GRO)
    Gro,
    /// One clock reading per turn
    Clock,
    /// Responses use the slot's previous buffer
    Preallocated,
    /// Requests are read where they were received
    ZeroCopy,
    /// Buffers are reused
    Pool,
}

impl Factor {
    /// Every factor, in the order in which they are switched off cumulatively.
    pub const ALL: [Factor; 6] = [
        Factor::Clock,
        Factor::Preallocated,
        Factor::ZeroCopy,
        Factor::Pool,
        Factor::Gro,
        Factor::Gso,
    ];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Factor::Gso => "gso",
            Factor::Gro => "gro",
            Factor::Clock => "clock",
            Factor::Preallocated => "preallocated",
            Factor::ZeroCopy => "zero-copy",
            Factor::Pool => "pool",
        }
    }

    /// The name in the table.
    pub fn title(self) -> &'static str {
        match self {
            Factor::Gso => "GSO (trains in one send)",
            Factor::Gro => "GRO (trains in one receive)",
            Factor::Clock => "one clock reading per turn",
            Factor::Preallocated => "preallocated responses",
            Factor::ZeroCopy => "zero-copy requests",
            Factor::Pool => "buffer pooling",
        }
    }
}

/// The length of a turn.
pub const TURN: Duration = Duration::from_millis(100);
/// The fewest pairs of turns.
pub const PAIRS_MIN: usize = 20;

const BANDWIDTH_BYTES: u32 = 8_000_000;

impl BenchArgs {
    /// The largest datagram payload in bytes.
    pub fn datagram(&self) -> usize {
        let default = match self.transport {
            Transport::Shm | Transport::Auto => ShmConfig::default().datagram_bytes_max,
            Transport::Tcp => TcpConfig::default().datagram_bytes_max,
            _ => 8972,
        };
        self.datagram.unwrap_or(default)
    }

    /// The request size in bytes.
    pub fn request_bytes(&self) -> u32 {
        let bandwidth = self.experiment == Experiment::Bandwidth;
        self.size.unwrap_or(if bandwidth { BANDWIDTH_BYTES } else { 32 })
    }

    /// The response size in bytes.
    pub fn response_bytes(&self) -> u32 {
        let bandwidth = self.experiment == Experiment::Bandwidth;
        self.response.unwrap_or(if bandwidth { 32 } else { self.request_bytes() })
    }

    /// The number of requests outstanding.
    pub fn window(&self) -> usize {
        if self.experiment == Experiment::Sessions {
            return self.sessions() * self.slots as usize;
        }
        let many = [Experiment::Rate, Experiment::Factors, Experiment::Contention];
        self.window.unwrap_or(if many.contains(&self.experiment) { 64 } else { 1 }).max(1)
    }

    /// The most requests enqueued per turn of the loop.
    pub fn batch(&self) -> usize {
        self.batch.unwrap_or_else(|| self.window()).max(1)
    }

    /// The number of sessions over which the window is spread.
    pub fn sessions(&self) -> usize {
        if self.experiment == Experiment::Sessions {
            return self.sessions.unwrap_or(10_000).max(1);
        }
        self.sessions.unwrap_or_else(|| self.window().div_ceil(self.slots as usize)).max(1)
    }

    /// The seconds to measure, including all turns.
    pub fn seconds(&self) -> f64 {
        let contention = self.experiment == Experiment::Contention;
        self.seconds.unwrap_or(if contention { 20.0 } else { 5.0 })
    }

    /// The number of pairs that fit into the time, if a pair has `turns` turns.
    pub fn pairs(&self, turns: usize) -> usize {
        let pair_s = TURN.as_secs_f64() * turns as f64;
        ((self.seconds() / pair_s) as usize).max(PAIRS_MIN)
    }

    fn is_on(&self, factor: Factor) -> bool {
        !self.without.contains(&factor)
    }

    /// An endpoint with the default settings, without the switched-off optimisations.
    pub fn endpoint<S>(&self, io: impl Into<Backend>, state: S) -> Endpoint<S> {
        let mut endpoint = Endpoint::new(self.endpoint_config(), io, Clock::system(), state);
        endpoint.set_switches(Switches {
            batched_clock: self.is_on(Factor::Clock),
            preallocated_responses: self.is_on(Factor::Preallocated),
            zero_copy_requests: self.is_on(Factor::ZeroCopy),
            loss: self.loss,
        });
        endpoint
    }

    fn endpoint_config(&self) -> EndpointConfig {
        let mut config = EndpointConfig::default();
        config.pool.reuse = self.is_on(Factor::Pool);
        config.session = SessionConfig {
            recovery: if self.go_back_n {
                petasos_endpoint::Recovery::GoBackN
            } else {
                petasos_endpoint::Recovery::Selective
            },
            slots: self.slots,
            ..SessionConfig::default()
        };
        config.polling = match self.polling {
            PollingArg::Spin => Polling::Spin,
            PollingArg::Adaptive => Polling::default(),
        };
        config
    }

    /// The socket's settings.
    pub fn udp(&self) -> UdpConfig {
        UdpConfig {
            gso: self.is_on(Factor::Gso),
            gro: self.is_on(Factor::Gro),
            datagram_bytes_max: self.datagram(),
            ..UdpConfig::default()
        }
    }

    /// The AF_XDP socket's settings, on one queue.
    pub fn xdp(&self, queue: u32) -> XdpConfig {
        XdpConfig {
            interface: self.interface.clone(),
            queue,
            datagram_bytes_max: self.datagram(),
            // A new interface needs time to find its neighbours.
            resolve_wait_ms: 5000,
            ..XdpConfig::default()
        }
    }

    /// Opens the packet I/O of one side.
    pub fn open(&self, local: SocketAddr) -> Result<Backend, BenchError> {
        let shm = ShmConfig { datagram_bytes_max: self.datagram(), ..ShmConfig::default() };
        Ok(match self.transport {
            Transport::Udp | Transport::Loopback => UdpIo::bind(local, self.udp())?.into(),
            Transport::Tcp => {
                let datagram_bytes_max = self.datagram();
                let config = TcpConfig { datagram_bytes_max, ..TcpConfig::default() };
                TcpIo::bind(local, config)?.into()
            }
            Transport::Shm => ShmIo::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), shm)?.into(),
            Transport::Xdp => XdpIo::bind(local, &self.xdp(self.queue))?.into(),
            Transport::Auto => {
                let config = LocalConfig { udp: self.udp(), shm, ..LocalConfig::default() };
                LocalIo::bind(local, &config)?.into()
            }
        })
    }

    /// The local address from which this side can reach `server`.
    pub fn towards(&self, server: SocketAddr) -> Result<SocketAddr, BenchError> {
        let transport = match self.transport {
            Transport::Xdp => petasos_cli::transport::Transport::Xdp,
            _ => petasos_cli::transport::Transport::Udp,
        };
        let interface = self.interface.clone();
        let args =
            TransportArgs { transport, interface, queue: self.queue, ..TransportArgs::default() };
        let address = SocketAddr::new(args.ip_towards(server), 0);
        Ok(args.own_address(address)?)
    }

    /// The transport's word on the command line.
    fn transport_word(&self) -> String {
        format!("{:?}", self.transport).to_lowercase()
    }

    /// All parameters by name, for the JSON.
    pub fn parameters(&self) -> Map<String, Value> {
        let without: Vec<_> = self.without.iter().map(|factor| factor.name()).collect();
        let value = json!({
            "transport": self.transport_word(),
            "size_bytes": self.request_bytes(),
            "response_bytes": self.response_bytes(),
            "window": self.window(),
            "batch": self.batch(),
            "sessions": self.sessions(),
            "slots": self.slots,
            "polling": format!("{:?}", self.polling).to_lowercase(),
            "loss": self.loss,
            "seconds": self.seconds(),
            "datagram_bytes_max": self.datagram(),
            "recovery": if self.go_back_n { "go-back-n" } else { "selective" },
            "without": without,
        });
        match value {
            Value::Object(map) => map,
            _ => unreachable!("the literal above is an object"),
        }
    }

    /// The arguments with which another process of this program becomes the server of this
    /// measurement.
    pub fn for_server(&self) -> Vec<String> {
        let mut args: Vec<String> = vec!["rate".into()];
        args.extend(["--server-role".into(), "turns".into()]);
        args.extend(["--loss".into(), self.loss.to_string()]);
        args.extend(["--transport".into(), self.transport_word()]);
        args.extend(["--slots".into(), self.slots.to_string()]);
        args.extend(["--queue".into(), self.queue.to_string()]);
        args.extend(["--datagram".into(), self.datagram().to_string()]);
        let polling = format!("{:?}", self.polling).to_lowercase();
        args.extend(["--polling".into(), polling]);
        if self.go_back_n {
            args.push("--go-back-n".into());
        }
        if !self.without.is_empty() {
            let without: Vec<_> = self.without.iter().map(|factor| factor.name()).collect();
            args.extend(["--without".into(), without.join(",")]);
        }
        args
    }
}
