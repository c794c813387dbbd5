//! The processes of a contender, and its target.

use petasos_load::{Outcome, Target};
use petasos_queueing::Service;

use super::curves::{Curve, Sample};
use super::{Contender, GIVE_UP, Kind, OBJECTIVE, Setting, WORKERS};
use crate::error::BenchError;
use crate::managed::sidecars::Running;
use crate::router::args::RouterArgs;
use crate::router::client::{Asked, Client, http};
use crate::router::open_loop::{Arrived, Point, point, quantile};
use crate::router::part::PartName;
use crate::router::programs::{ROUTER_CORE, Router, part};
use crate::rpc::process::Process;

/// The most requests that are outstanding at once. A contender with more has no tail to measure.
const OUTSTANDING_MAX: u32 = 1024;
/// What a worker says it takes at a time. The router's policy gives fewer.
const BOUND: u16 = 512;
/// How many requests per second, and for how many seconds, tell what the ways take.
const CALIBRATION: (f64, f64) = (100.0, 2.0);

/// A contender that can be called.
pub struct Team<'a> {
    contender: Contender,
    client: &'a Client,
    mean_us: f64,
    pub curve: Curve,
    // Ends before those that it calls.
    target: Option<Box<dyn Target>>,
    proxy: Option<Running>,
    workers: Process,
    addresses: Vec<std::net::SocketAddr>,
    router: Option<Router>,
}

impl<'a> Team<'a> {
    /// Starts a contender's processes.
    ///
    /// # Errors
    /// If one does not come up.
    pub fn start(
        args: &RouterArgs,
        setting: &Setting,
        service: Service,
        contender: Contender,
        client: &'a Client,
    ) -> Result<Team<'a>, BenchError> {
        let mean_ns = args.mean_us * 1000;
        let way_ns = (setting.communication / 2.0 * mean_ns as f64) as u64;
        let options = [
            ("--workers", WORKERS.to_string()),
            ("--service", service.to_string()),
            ("--mean-ns", mean_ns.to_string()),
            ("--way-ns", way_ns.to_string()),
            ("--bound", BOUND.to_string()),
        ];
        let router = match contender.kind {
            Kind::Router(policy) => Some(Router::start(policy, &[])?),
            _ => None,
        };
        let name = match contender.kind {
            Kind::Proxy(_) => PartName::Http,
            _ => PartName::Workers,
        };
        let routers: Vec<_> = router.iter().map(|router| router.address).collect();
        let (workers, addresses) = part(name, ROUTER_CORE, &options, &routers)?;
        let proxy = match contender.kind {
            Kind::Proxy(balancer) => Some(balancer.start(&addresses)?),
            _ => None,
        };
        let mean_us = args.mean_us as f64;
        let curve = Curve::new(contender, setting.loads);
        let target = None;
        let mut team =
            Team { contender, client, mean_us, curve, target, proxy, workers, addresses, router };
        // It fails now if it does.
        team.target = Some(team.connect(0)?);
        Ok(team)
    }

    fn connect(&self, sleep_ns: u64) -> Result<Box<dyn Target>, BenchError> {
        let asked = Asked::short(sleep_ns);
        let stubs = match (&self.proxy, &self.router) {
            (Some(proxy), _) => return http(proxy.address, &asked, OUTSTANDING_MAX),
            (None, Some(router)) => vec![self.client.group(&[router.address])?],
            (None, None) => self.client.servers(&self.addresses)?,
        };
        self.client.target(stubs, asked, OUTSTANDING_MAX)
    }

    /// Measures what all ways take together, beside what workers sleep: with requests that do not
    /// wait for each other.
    ///
    /// # Errors
    /// If the target is lost.
    pub fn calibrate(&mut self, arrived: &mut Arrived) -> Result<(), BenchError> {
        self.target = None;
        let sleep_us = self.mean_us;
        let mut target = self.connect((sleep_us * 1000.0) as u64)?;
        let (rate, seconds) = CALIBRATION;
        if let Point::Measured(outcome) = point(&mut *target, rate, seconds, arrived)? {
            self.curve.ways_us = quantile(&outcome, 0.5).value_us - sleep_us;
        }
        drop(target);
        self.target = Some(self.connect(0)?);
        Ok(())
    }

    /// Measures a point of the curve, unless it was given up.
    ///
    /// # Errors
    /// If the target is lost.
    pub fn measure(
        &mut self,
        index: usize,
        load: f64,
        seconds: f64,
        arrived: &mut Arrived,
    ) -> Result<Option<Sample>, BenchError> {
        if self.curve.is_given_up(index) {
            return Ok(None);
        }
        let rate = load * WORKERS as f64 * 1e6 / self.mean_us;
        let ran = self.ran()?;
        let cpu_s = self.cpu_s();
        let target = self.target.as_mut().expect("it was connected");
        match point(&mut **target, rate, seconds, arrived)? {
            Point::Measured(outcome) => {
                let cpu_s = self.cpu_s() - cpu_s;
                let ran = self.ran()? - ran;
                let sample = self.sample(&outcome, cpu_s, ran);
                if sample.p99_us > GIVE_UP * OBJECTIVE * self.mean_us {
                    self.curve.give_up_above(index);
                }
                Ok(Some(sample))
            }
            Point::Saturated => {
                self.curve.give_up_from(index);
                // What is outstanding is of no use.
                self.target = None;
                self.target = Some(self.connect(0)?);
                Ok(None)
            }
            Point::Refused(reason) => {
                eprintln!(
                    "petasos bench: {} at {load} does not count: {reason}",
                    self.curve.name()
                );
                Ok(None)
            }
        }
    }

    fn sample(&self, outcome: &Outcome, cpu_s: f64, ran: u64) -> Sample {
        let p99 = quantile(outcome, 0.99);
        Sample {
            p50_us: quantile(outcome, 0.5).value_us,
            p99_us: p99.value_us,
            stderr_us: p99.stderr_us,
            ops_per_s: outcome.ops_per_s,
            cpu_s_per_million: cpu_s * 1e6 / ran.max(1) as f64,
        }
    }

    /// How many requests the workers have run.
    fn ran(&mut self) -> Result<u64, BenchError> {
        let answer = self.workers.ask("count")?;
        let count = answer.strip_prefix("ran ").and_then(|count| count.parse().ok());
        count.ok_or_else(|| "a worker answered out of turn".into())
    }

    /// Processor time of the workers, and of the router.
    fn cpu_s(&self) -> f64 {
        let router = self.router.as_ref().map_or(0.0, Router::cpu_s);
        self.workers.cpu_s().unwrap_or_default() + router
    }

    /// What was measured. Its processes end.
    pub fn into_curve(self) -> Curve {
        debug_assert_eq!(self.contender.name, self.curve.name());
        self.curve
    }
}
