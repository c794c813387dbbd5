//! Load balancing: choosing a server for each call of a channel.
//!
//! A [`Balancer`] gets the connected servers as a slice of [`Server`]s, and picks an index into it.
//! It only picks servers with room, and always picks one if any has room. It learns from responses
//! (R7), which it gets as [`Report`]s. Time and randomness are arguments.
//!
//! The channel maintains the slice, and tells the balancer when a server is no longer connected. No
//! other module may use server numbers.

mod pool;
mod prequal;

use core::time::Duration;

use petasos_base::{Rng, Time};

use crate::Load;
use crate::session_index::Avoid;
use prequal::Prequal;

/// How a channel balances its calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Balance {
    /// The first reachable address gets all calls.
    #[default]
    PickFirst,
    /// Each server in turn.
    RoundRobin,
    /// Of two random servers, the one with fewer running calls of this channel.
    PowerOfTwo,
    /// Prequal: by the load and latency that servers report in responses and probes. Wydrowski et
    /// al., "Load is not what you should balance: Introducing Prequal", NSDI 2024.
    Prequal,
}

/// A connected server, as a balancer sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Server {
    /// Its number in the channel.
    pub number: u32,
    /// Running calls of this channel at the server.
    pub running: u32,
    /// Whether it can take another call.
    pub has_room: bool,
}

/// What a response says about its server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// The time from sending the request to receiving the response, measured by the caller.
    pub latency: Duration,
    /// The load that the server reported (R7); `None` from gRPC servers.
    pub load: Option<Load>,
}

/// The state of a [`Balance`] policy.
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
    /// A balancer without any reports.
    pub fn new(balance: Balance) -> Balancer {
        Balancer(match balance {
            Balance::PickFirst => Kind::First,
            Balance::RoundRobin => Kind::RoundRobin { next: 0 },
            Balance::PowerOfTwo => Kind::PowerOfTwo,
            Balance::Prequal => Kind::Prequal(Box::default()),
        })
    }

    /// The index in `servers` of the server for the next call; `None` if none has room. Prefers
    /// servers where the call has not been yet. The server of the latest attempt is the last choice
    /// (A6: hedges go to distinct servers).
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

    /// Handles a response from a server.
    #[inline]
    pub fn handle_report(&mut self, number: u32, report: Report, now: Time) {
        if let Kind::Prequal(prequal) = &mut self.0 {
            prequal.handle_report(number, report, now);
        }
    }

    /// Handles the answer to a probe.
    pub fn handle_probed(&mut self, number: u32, report: Report, now: Time, rng: &mut Rng) {
        if let Kind::Prequal(prequal) = &mut self.0 {
            prequal.handle_probed(number, report, now, rng);
        }
    }

    /// Handles a probe that failed, or could not be sent.
    pub fn handle_probe_failed(&mut self, number: u32) {
        if let Kind::Prequal(prequal) = &mut self.0 {
            prequal.handle_probe_failed(number);
        }
    }

    /// Handles a server that is no longer connected. Its number may be reused for another server.
    pub fn handle_gone(&mut self, number: u32) {
        if let Kind::Prequal(prequal) = &mut self.0 {
            prequal.handle_gone(number);
        }
    }

    /// The number of a server to probe now.
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
    // A second, different one, each with the same probability.
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

/// The first one with room at or after `start`, with wrap-around.
fn from(servers: &[Server], start: usize) -> Option<usize> {
    (start..servers.len()).chain(0..start).find(|&at| servers[at].has_room)
}

/// A random index below `len`, which must not be 0.
fn index(len: usize, rng: &mut Rng) -> usize {
    usize::try_from(rng.below(len as u64)).expect("below a usize")
}

#[cfg(test)]
mod tests;
