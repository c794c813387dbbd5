//! What drives a channel's core in these tests.

use std::net::{IpAddr, Ipv4Addr};

use petasos_base::{Rng, Time};
use petasos_call::balance::Balance;
use petasos_call::channel::{
    Action, Address, Avoid, CallOptions, ChannelConfig, ChannelCore, PeerIndex, PeerState, Pick,
    PickError, SessionIndex, Ticket,
};

pub const MS: u64 = 1_000_000;
pub const PATIENT: CallOptions =
    CallOptions { wait_for_ready: true, deadline: Time::NEVER, avoid: Avoid::NOTHING };

pub fn at(ms: u64) -> Time {
    Time::from_nanos(ms * MS)
}

pub fn address(number: u16) -> Address {
    Address::new(IpAddr::V4(Ipv4Addr::LOCALHOST), number)
}

/// A channel and what a driver keeps.
pub struct Driver {
    pub core: ChannelCore,
    pub rng: Rng,
}

impl Driver {
    pub fn new(balance: Balance, servers: u16) -> Driver {
        Driver::with(ChannelConfig { balance, ..ChannelConfig::default() }, servers)
    }

    pub fn with(config: ChannelConfig, servers: u16) -> Driver {
        let mut core = ChannelCore::new(config);
        let list: Vec<Address> = (1..=servers).map(address).collect();
        core.handle_addresses(&list, at(0));
        Driver { core, rng: Rng::new(1) }
    }

    pub fn pick(&mut self, call: CallOptions, ms: u64) -> Pick {
        self.core.pick(call, at(ms), &mut self.rng)
    }

    /// A session for a call that must get one.
    pub fn session(&mut self, ms: u64) -> SessionIndex {
        match self.pick(CallOptions::default(), ms) {
            Pick::Session(session) => session,
            other => panic!("a session was expected, not {other:?}"),
        }
    }

    pub fn wait(&mut self, call: CallOptions, ms: u64) -> Ticket {
        match self.pick(call, ms) {
            Pick::Wait(ticket) => ticket,
            other => panic!("the call was expected to wait, not {other:?}"),
        }
    }

    pub fn actions(&mut self, ms: u64) -> Vec<Action> {
        std::iter::from_fn(|| self.core.poll_action(at(ms))).collect()
    }

    /// The connects that are asked for: ports and slots.
    pub fn connects(&mut self, ms: u64) -> Vec<(u16, u32)> {
        let connect = |action: Action| match action {
            Action::Connect { address, slots, .. } => (address.port(), slots),
            other => panic!("only connects were expected, not {other:?}"),
        };
        self.actions(ms).into_iter().map(connect).collect()
    }

    pub fn peer(&self, port: u16) -> PeerIndex {
        self.core.find(&address(port)).expect("the address is on the list")
    }

    pub fn connected(&mut self, port: u16, slots: u32, ms: u64) -> SessionIndex {
        let peer = self.peer(port);
        self.core.handle_connected(peer, slots, at(ms)).expect("the session is wanted")
    }

    pub fn failed(&mut self, port: u16) {
        let peer = self.peer(port);
        self.core.handle_failed(peer, &mut self.rng);
    }

    pub fn state(&self, port: u16, ms: u64) -> PeerState {
        self.core.state(self.peer(port), at(ms)).expect("the address is on the list")
    }

    pub fn outcome(&mut self, ms: u64) -> Option<(Ticket, Result<SessionIndex, PickError>)> {
        self.core.poll_waiting(at(ms), &mut self.rng)
    }

    pub fn ended(&mut self, session: SessionIndex, ms: u64) {
        self.core.handle_ended(session, None, at(ms));
    }

    pub fn timeout_ms(&self) -> u64 {
        self.core.next_timeout().as_nanos() / MS
    }
}
