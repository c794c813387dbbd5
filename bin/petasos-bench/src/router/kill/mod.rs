//! Workers and routers that are killed while calls run: what fails, what runs twice, and how long
//! calls take that a kill meets.
//!
//! Callers make calls one after another: one that may run more than once, then one that may not,
//! with a number. Workers say the number of the latter before they answer, in a line that is whole
//! or not there, so it is known how often each has run, also at a worker that was killed.

mod callers;
mod outcome;
mod victims;

use std::sync::Arc;
use std::time::Duration;

use petasos_base::{SystemClock, Time};

use super::args::RouterArgs;
use super::messages::SERVICE;
use super::programs::{ROUTER_CORE, Router};
use super::workers::target;
use crate::error::BenchError;
use crate::report::Report;
pub use callers::{Call, Callers};
pub use outcome::{Ends, meets};
pub use victims::{Ran, Worker};

/// Kills of each kind, unless it is to be quick.
const KILLS: usize = 50;
const QUICK_KILLS: usize = 3;
/// Workers of the group.
const WORKERS: usize = 4;
/// How long everything goes on before a kill, and until what was killed is replaced.
const BEFORE: Duration = Duration::from_millis(400);
const AFTER: Duration = Duration::from_millis(300);
/// How long a worker takes to join a router that is back, and clients to turn to it.
const BACK: Duration = Duration::from_millis(700);
const POLICY: &str = "jbsq3";
/// Of the standby router.
const STANDBY: &[&str] = &["--standby"];

/// The kills of one kind.
pub struct Kills {
    pub who: &'static str,
    pub at: Vec<Time>,
    pub calls: Vec<Call>,
    pub ran: Ran,
}

/// Kills workers, then routers.
///
/// # Errors
/// If a process does not come up, or calls stop.
pub fn run(args: &RouterArgs) -> Result<Report, BenchError> {
    let count = if args.quick { QUICK_KILLS } else { KILLS };
    let kills = [of_workers(count)?, of_routers(count)?];
    Ok(outcome::report(count, &kills))
}

fn of_workers(count: usize) -> Result<Kills, BenchError> {
    let router = Router::start(POLICY, &[])?;
    let routers = [router.address];
    let mut workers = start_workers(&routers)?;
    let (clock, mut at, mut ran) = (clock(), Vec::new(), Ran::default());
    let callers = Callers::start(&target(&routers), &clock)?;
    for kill in 0..count {
        said("worker", kill, count);
        std::thread::sleep(BEFORE);
        let victim = workers.remove(0);
        at.push(clock.now());
        ran.add(victim.kill()?);
        std::thread::sleep(AFTER);
        workers.push(Worker::start(&routers)?);
        callers.check()?;
    }
    std::thread::sleep(BEFORE);
    let calls = callers.end()?;
    workers.into_iter().try_for_each(|worker| worker.kill().map(|said| ran.add(said)))?;
    Ok(Kills { who: "workers", at, calls, ran })
}

fn of_routers(count: usize) -> Result<Kills, BenchError> {
    let mut active = Router::start(POLICY, &[])?;
    let standby = Router::start(POLICY, STANDBY)?;
    let routers = [active.address, standby.address];
    let workers = start_workers(&routers)?;
    let (clock, mut at, mut ran) = (clock(), Vec::new(), Ran::default());
    let callers = Callers::start(&target(&routers), &clock)?;
    for kill in 0..count {
        said("router", kill, count);
        std::thread::sleep(BEFORE);
        at.push(clock.now());
        active.kill()?;
        std::thread::sleep(AFTER);
        active = Router::start_at(&routers[0].to_string(), SERVICE, POLICY, &[])?;
        std::thread::sleep(BACK);
        callers.check()?;
    }
    let calls = callers.end()?;
    workers.into_iter().try_for_each(|worker| worker.kill().map(|said| ran.add(said)))?;
    Ok(Kills { who: "routers", at, calls, ran })
}

/// The clock of callers.
pub fn clock() -> Arc<SystemClock> {
    Arc::new(SystemClock::default())
}

/// The workers of a group.
///
/// # Errors
/// If one does not come up.
pub fn start_workers(routers: &[std::net::SocketAddr]) -> Result<Vec<Worker>, BenchError> {
    (0..WORKERS).map(|_| Worker::start(routers)).collect()
}

fn said(who: &str, kill: usize, count: usize) {
    if kill.is_multiple_of(10) {
        eprintln!("petasos bench: kill {} of {count} of a {who}", kill + 1);
    }
}

/// The core of workers: that of the router.
const WORKER_CORE: usize = ROUTER_CORE;
