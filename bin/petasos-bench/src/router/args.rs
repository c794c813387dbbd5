//! The command line of `petasos bench router`.

use clap::{Args, ValueEnum};
use petasos_queueing::{Effort, Service};

use super::plane::Plane;
use crate::error::BenchError;
use crate::report::Wanted;

/// A figure of the paper, by its number, or an experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FigureId {
    /// The model's curves, without a measurement
    #[value(name = "1")]
    Model,
    /// Goodput by size of answer
    #[value(name = "4")]
    Goodput,
    /// What the router adds to an echo of 8 bytes, its rate and processor time
    #[value(name = "5")]
    Echo,
    /// Latency by load with several policies, beside proxies and predictions
    #[value(name = "6")]
    Policies,
    /// The same with JBSQ(n) and three distributions of service times
    #[value(name = "7")]
    Bounds,
    /// Requests that fit one packet, and of a byte more
    #[value(name = "8")]
    Packets,
    /// Workers behind the router, and one queue in a process: Petasos' dispatcher, and Tokio
    #[value(name = "9")]
    OneServer,
    /// Search: the router, random choice over TCP, and proxies
    #[value(name = "10")]
    Search,
    /// Redis, a primary with replicas: TCP clients that pick at random, and routed requests
    #[value(name = "11")]
    Redis,
    /// Workers and routers that are killed: what fails, what runs twice, how long calls take
    Kill,
    /// Reloads, and restarts of workers and routers in turn: what fails, and how long calls take
    Changes,
    /// An echo of 8 bytes by way of routers with each plane
    Planes,
    /// Packets that are lost, one of a hundred: the rate that is left, and places of workers
    Loss,
}

impl FigureId {
    /// Whether a router by any plane can be measured.
    fn has_planes(self) -> bool {
        use FigureId::{Bounds, Echo, Goodput, OneServer, Packets, Policies};
        matches!(self, Goodput | Echo | Policies | Bounds | Packets | OneServer)
    }
}

/// Measure routed calls, as the R2P2 paper's figures do
///
/// The router is `petasos-router`, a process beside this one. Contenders take turns within one run.
/// Loads are open loops of Poisson arrivals, whose times are checked.
#[derive(Args, Clone, Debug)]
pub struct RouterArgs {
    /// The figure of the paper, or experiment
    #[arg(long)]
    pub figure: FigureId,
    /// The contenders to measure [default: all of the figure]
    #[arg(long, value_delimiter = ',')]
    pub contenders: Vec<String>,
    /// Seconds to measure, all turns together [default: the figure's]
    #[arg(long, value_parser = seconds)]
    pub seconds: Option<f64>,
    /// As little as shows that it works: one round and few points; figures mean nothing
    #[arg(long)]
    pub quick: bool,
    /// With 6, 7, 9 and 10: the mean service time in microseconds. Short ones measure the packets,
    /// too
    #[arg(long, default_value_t = 4000)]
    #[arg(value_parser = clap::value_parser!(u64).range(100..=1_000_000))]
    pub mean_us: u64,
    /// With 1, 6, 7 and 9: deterministic, exponential, bimodal1 (90 % 0.5 and 10 % 5.5) or bimodal2
    /// (10 % ten times the rest) [default: the figure's]
    #[arg(long, value_delimiter = ',')]
    pub dist: Vec<Service>,
    /// With 4 to 9: the router's plane. The router is at the other end of a link then, and needs
    /// root [default: a socket of the kernel, on this host's loopback]
    #[arg(long)]
    pub plane: Option<Plane>,
    #[command(flatten)]
    pub wanted: Wanted,
}

/// Rounds of all points, unless it is to be quick.
const ROUNDS: usize = 3;
/// Seconds of all turns together.
const SECONDS: f64 = 480.0;
const QUICK_SECONDS: f64 = 5.0;
/// The same in closed loops.
const TURNS_SECONDS: f64 = 60.0;

fn seconds(text: &str) -> Result<f64, String> {
    let seconds = text.parse::<f64>().map_err(|error| error.to_string())?;
    match seconds {
        0.1..=36_000.0 => Ok(seconds),
        _ => Err("not from 0.1 to 36000".into()),
    }
}

impl RouterArgs {
    /// Checks that options go together.
    ///
    /// # Errors
    /// If one would have no effect.
    pub fn check(&self) -> Result<(), BenchError> {
        match self.plane.is_some() && !self.figure.has_planes() {
            true => Err("--plane goes with --figure 4 to 9; `--figure planes` has all".into()),
            false => Ok(()),
        }
    }

    /// Whether it is measured in a network namespace.
    pub fn leaves_host(&self) -> bool {
        self.plane.is_some() || matches!(self.figure, FigureId::Planes | FigureId::Loss)
    }

    /// How often everything is measured.
    pub fn rounds(&self) -> usize {
        if self.quick { 1 } else { ROUNDS }
    }

    /// How long each of so many turns is.
    pub fn seconds_of(&self, turns: usize) -> f64 {
        let all = self.seconds.unwrap_or(if self.quick { QUICK_SECONDS } else { SECONDS });
        (all / turns.max(1) as f64).max(0.05)
    }

    /// The same where a turn has no tail under load to show.
    pub fn turn_seconds_of(&self, turns: usize) -> f64 {
        let all = self.seconds.unwrap_or(if self.quick { QUICK_SECONDS } else { TURNS_SECONDS });
        (all / turns.max(1) as f64).max(0.01)
    }

    /// The distributions that were asked for, or the figure's.
    pub fn services_or(&self, figures: &[Service]) -> Vec<Service> {
        if self.dist.is_empty() { figures.to_vec() } else { self.dist.clone() }
    }

    /// How long to simulate each point: an error of one in fifty is below that of what is measured.
    pub fn effort(&self) -> Effort {
        match self.quick {
            true => Effort::requests(200_000, 1),
            false => Effort {
                precision: 0.02,
                requests_min: 200_000,
                requests_max: 20_000_000,
                ..Effort::default()
            },
        }
    }

    /// The contenders that were asked for, or all.
    ///
    /// # Errors
    /// If the figure has no contender of a name.
    pub fn chosen<T: Copy>(
        &self,
        all: &[T],
        name: impl Fn(&T) -> &'static str,
    ) -> Result<Vec<T>, BenchError> {
        if self.contenders.is_empty() {
            return Ok(all.to_vec());
        }
        let find = |wanted: &String| {
            let found = all.iter().copied().find(|contender| name(contender) == wanted);
            found.ok_or_else(|| {
                let names: Vec<_> = all.iter().map(&name).collect();
                format!("the figure has no contender `{wanted}`, but {}", names.join(", ")).into()
            })
        };
        self.contenders.iter().map(find).collect()
    }
}
