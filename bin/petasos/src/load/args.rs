//! The options of `petasos load`.

use core::time::Duration;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::thread::available_parallelism;

use clap::{Args, ValueEnum};
use petasos_cli::failed::Failed;
use petasos_cli::transport::TransportArgs;
use petasos_load::{Arrivals, Limits, Trace};

use crate::typed::{SchemaArgs, ServerArgs, time};

/// The most loads that are measured.
const LOADS_MAX: usize = 1000;
/// How long answers are waited for without --timeout.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// The arguments of `petasos load`. Changing an argument moves it behind the others, so positions
/// are explicit.
#[derive(Args)]
#[command(mut_arg("address", |arg| arg.index(1).help(ADDRESS_HELP)))]
pub struct LoadArgs {
    #[command(flatten)]
    pub server: ServerArgs,
    /// What is sent. For a typed service, package.Service/Method and the request as JSON; for
    /// `petasos serve`, echo or a method's number and the request as a text; for redis://, the
    /// words of a command [default: PING]; for http://, nothing.
    #[arg(value_name = "REQUEST", index = 2)]
    pub request: Vec<String>,
    /// Requests per second: one load, several with commas between them, or LOW..HIGH.
    #[arg(short, long, value_name = "LOADS", required_unless_present = "trace")]
    pub rate: Option<Rates>,
    /// How many loads of LOW..HIGH are measured.
    #[arg(long, value_name = "NUMBER", default_value_t = 5)]
    #[arg(value_parser = clap::value_parser!(u32).range(2..=LOADS_MAX as i64))]
    pub points: u32,
    /// The longest 99th percentile that will do: reports the highest load that meets this. With
    /// LOW..HIGH, searches between them instead of measuring --points.
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub objective: Option<Duration>,
    /// How many loads a search measures at most.
    #[arg(long, value_name = "NUMBER", default_value_t = 10, requires = "objective")]
    #[arg(value_parser = clap::value_parser!(u32).range(2..=64))]
    pub tries: u32,
    /// How long each load is measured.
    #[arg(short, long, value_name = "TIME", value_parser = time, default_value = "10s")]
    pub duration: Duration,
    /// How long load is sent before that does not count; not with --trace.
    #[arg(long, value_name = "TIME", value_parser = warm_up, default_value = "1s")]
    pub warm_up: Duration,
    /// When requests are sent.
    #[arg(long, value_enum, default_value_t)]
    pub arrivals: Kind,
    /// Send requests at the times in this file: one per line, in seconds, ascending. With --rate,
    /// stretched to that.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["arrivals", "seed"])]
    pub trace: Option<PathBuf>,
    /// The seed of random arrivals. The same seed gives the same times.
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub seed: u64,
    /// How many connections there are: http:// has one request on each at a time. Sessions, for
    /// the methods of `petasos serve` [default: 128 for http://, otherwise 8].
    #[arg(short, long, value_name = "NUMBER")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub connections: Option<u32>,
    /// How many requests may be outstanding. If there are more, the server does not keep up, and
    /// there is nothing to report.
    #[arg(long, value_name = "NUMBER", default_value_t = 4096)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub outstanding: u32,
    /// How many of 100 requests may fail.
    #[arg(long, value_name = "PERCENT", default_value_t = 1.0)]
    pub failures: f64,
    /// How late one in a hundred requests may be sent before there is nothing to report.
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "1ms")]
    pub lag_max: Duration,
    /// How long before a request is due the processor is not given up any more [default: 100us; on
    /// one processor, not at all].
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub spin: Option<Duration>,
    /// Report although requests were not sent as they should be, and say what was wrong.
    #[arg(long)]
    pub anyway: bool,
    /// The name of what is measured, in the results [default: what the address begins with].
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    #[command(flatten)]
    pub schema: SchemaArgs,
    #[command(flatten)]
    pub transport: TransportArgs,
}

const ADDRESS_HELP: &str = "The server: HOST:PORT or petasos://HOST:PORT over datagrams; \
                            router://HOST:PORT a group, by its router; grpc://HOST:PORT or grpcs://HOST:PORT; http://HOST:PORT/PATH; \
                            redis://HOST:PORT. \
                            Listed in etcd: etcd://HOST:PORT/PREFIX servers, router+etcd://HOST:PORT/PREFIX the routers of a group";

/// When requests are sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// At random (a Poisson process), as many independent users do.
    #[default]
    Poisson,
    /// In equal intervals.
    Fixed,
}

/// Loads in requests per second.
#[derive(Clone, Debug, PartialEq)]
pub enum Rates {
    List(Vec<f64>),
    Range(f64, f64),
}

impl FromStr for Rates {
    type Err = String;

    fn from_str(text: &str) -> Result<Rates, String> {
        let rate = |text: &str| match text.trim().parse::<f64>() {
            Ok(rate) if rate > 0.0 && rate <= 1e8 => Ok(rate),
            _ => Err(format!("`{text}` is no rate: give 0.01 to 100000000 requests per second")),
        };
        if let Some((low, high)) = text.split_once("..") {
            let (low, high) = (rate(low)?, rate(high)?);
            return if low < high { Ok(Rates::Range(low, high)) } else { Err(NO_RANGE.into()) };
        }
        let rates = text.split(',').map(rate).collect::<Result<Vec<f64>, String>>()?;
        match rates.len() {
            ..=LOADS_MAX => Ok(Rates::List(rates)),
            count => Err(format!("these are {count} loads, and {LOADS_MAX} are the most")),
        }
    }
}

const NO_RANGE: &str = "a range begins with the lower load";

/// A time, or none.
fn warm_up(text: &str) -> Result<Duration, String> {
    if text.trim_end_matches(|unit: char| unit.is_ascii_lowercase()) == "0" {
        return Ok(Duration::ZERO);
    }
    time(text)
}

impl LoadArgs {
    /// How requests arrive.
    pub fn arrivals(&self) -> Result<Arrivals, Failed> {
        Ok(match (&self.trace, self.arrivals) {
            (Some(path), _) => Arrivals::Trace(Arc::new(trace(path)?)),
            (None, Kind::Poisson) => Arrivals::Poisson { seed: self.seed },
            (None, Kind::Fixed) => Arrivals::Fixed,
        })
    }

    /// When a run is refused.
    pub fn limits(&self) -> Result<Limits, Failed> {
        if !(0.0..=100.0).contains(&self.failures) {
            let what = format!("--failures is {}", self.failures);
            return Err(Failed::new(what).with_advice("give 0 to 100 percent"));
        }
        let has_one = available_parallelism().is_ok_and(|count| count.get() == 1);
        let spin = if has_one { Duration::ZERO } else { Limits::default().spin };
        Ok(Limits {
            outstanding_max: self.outstanding as usize,
            lag_max: self.lag_max,
            answer_timeout: self.server.timeout.unwrap_or(ANSWER_TIMEOUT),
            failures_max: self.failures / 100.0,
            spin: self.spin.unwrap_or(spin),
        })
    }
}

fn trace(path: &Path) -> Result<Trace, Failed> {
    let unread = |error: &dyn core::fmt::Display| {
        Failed::new(format!("cannot read {}: {error}", path.display()))
            .with_advice("give a file with one time per line, in seconds, ascending")
    };
    let file = std::fs::File::open(path).map_err(|error| unread(&error))?;
    Trace::read(std::io::BufReader::new(file)).map_err(|error| unread(&error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_lists_or_ranges() {
        assert_eq!("100".parse(), Ok(Rates::List(vec![100.0])));
        assert_eq!("1e3, 2.5".parse(), Ok(Rates::List(vec![1000.0, 2.5])));
        assert_eq!("10..200".parse(), Ok(Rates::Range(10.0, 200.0)));
        let many = "1,".repeat(LOADS_MAX) + "1";
        for text in
            ["", "0", "-1", "nan", "inf", "1,", "2..1", "1..", "..", "1..2..3", "1e9", &many]
        {
            assert!(text.parse::<Rates>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_warm_up_may_be_none() {
        for text in ["0", "0s", "0ms"] {
            assert_eq!(warm_up(text), Ok(Duration::ZERO));
        }
        assert_eq!(warm_up("10s"), Ok(Duration::from_secs(10)));
        assert!(warm_up("-1s").is_err() && warm_up("s").is_err());
    }
}
