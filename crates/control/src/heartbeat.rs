//! Failure detection by silence (C11).
//!
//! There are two timers: after `interval` of silence a ping is sent, and after `failure_timeout` of
//! silence the peer has failed. The second timer is set when the ping is sent, not at the last
//! frame, so that a process that was itself stopped for a while does not consider its peers dead.

use petasos_base::Time;

use crate::Config;

/// What to do now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Beat {
    /// Nothing yet.
    Wait,
    /// Send a ping with this nonce.
    Ping(u64),
    /// The peer has failed.
    Failed,
}

#[derive(Clone, Debug)]
pub(crate) struct Heartbeat {
    config: Config,
    /// When a ping is sent if the silence continues; never while `fail_at` is set.
    ping_at: Time,
    /// When silence counts as failure; never while the peer is not suspected.
    fail_at: Time,
    /// The nonce of the last ping, counted from 1.
    nonce: u64,
    /// Whether the last ping is unanswered; there is never more than one.
    awaits_pong: bool,
}

impl Heartbeat {
    /// Starts as suspected: the first frame has to arrive within the failure timeout.
    pub(crate) fn new(config: Config, now: Time) -> Heartbeat {
        let fail_at = now + config.failure_timeout;
        Heartbeat { config, ping_at: Time::NEVER, fail_at, nonce: 0, awaits_pong: false }
    }

    /// Notes that a complete frame has arrived.
    pub(crate) fn on_frame(&mut self, now: Time) {
        self.ping_at = now + self.config.heartbeat_interval;
        self.fail_at = Time::NEVER;
    }

    /// Notes that a pong has arrived. Returns false if it answers no ping.
    pub(crate) fn on_pong(&mut self, nonce: u64) -> bool {
        let answers_ping = self.awaits_pong && nonce == self.nonce;
        self.awaits_pong &= !answers_ping;
        answers_ping
    }

    pub(crate) fn on_timeout(&mut self, now: Time) -> Beat {
        if self.fail_at <= now {
            return Beat::Failed;
        }
        if self.ping_at > now {
            return Beat::Wait;
        }
        self.ping_at = Time::NEVER;
        self.fail_at = now + (self.config.failure_timeout - self.config.heartbeat_interval);
        if self.awaits_pong {
            return Beat::Wait;
        }
        self.awaits_pong = true;
        self.nonce += 1;
        Beat::Ping(self.nonce)
    }

    pub(crate) fn next_timeout(&self) -> Time {
        self.ping_at.min(self.fail_at)
    }
}
