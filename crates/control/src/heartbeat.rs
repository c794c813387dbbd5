//! Failure detection by silence (C11).
//!
//! Three timers in turn: after `interval` of silence a ping goes out; `failure_timeout` after the
//! last frame the peer has failed. The second is counted from the ping, not from the last frame,
//! so that a process that was itself stopped for a while does not take its peers for dead.

use petasos_base::Time;

use crate::Config;

/// What is due.
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
    /// When silence is to be answered with a ping; never while `fail_at` is set.
    ping_at: Time,
    /// When silence becomes failure; never while the peer is not suspected.
    fail_at: Time,
    /// The nonce of the last ping, counted from 1.
    nonce: u64,
    /// Whether the last ping is unanswered; there is never more than one.
    awaits_pong: bool,
}

impl Heartbeat {
    /// Starts in suspicion: the first frame has to arrive within the failure timeout.
    pub(crate) fn new(config: Config, now: Time) -> Heartbeat {
        let fail_at = now + config.failure_timeout;
        Heartbeat { config, ping_at: Time::NEVER, fail_at, nonce: 0, awaits_pong: false }
    }

    /// A whole frame has arrived.
    pub(crate) fn on_frame(&mut self, now: Time) {
        self.ping_at = now + self.config.heartbeat_interval;
        self.fail_at = Time::NEVER;
    }

    /// A pong has arrived. False if it answers no ping.
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
