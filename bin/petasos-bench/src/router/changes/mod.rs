//! What is changed on purpose while calls run: the router's file is read again, and workers and
//! routers are restarted in turn.
//!
//! Callers and workers are those of the kills: every other call may run once at most, and workers
//! say what they have run. Beside each change there is a moment at which nothing changes: the calls
//! that meet either are compared.

mod outcome;

use std::path::PathBuf;
use std::time::Duration;

use petasos_base::Time;

use super::args::RouterArgs;
use super::kill::{Call, Callers, Ran, Worker, clock, start_workers};
use super::messages::SERVICE;
use super::programs::Router;
use super::workers::target;
use crate::error::BenchError;
use crate::managed::folder::Folder;
use crate::report::Report;

/// Changes of each kind, unless it is to be quick.
const CHANGES: usize = 50;
const QUICK_CHANGES: usize = 3;
/// From a moment at which nothing changes to a change, and from there to the next of these: longer
/// than calls count as having met either.
const BETWEEN: Duration = Duration::from_millis(400);
/// How long a router that was started may take until its members have turned to it.
const BACK: Duration = Duration::from_millis(700);
const POLICIES: [&str; 2] = ["jbsq3", "jbsq4"];

/// What changes of one kind have brought.
struct Changes {
    who: &'static str,
    at: Vec<Time>,
    /// Moments without a change.
    shams: Vec<Time>,
    calls: Vec<Call>,
    ran: Ran,
}

/// Reads the file again, restarts workers, then routers.
///
/// # Errors
/// If a process does not come up, or calls stop.
pub fn run(args: &RouterArgs) -> Result<Report, BenchError> {
    let count = if args.quick { QUICK_CHANGES } else { CHANGES };
    let kinds = [reloads(count)?, workers(count)?, routers(count)?];
    Ok(outcome::report(count, &kinds))
}

/// A router's file, which says another policy each time that it is written.
struct Configuration {
    _folder: Folder,
    path: PathBuf,
}

impl Configuration {
    fn new() -> Result<Configuration, BenchError> {
        let folder = Folder::new("petasos-router-file")?;
        let path = folder.path().join("router.toml");
        Ok(Configuration { _folder: folder, path })
    }

    fn write(&self, policy: &str) -> Result<(), BenchError> {
        let text = format!(
            "[[group]]\nlisten = \"127.0.0.1:0\"\nservices = [\"{SERVICE}\"]\n\
             policy = \"{policy}\"\n"
        );
        Ok(std::fs::write(&self.path, text)?)
    }
}

fn reloads(count: usize) -> Result<Changes, BenchError> {
    let file = Configuration::new()?;
    file.write(POLICIES[0])?;
    let router = Router::with_file(&file.path)?;
    let routers = [router.address];
    let workers = start_workers(&routers)?;
    during("reloads", count, &routers, workers, |change, _| {
        file.write(POLICIES[(change + 1) % POLICIES.len()])?;
        router.hang_up()
    })
}

fn workers(count: usize) -> Result<Changes, BenchError> {
    let router = Router::start(POLICIES[0], &[])?;
    let routers = [router.address];
    let all = start_workers(&routers)?;
    during("workers", count, &routers, all, |_, team| {
        let (leaving, ran) = team;
        ran.add(leaving.remove(0).end()?);
        leaving.push(Worker::start(&routers)?);
        Ok(())
    })
}

fn routers(count: usize) -> Result<Changes, BenchError> {
    let mut both = [Router::start(POLICIES[0], &[])?, Router::start(POLICIES[0], &["--standby"])?];
    let addresses = both.each_ref().map(|router| router.address);
    let workers = start_workers(&addresses)?;
    during("routers", count, &addresses, workers, |_, _| {
        both[0].end()?;
        both[0] = Router::start_at(&addresses[0].to_string(), SERVICE, POLICIES[0], &[])?;
        std::thread::sleep(BACK);
        Ok(())
    })
}

/// The workers that are there, and what others have run.
type Team = (Vec<Worker>, Ran);

/// Calls while something is changed so often.
fn during(
    who: &'static str,
    count: usize,
    routers: &[std::net::SocketAddr],
    workers: Vec<Worker>,
    mut change: impl FnMut(usize, &mut Team) -> Result<(), BenchError>,
) -> Result<Changes, BenchError> {
    let (clock, mut at, mut shams) = (clock(), Vec::new(), Vec::new());
    let mut team = (workers, Ran::default());
    let callers = Callers::start(&target(routers), &clock)?;
    for number in 0..count {
        if number.is_multiple_of(10) {
            eprintln!("petasos bench: {who}: change {} of {count}", number + 1);
        }
        std::thread::sleep(BETWEEN);
        shams.push(clock.now());
        std::thread::sleep(BETWEEN);
        at.push(clock.now());
        change(number, &mut team)?;
        callers.check()?;
    }
    std::thread::sleep(BETWEEN);
    let calls = callers.end()?;
    let (workers, mut ran) = team;
    workers.into_iter().try_for_each(|worker| worker.kill().map(|said| ran.add(said)))?;
    Ok(Changes { who, at, shams, calls, ran })
}
