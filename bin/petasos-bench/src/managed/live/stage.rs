//! Hosts whose services two applications share: the first has the load, the second is watched.

use std::time::Duration;

use super::operator::Operator;
use crate::error::BenchError;
use crate::managed::part_args::PartName;
use crate::managed::service::{Service, Setup};
use crate::managed::shape::{Shape, Work};
use crate::managed::team::{CLIENT_CORE, SERVER_CORE, part_with};
use crate::rpc::phase::{Phase, Turn};
use crate::rpc::process::{Process, begin_turn, end_turn};
use crate::rpc::tally::Tally;

/// What services know the first application's ends as.
pub const CLIENT: &str = "client";
pub const SERVER: &str = "server";
/// The same of the second's.
const SECOND_CLIENT: &str = "second-client";
const SECOND_SERVER: &str = "second-server";

/// Services on hosts, and applications.
pub struct Stage {
    // Applications end before their services.
    pairs: Vec<Pair>,
    /// Of the clients' hosts: the first application's, and perhaps another of the second.
    near: Vec<Service>,
    /// Of the servers' host.
    far: Service,
}

/// An application's client and its server.
struct Pair {
    client: Process,
    server: Process,
    /// What the server has counted before.
    before: Tally,
}

/// A turn of an application.
#[derive(Clone, Debug)]
pub struct PairTurn {
    pub client: Turn,
    pub tally: Tally,
    /// Calls that have got no answer, or were not run.
    pub lost: u64,
    /// Calls that were run more than once.
    pub duplicated: u64,
}

/// Calls of this size, of one client thread.
pub fn calls(request_bytes: u32, window: usize) -> Shape {
    Shape { work: Work::Bytes, request_bytes, response_bytes: 8, window, threads: 1 }
}

impl Stage {
    /// Starts services, and one or two applications.
    ///
    /// # Errors
    /// If one does not come up.
    pub fn start(near: Setup, far: Setup, shapes: &[Shape]) -> Result<Stage, BenchError> {
        let far = Service::start(SERVER_CORE, far)?;
        Stage::of(vec![Service::start(CLIENT_CORE, near)?], far, shapes)
    }

    /// Starts services with one setup, and two applications. Their servers share a service, and
    /// each client has its own, as if it were on a host of its own: but on the same core.
    ///
    /// # Errors
    /// If one does not come up.
    pub fn start_apart(setup: Setup, shapes: &[Shape; 2]) -> Result<Stage, BenchError> {
        let far = Service::start(SERVER_CORE, setup)?;
        let near = [CLIENT_CORE; 2].map(|core| Service::start(core, setup));
        Stage::of(near.into_iter().collect::<Result<_, _>>()?, far, shapes)
    }

    fn of(near: Vec<Service>, far: Service, shapes: &[Shape]) -> Result<Stage, BenchError> {
        let mut pairs = Vec::new();
        for ((shape, is_second), near) in shapes.iter().zip([false, true]).zip(near.iter().cycle())
        {
            pairs.push(Pair::start(near, &far, *shape, is_second)?);
        }
        Ok(Stage { pairs, near, far })
    }

    /// Whoever changes the first application's engines and transport, at its client's host and at
    /// its server's.
    ///
    /// # Errors
    /// If a service does not let this user.
    pub fn operators(&self) -> Result<[Operator; 2], BenchError> {
        Ok([
            Operator::connect(&self.near[0].admin(), CLIENT)?,
            Operator::connect(&self.far.admin(), SERVER)?,
        ])
    }

    /// Whoever changes the host of the second application's client.
    ///
    /// # Errors
    /// If its service does not let this user.
    pub fn second_operator(&self) -> Result<Operator, BenchError> {
        let near = self.near.last().expect("there is a client's host");
        Operator::connect(&near.admin(), SECOND_CLIENT)
    }

    /// Lets all applications call for `duration`, while `meanwhile` runs.
    ///
    /// # Errors
    /// If a process has died, or those of `meanwhile`.
    pub fn turn<R>(
        &mut self,
        duration: Duration,
        meanwhile: impl FnOnce() -> Result<R, BenchError>,
    ) -> Result<(Vec<PairTurn>, R), BenchError> {
        for Pair { client, server, .. } in &mut self.pairs {
            begin_turn(client, server, Phase::Window, duration)?;
        }
        let done = meanwhile();
        let turns = self.pairs.iter_mut().map(Pair::end).collect::<Result<_, _>>();
        for service in self.near.iter_mut().chain([&mut self.far]) {
            if service.running.program.has_ended() {
                return Err(format!("the {} has died", service.running.program.who()).into());
            }
        }
        Ok((turns?, done?))
    }
}

impl Pair {
    fn start(
        near: &Service,
        far: &Service,
        shape: Shape,
        is_second: bool,
    ) -> Result<Pair, BenchError> {
        let (client, server) =
            if is_second { (SECOND_CLIENT, SECOND_SERVER) } else { (CLIENT, SERVER) };
        let (near_path, far_path) = (near.path(), far.path());
        fn options<'a>(path: &'a str, name: &'a str, is_second: bool) -> Vec<&'a str> {
            let options = ["--service", path, "--application", name];
            options.into_iter().chain(is_second.then_some("--second")).collect()
        }
        let (part, its) = (PartName::NumberedServer, options(&far_path, server, is_second));
        let (server, _) = part_with(part, SERVER_CORE, shape, &[], &its)?;
        let (part, its) = (PartName::NumberedClient, options(&near_path, client, is_second));
        let (client, _) = part_with(part, CLIENT_CORE, shape, &[far.address()], &its)?;
        Ok(Pair { client, server, before: Tally::default() })
    }

    fn end(&mut self) -> Result<PairTurn, BenchError> {
        let turn = end_turn(&mut self.client, &mut self.server)?;
        let mut client = turn.client;
        let none = || BenchError::from("a process has counted nothing");
        let tally = client.tally.take().ok_or_else(none)?;
        let counted = turn.server.tally.ok_or_else(none)?;
        let run = counted.unique.saturating_sub(self.before.unique);
        let duplicated = counted.repeated.saturating_sub(self.before.repeated);
        self.before = counted;
        let lost = tally.sent.saturating_sub(tally.answered.min(run));
        if lost > 0 && !tally.error.is_empty() {
            eprintln!("petasos bench: a call has failed: {}", tally.error);
        }
        Ok(PairTurn { client, tally, lost, duplicated })
    }
}
