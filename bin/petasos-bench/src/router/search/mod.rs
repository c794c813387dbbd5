//! Figure 10: search, latency by load.
//!
//! The workers are those of the search application (`apps/search`, a program beside this one), over
//! Petasos and over HTTP/1.1. It answers many queries beforehand, each alone on a processor, and
//! writes down what it found and how long that took. Sixteen workers then sleep through these times
//! and answer with these results: machines have fewer processors than workers. All times are
//! stretched by one factor, so that packets need little of the processors that there are.

mod outcome;
mod recorded;

use std::time::Duration;

use super::args::RouterArgs;
use super::client::Client;
use super::open_loop::Arrived;
use super::programs::{Balancer, Router};
use super::side::{Contender, Kind, Side, start_all};
use super::team::{COMPARED_LOAD, Connect, Team, measure};
use crate::error::BenchError;
use crate::report::Report;
use recorded::Recorded;

/// The service of the application.
const SERVICE: &str = "search.Search";
/// Where contenders are compared, too: the paper's load.
pub const PAPER_LOAD: f64 = 0.5;
const LOADS: &[f64] = &[0.2, 0.4, PAPER_LOAD, 0.6, 0.7, COMPARED_LOAD, 0.9];
const QUICK_LOADS: &[f64] = &[PAPER_LOAD, COMPARED_LOAD];

const fn router(name: &'static str, policy: &'static str) -> Contender {
    Contender { name, kind: Kind::Router(policy) }
}

const fn proxy(name: &'static str, balancer: Balancer) -> Contender {
    Contender { name, kind: Kind::Proxy(balancer) }
}

/// nginx as it is shipped has as many processes as there are processors, which do not know of each
/// other.
const CONTENDERS: &[Contender] = &[
    Contender { name: "tcp-random", kind: Kind::HttpAtRandom },
    router("random", "random"),
    router("jbsq1", "jbsq1"),
    router("jbsq3", "jbsq3"),
    proxy("nginx", Balancer::Nginx { processes: 2, has_zone: false }),
    proxy("nginx-zone", Balancer::Nginx { processes: 2, has_zone: true }),
    proxy("haproxy", Balancer::Haproxy),
];

/// Measures the figure.
///
/// # Errors
/// If nothing can be measured.
pub fn run(args: &RouterArgs) -> Result<Report, BenchError> {
    let contenders = args.chosen(CONTENDERS, |contender| contender.name)?;
    let recorded = Recorded::record(args)?;
    eprintln!("petasos bench: {}", recorded.said);
    let client = Client::new()?;
    let loads = if args.quick { QUICK_LOADS } else { LOADS };
    let mut skipped = Vec::new();
    let start = |contender: &Contender| start(contender.kind, &recorded, &client);
    let sides = start_all(contenders, start, &mut skipped)?;
    let team = |side| {
        // Queries take what was recorded, and nothing else can be asked for.
        let connect: Connect<'_> =
            Box::new(|side, _, most| recorded.target(&client, side.reach(), most));
        Team::new(args, loads, side, connect)
    };
    let mut teams = sides.into_iter().map(team).collect::<Result<Vec<_>, _>>()?;
    let mut arrived = Arrived::new(args.quick, Duration::from_micros(args.mean_us));
    let seconds = args.seconds_of(args.rounds() * loads.len() * teams.len());
    measure(args, "search", loads, seconds, &mut teams, &mut arrived)?;
    let curves: Vec<_> = teams.into_iter().map(Team::into_curve).collect();
    Ok(outcome::report(args, &recorded, &curves, skipped, &arrived))
}

fn start<'a>(kind: Kind, recorded: &Recorded, client: &'a Client) -> Result<Side<'a>, BenchError> {
    let router = match kind {
        Kind::Router(policy) => Some(Router::start_at("127.0.0.1:0", SERVICE, policy, &[])?),
        _ => None,
    };
    Side::start_with(kind, client, router, |routers| recorded.serve(routers))
}
