//! Which of a channel's servers gets a call.
//!
//! A [`Balancer`] sees the servers that are connected as a slice of [`Server`]s and picks an index
//! of it. It never picks one without room, and always picks if one has room. What it learns comes
//! from responses (R7) as [`Report`]s. Time and randomness are arguments.
//!
//! The channel keeps the slice and tells the balancer when a server goes; nobody else may use
//! server numbers for anything.

mod pool;
mod prequal;

use core::time::Duration;

use petasos_base::{Rng, Time};

use crate::Load;
use crate::session_index::Avoid;
use prequal::Prequal;

/// How a channel spreads its calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Balance {
    /// The first address that can be reached takes all calls.
    #[default]
    PickFirst,
    /// One after the other.
    RoundRobin,
    /// Of two random servers the one with fewer of this channel's calls under way.
    PowerOfTwo,
    /// By the servers' own load and time, which come with responses and probes: Wydrowski et al.,
    /// "Load is not what you should balance: Introducing Prequal", NSDI 2024.
    Prequal,
}

/// A connected server, as a balancer sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Server {
    /// Its number in the channel.
    pub number: u32,
    /// This channel's calls under way there.
    pub running: u32,
    /// Whether it can take another call.
    pub has_room: bool,
}

/// What an answer says about its server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// From sending the request to the response, as the caller saw it.
    pub latency: Duration,
    /// What the server said (R7); gRPC servers say nothing.
    pub load: Option<Load>,
}

/// The state behind a [`Balance`].
#[derive(Clone, Debug)]
pub struct Balancer(Kind);

#[derive(Clone, Debug)]
enum Kind {
    First,
    RoundRobin { next: usize },
    PowerOfTwo,
    Prequal(Box<Prequal>),
}

impl Balancer {
    /// A balancer that knows nothing yet.
    pub fn new(balance: Balance) -> Balancer {
        Balancer(match balance {
            Balance::PickFirst => Kind::First,
            Balance::RoundRobin => Kind::RoundRobin { next: 0 },
            Balance::PowerOfTwo => Kind::PowerOfTwo,
            Balance::Prequal => Kind::Prequal(Box::default()),
        })
    }

    /// An index of `servers`, whose server takes the next call; none if none has room. One where
    /// the call has been is picked only if no other has room, and that of the latest attempt only
    /// if there is nothing else (A6: hedges go to distinct servers).
    pub fn pick(
        &mut self,
        servers: &[Server],
        avoid: &Avoid,
        now: Time,
        rng: &mut Rng,
    ) -> Option<usize> {
        let picked = match &mut self.0 {
            Kind::First => first(servers),
            Kind::RoundRobin { next } => round_robin(servers, next),
            Kind::PowerOfTwo => power_of_two(servers, rng),
            Kind::Prequal(prequal) => prequal.pick(servers, now, rng),
        }?;
        if !avoid.knows(servers[picked].number) {
            return Some(picked);
        }
        let is_new = |server: &Server| !avoid.knows(server.number);
        let is_older = |server: &Server| Some(server.number) != avoid.latest();
        let other = another(servers, rng, is_new).or_else(|| another(servers, rng, is_older));
        Some(other.unwrap_or(picked))
    }

    /// A response came from a server.
    #[inline]
    pub fn handle_report(&mut self, number: u32, report: Report, now: Time) {
        if let Kind::Prequal(prequal) = &mut self.0 {
            prequal.handle_report(number, report, now);
        }
    }

    /// The answer to a probe came.
    pub fn handle_probed(&mut self, number: u32, report: Report, now: Time, rng: &mut Rng) {
        if let Kind::Prequal(prequal) = &mut self.0 {
            prequal.handle_probed(number, report, now, rng);
        }
    }

    /// A probe failed, or could not be sent.
    pub fn handle_probe_failed(&mut self, number: u32) {
        if let Kind::Prequal(prequal) = &mut self.0 {
            prequal.handle_probe_failed(number);
        }
    }

    /// A server is not connected any more; its number may mean another one from now on.
    pub fn handle_gone(&mut self, number: u32) {
        if let Kind::Prequal(prequal) = &mut self.0 {
            prequal.handle_gone(number);
        }
    }

    /// The number of a server that should be probed now.
    pub fn poll_probe(&mut self) -> Option<u32> {
        match &mut self.0 {
            Kind::Prequal(prequal) => prequal.poll_probe(),
            _ => None,
        }
    }
}

fn first(servers: &[Server]) -> Option<usize> {
    servers.iter().position(|server| server.has_room)
}

fn round_robin(servers: &[Server], next: &mut usize) -> Option<usize> {
    let start = if *next < servers.len() { *next } else { 0 };
    let picked = from(servers, start)?;
    *next = picked + 1;
    Some(picked)
}

/// Mitzenmacher, "The Power of Two Choices in Randomized Load Balancing", 2001.
pub(crate) fn power_of_two(servers: &[Server], rng: &mut Rng) -> Option<usize> {
    if servers.len() < 2 {
        return first(servers);
    }
    let one = index(servers.len(), rng);
    // A second one that differs, each with the same chance.
    let other = (one + 1 + index(servers.len() - 1, rng)) % servers.len();
    let rank = |at: usize| (!servers[at].has_room, servers[at].running);
    let better = if rank(other) < rank(one) { other } else { one };
    from(servers, better)
}

/// Any server with room that `fits`.
fn another(servers: &[Server], rng: &mut Rng, fits: impl Fn(&Server) -> bool) -> Option<usize> {
    let start = index(servers.len(), rng);
    let ring = (start..servers.len()).chain(0..start);
    ring.into_iter().find(|&at| servers[at].has_room && fits(&servers[at]))
}

/// The first with room at or after `start`, around the end.
fn from(servers: &[Server], start: usize) -> Option<usize> {
    (start..servers.len()).chain(0..start).find(|&at| servers[at].has_room)
}

/// A random index below `len`, which is not 0.
fn index(len: usize, rng: &mut Rng) -> usize {
    usize::try_from(rng.below(len as u64)).expect("below a usize")
}

#[cfg(test)]
mod tests;
