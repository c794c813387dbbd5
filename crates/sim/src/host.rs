//! The code on a host, and what it gets from the world.

use petasos_base::{Time, VirtualClock};
use petasos_netio::memory::MemoryIo;

use crate::drift::DayClock;

/// The program of one host.
///
/// It owns its port ([`HostSeat::port`]). It runs when packets have arrived there, and when the
/// time that it asked for has come. It may also run without either.
pub trait Host {
    /// Does the work that is due at `now`, by its own clock. Returns when to run again, by the same
    /// clock, even if no packet arrives; [`Time::NEVER`] for not at all. A time not after `now`
    /// means as soon as the turn is over ([`crate::WorldConfig::turn_nanos`]). Packets left
    /// unreceived have the same effect.
    fn run(&mut self, now: Time) -> Time;
}

impl<F: FnMut(Time) -> Time> Host for F {
    fn run(&mut self, now: Time) -> Time {
        self(now)
    }
}

impl Host for Box<dyn Host> {
    fn run(&mut self, now: Time) -> Time {
        (**self).run(now)
    }
}

/// The parts from which a host is made, at the start and again after every restart.
pub struct HostSeat {
    /// Number of the host: its peers reach it at [`MemoryIo::address`] of this number.
    pub number: u32,
    /// How often the host has been restarted.
    pub restarts: u32,
    /// The host's port. In the first life its number is the host's. Later lives have their own
    /// ports, and packets to the port of a dead life are dropped.
    pub port: MemoryIo,
    /// Virtual time, as this host counts it.
    pub clock: VirtualClock,
    /// The time of day, as this host believes.
    pub day: DayClock,
    /// Randomness for this host and life, from the world's seed.
    pub seed: u64,
}

/// One host as the world sees it. Invariant: a host that is not alive has no timer set.
pub(crate) struct Seated<H> {
    pub(crate) program: H,
    pub(crate) alive: bool,
    pub(crate) restarts: u32,
    /// Number of the port of the present life.
    pub(crate) port: u32,
    /// The host may not run earlier, because it is busy with its last turn, or paused.
    pub(crate) ready_at: Time,
}
