//! Figures 6, 7 and 9: latency by load, for several policies and service times.
//!
//! Sixteen workers are servers in one process, whose service times are deadlines that they sleep
//! through. Packets therefore have two cores, of which they need a tenth (the mean is long enough),
//! and what is measured is the policy. As in the paper, the way between router and worker takes a
//! part of the mean service time, which the workers sleep, too.
//!
//! Contenders take turns: at each load, one after another. Beside each policy of the router is its
//! prediction: the simulation of the same core with the delay that was measured.

pub mod outcome;
mod predicted;

use std::time::Duration;

use petasos_queueing::Service;

use super::args::RouterArgs;
use super::client::{Asked, Client};
use super::curves::Curve;
use super::open_loop::Arrived;
use super::part_args::PartName;
use super::programs::{Balancer, ROUTER_CORE};
use super::side::{Contender, Kind, Setup, Side, Skipped, start_all};
use super::team::{COMPARED_LOAD, Connect, Team, WORKERS, measure};
use crate::error::BenchError;
use crate::report::Report;
use predicted::Predicted;

/// A figure.
#[derive(Clone, Debug)]
pub struct Setting {
    pub figure: &'static str,
    pub title: &'static str,
    pub services: Vec<Service>,
    /// The time on the ways between router and worker, there and back, in mean service times.
    pub communication: f64,
    pub contenders: &'static [Contender],
    pub loads: &'static [f64],
}

const fn router(name: &'static str, policy: &'static str) -> Contender {
    Contender { name, kind: Kind::Router(policy) }
}

const fn nginx(name: &'static str, has_zone: bool) -> Contender {
    Contender { name, kind: Kind::Proxy(Balancer::Nginx { processes: 2, has_zone }) }
}

const FIGURE_6: &[Contender] = &[
    Contender { name: "direct", kind: Kind::Direct },
    router("random", "random"),
    router("rr", "rr"),
    router("jsq", "jsq"),
    router("jbsq1", "jbsq1"),
    router("jbsq2", "jbsq2"),
    router("jbsq3", "jbsq3"),
    router("jbsq5", "jbsq5"),
    nginx("nginx", false),
    nginx("nginx-zone", true),
    Contender { name: "haproxy", kind: Kind::Proxy(Balancer::Haproxy) },
];
const FIGURE_7: &[Contender] = &[
    router("random", "random"),
    router("jbsq1", "jbsq1"),
    router("jbsq3", "jbsq3"),
    router("jbsq5", "jbsq5"),
];
const FIGURE_9: &[Contender] = &[
    router("jbsq3", "jbsq3"),
    Contender { name: "dispatcher", kind: Kind::OneQueue(PartName::Dispatcher) },
    Contender { name: "tokio", kind: Kind::OneQueue(PartName::Pool) },
];
const LOADS: &[f64] = &[0.2, 0.4, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 0.97];
/// The load at which contenders are compared, and one below.
const QUICK_LOADS: &[f64] = &[0.4, COMPARED_LOAD];

impl Setting {
    /// Figure 6: 25 µs, of which 15 µs are on the way between router and worker.
    pub fn figure_6(args: &RouterArgs) -> Setting {
        Setting {
            figure: "6",
            title: "Policies",
            services: args.services_or(&[Service::Exponential]),
            communication: 0.6,
            contenders: FIGURE_6,
            loads: if args.quick { QUICK_LOADS } else { LOADS },
        }
    }

    /// Figure 7: 10 µs.
    pub fn figure_7(args: &RouterArgs) -> Setting {
        let all = [Service::Deterministic, Service::Exponential, Service::Bimodal1];
        Setting {
            figure: "7",
            title: "JBSQ(n) and M/G/k",
            services: args.services_or(&all),
            communication: 1.5,
            contenders: FIGURE_7,
            ..Setting::figure_6(args)
        }
    }

    /// Figure 9: one server, so nobody is far away.
    pub fn figure_9(args: &RouterArgs) -> Setting {
        Setting {
            figure: "9",
            title: "Workers and one queue",
            communication: 0.0,
            contenders: FIGURE_9,
            ..Setting::figure_6(args)
        }
    }

    fn setup(&self, args: &RouterArgs, service: Service) -> Setup {
        let mean_ns = args.mean_us * 1000;
        let way_ns = (self.communication / 2.0 * mean_ns as f64) as u64;
        Setup {
            service,
            mean_ns,
            way_ns,
            plane: args.plane,
            ..Setup::at_once(WORKERS, ROUTER_CORE)
        }
    }
}

/// What was measured with a distribution of service times.
pub struct Measured {
    pub service: Service,
    pub curves: Vec<Curve>,
    /// Of the policies that can be simulated, with the best that there can be: `single`.
    pub predicted: Vec<(&'static str, Predicted)>,
}

/// Measures a figure.
///
/// # Errors
/// If nothing can be measured.
pub fn run(args: &RouterArgs, setting: &Setting) -> Result<Report, BenchError> {
    let client = Client::new()?;
    let mut arrived = Arrived::new(args.quick, Duration::from_micros(args.mean_us));
    let (mut all, mut skipped) = (Vec::new(), Vec::new());
    for service in &setting.services {
        let mut teams = start(args, setting, *service, &client, &mut skipped)?;
        let points = args.rounds() * setting.loads.len() * teams.len() * setting.services.len();
        for team in &mut teams {
            team.calibrate(&mut arrived)?;
        }
        let (what, seconds) = (format!("{service} service times"), args.seconds_of(points));
        measure(args, &what, setting.loads, seconds, &mut teams, &mut arrived)?;
        let curves: Vec<_> = teams.into_iter().map(Team::into_curve).collect();
        let predicted = predicted::all(args, setting, *service, &curves)?;
        all.push(Measured { service: *service, curves, predicted });
    }
    Ok(outcome::report(args, setting, &all, skipped, &arrived))
}

fn start<'a>(
    args: &RouterArgs,
    setting: &Setting,
    service: Service,
    client: &'a Client,
    skipped: &mut Skipped,
) -> Result<Vec<Team<'a>>, BenchError> {
    let contenders = args.chosen(setting.contenders, |contender| contender.name)?;
    let setup = setting.setup(args, service);
    let sides =
        start_all(contenders, |contender| Side::start(contender.kind, &setup, client), skipped)?;
    let team = |side| {
        let connect: Connect<'_> =
            Box::new(|side, sleep_ns, most| side.connect(&Asked::short(sleep_ns), most));
        Team::new(args, setting.loads, side, connect)
    };
    sides.into_iter().map(team).collect()
}
