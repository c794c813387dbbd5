//! `petasos bench bottleneck`: many senders of large requests behind one slow port of a real
//! network stack.
//!
//! Each client and the server is a process in its own network namespace. Veth pairs connect them
//! through a switch: a bridge in this process's namespace. The switch's port to the server is the
//! bottleneck. It has a token bucket (tbf) that drains a bounded queue; eBPF adds marks and losses
//! ([`petasos_netio_xdp::Impair`]). Segmentation offload is off, so that the queue drops single
//! packets. There is one run per algorithm, each in a new network.
//!
//! | module | does |
//! |---|---|
//! | `switch` | makes the network |
//! | `host` | starts, commands and ends the processes |
//! | `client`, `server` | are these processes |
//! | `probe` | measures round trips through the queue |
//! | `outcome` | adds up and prints |
//!
//! This does not affect the host's own network, and leaves nothing behind: the unnamed namespaces
//! end with their processes, and the processes end with their input, however this process ends.

mod client;
mod host;
mod outcome;
mod probe;
mod server;
mod switch;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use petasos_endpoint::EndpointConfig;
use petasos_netio_udp::UdpConfig;
use petasos_netio_xdp::ImpairConfig;
use petasos_proto::{AlgorithmConfig, CongestionConfig, TimelyConfig};
use petasos_report::Progress;

use crate::error::BenchError;
use host::Host;
use outcome::Outcome;
use switch::Switch;

/// The server's method: returns a request's CRC-32.
const CHECK: u16 = 1;

/// Measure many senders behind one slow port of a switch made of network namespaces (needs root)
#[derive(Args, Clone, Debug)]
pub struct BottleneckArgs {
    /// Client processes
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=200))]
    clients: u16,
    /// Congestion control, one run for each
    #[arg(long, value_delimiter = ',', default_value = "swift,timely,dctcp,none")]
    control: Vec<Control>,
    /// Rate of the port in megabits per second
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    rate_mbit: u64,
    /// The port's queue in kilobytes
    #[arg(long, default_value_t = 250)]
    #[arg(value_parser = clap::value_parser!(u32).range(10..=1_000_000))]
    queue_kb: u32,
    /// Mark packets (ECN) above this much in the queue, in kilobytes
    #[arg(long, default_value_t = 30)]
    mark_kb: u32,
    /// Probability of losing each packet before the queue
    #[arg(long, default_value_t = 0.0)]
    loss: f64,
    /// Request size in bytes
    #[arg(long, default_value_t = 1_000_000)]
    #[arg(value_parser = clap::value_parser!(u32).range(8..=32_000_000))]
    size: u32,
    /// Requests that each client has outstanding
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=64))]
    window: u16,
    /// Largest datagram payload in bytes, headers of IP and UDP not counted
    #[arg(long, default_value_t = 1472, value_parser = clap::value_parser!(u16).range(256..=8972))]
    datagram: u16,
    /// Seconds to measure each run
    #[arg(long, default_value_t = 5.0)]
    seconds: f64,
    /// Also write the result as JSON to this file
    #[arg(long)]
    json: Option<PathBuf>,
    /// Print the result as JSON instead of a table
    #[arg(long)]
    print_json: bool,
    /// Run as one of the processes of another process's measurement (internal)
    #[arg(long, hide = true)]
    role: Option<Role>,
}

/// The clients' congestion control.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Control {
    /// The default over kernel sockets
    Swift,
    /// eRPC's Timely, with rates scaled to the port and times scaled to hosts with a kernel
    Timely,
    /// DCTCP, which reacts to marks
    Dctcp,
    /// Only the receiver's credits
    None,
}

/// The role of a process in the measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Role {
    /// Sends requests
    Client,
    /// Answers them
    Server,
}

impl Control {
    fn name(self) -> &'static str {
        match self {
            Control::Swift => "swift",
            Control::Timely => "timely",
            Control::Dctcp => "dctcp",
            Control::None => "none",
        }
    }

    /// The algorithm's parameters behind a port of this rate.
    fn config(self, rate_mbit: u64) -> CongestionConfig {
        match self {
            Control::Swift => CongestionConfig::swift_over_kernel(),
            Control::Timely => timely(rate_mbit),
            Control::Dctcp => CongestionConfig::dctcp(),
            Control::None => CongestionConfig::none(),
        }
    }
}

/// eRPC's Timely has rates for links of 25 Gbit/s and times for hosts of 6 µs. This scales the
/// rates to the port, and the times to Swift's target over a kernel. Without scaling, it throttles
/// sessions to almost nothing, because the hosts alone take longer than its thresholds.
fn timely(rate_mbit: u64) -> CongestionConfig {
    let slower = rate_mbit as f64 / 25_000.0;
    let paper = TimelyConfig::default();
    let scaled = TimelyConfig {
        rtt_min_ns: 20_000,
        low_ns: 1_000_000,
        high_ns: 20_000_000,
        add_bytes_per_s: paper.add_bytes_per_s * slower,
        rate_min_bytes_per_s: paper.rate_min_bytes_per_s * slower,
        ..paper
    };
    CongestionConfig {
        algorithm: AlgorithmConfig::Timely(scaled),
        link_bytes_per_s: rate_mbit * 125_000,
        burst_ns: 1_000_000,
        ..CongestionConfig::swift_over_kernel()
    }
}

impl BottleneckArgs {
    fn check(&self) -> Result<(), BenchError> {
        if !(0.0..1.0).contains(&self.loss) {
            return Err("--loss is a probability, at least 0 and below 1".into());
        }
        if !(0.1..=3600.0).contains(&self.seconds) {
            return Err("--seconds is at least 0.1 and at most an hour".into());
        }
        Ok(())
    }

    /// The configuration of every endpoint of a run.
    fn endpoint(&self) -> EndpointConfig {
        let congestion = self.control.first().map(|control| control.config(self.rate_mbit));
        EndpointConfig { congestion, ..EndpointConfig::default() }
    }

    fn udp(&self) -> UdpConfig {
        let datagram_bytes_max = self.datagram.into();
        UdpConfig { gso: false, gro: false, datagram_bytes_max, ..UdpConfig::default() }
    }

    fn port(&self) -> ImpairConfig {
        ImpairConfig {
            queue_bytes_max: self.queue_kb * 1000,
            mark_above_bytes: Some(self.mark_kb.saturating_mul(1000)),
            loss: self.loss,
        }
    }

    fn duration(&self) -> Duration {
        Duration::from_secs_f64(self.seconds)
    }

    /// The arguments with which another process of this program becomes a host of a run.
    fn for_host(&self, role: Role, control: Control) -> Vec<String> {
        let role = if role == Role::Client { "client" } else { "server" };
        let options = [
            ("--role", role.to_owned()),
            ("--control", control.name().to_owned()),
            ("--rate-mbit", self.rate_mbit.to_string()),
            ("--size", self.size.to_string()),
            ("--window", self.window.to_string()),
            ("--datagram", self.datagram.to_string()),
            ("--seconds", self.seconds.to_string()),
        ];
        let options = options.into_iter().flat_map(|(name, value)| [name.to_owned(), value]);
        std::iter::once("bottleneck".to_owned()).chain(options).collect()
    }
}

/// Runs every algorithm and prints the results, or runs one process of a measurement.
pub fn run(args: &BottleneckArgs) -> Result<(), BenchError> {
    args.check()?;
    match args.role {
        Some(Role::Client) => return client::run(args),
        Some(Role::Server) => return server::run(args),
        None => switch::check_privileges()?,
    }
    let mut rows = Vec::new();
    let mut progress = Progress::new("bottleneck", args.control.len() as u64);
    for control in &args.control {
        rows.push(measure(args, *control)?);
        progress.set(rows.len() as u64);
    }
    progress.finish("done");
    outcome::publish(args, &rows)
}

/// One run in a new network.
fn measure(args: &BottleneckArgs, control: Control) -> Result<Outcome, BenchError> {
    let mut switch = Switch::new(args)?;
    let mut server = Host::start(&args.for_host(Role::Server, control))?;
    switch.add_server(server.id())?;
    server.say(&format!("joined {}", switch::SERVER))?;
    let address = server.hear_after("ready ")?;
    let mut clients = Vec::new();
    for number in 0..args.clients {
        let mut client = Host::start(&args.for_host(Role::Client, control))?;
        let own = switch.add_client(client.id(), number)?;
        client.say(&format!("joined {own} {address}"))?;
        clients.push(client);
    }
    for client in &mut clients {
        client.hear_after("ready")?;
    }
    let before = switch.stats()?;
    for client in &mut clients {
        client.say("go")?;
    }
    let probes = probe::Probes::start(args);
    let reports = clients.iter_mut().map(|client| client.hear_after("done "));
    let reports = reports.collect::<Result<Vec<_>, _>>()?;
    let probes = probes.finish()?;
    let after = switch.stats()?;
    switch.check_bucket()?;
    server.say("report")?;
    let served = server.hear_after("done ")?;
    Outcome::new(control, (&reports, &served), probes, (before, after))
}
