//! Requests at a worker whose routers and clients are played by the tests.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

mod bounds;
mod property;
mod states;
mod with_pairs;

use core::time::Duration;

use petasos_base::Time;
use petasos_wire::RejectCode;

use super::{
    Answered, Arrived, Asker, Due, MembershipId, NoRoom, Part, Progress, SessionName, TakenConfig,
    TakenId, TakenRequests,
};
use crate::given::{GivenNumbers, GivenTimes};

const HERE: MembershipId = MembershipId(3);
const CLAIM: Duration = Duration::from_millis(20);

fn millis(millis: u64) -> Time {
    Time::from_nanos(millis * 1_000_000)
}

/// A worker with one router, and the time. The data of a request are its number.
struct Worker {
    taken: TakenRequests<u64>,
    now: Time,
    given: u32,
    next_request: u64,
}

impl Worker {
    fn new() -> Worker {
        Worker::with(TakenConfig::default())
    }

    fn with(config: TakenConfig) -> Worker {
        let now = millis(1000);
        let times = GivenTimes { hole: Duration::from_millis(2), beat: Duration::from_millis(20) };
        let mut taken = TakenRequests::new(config);
        taken.join(HERE, GivenNumbers::new(now, times, 100), CLAIM);
        Worker { taken, now, given: 0, next_request: 700 }
    }

    fn arrives(&mut self) -> Arrived {
        self.given += 1;
        self.taken.arrive(self.now, HERE, self.given, false).unwrap()
    }

    fn asker(&mut self, client: u32) -> Asker {
        self.next_request += 1;
        let (pair, pair_tag, echo) = (0x8_0001, 0x234, self.given);
        let (request, message_bytes, expires_at) = (self.next_request, 4000, Time::NEVER);
        Asker { client, pair, pair_tag, request, echo, message_bytes, expires_at }
    }

    fn whole(&mut self, client: u32) -> TakenId {
        let (arrived, asker) = (self.arrives(), self.asker(client));
        self.taken.take_whole(self.now, arrived, asker, 77, asker.request).unwrap()
    }

    fn claim(&mut self, client: u32) -> TakenId {
        let asker = self.asker(client);
        self.claim_of(asker).unwrap()
    }

    fn claim_of(&mut self, asker: Asker) -> Result<TakenId, (NoRoom, u64)> {
        let arrived = self.arrives();
        self.taken.take_claim(self.now, arrived, asker, 78, asker.request)
    }

    /// All that is due now.
    fn due(&mut self) -> Vec<Due<u64>> {
        self.taken.handle_timers(self.now);
        std::iter::from_fn(|| self.taken.poll_due(self.now)).collect()
    }

    /// All that becomes due in this time, looked at every 250 µs.
    fn waits(&mut self, micros: u64) -> Vec<Due<u64>> {
        let mut all = self.due();
        for _ in 0..micros / 250 {
            self.now = self.now + Duration::from_micros(250);
            all.extend(self.due());
        }
        all
    }

    /// The same of a time in which nothing becomes due.
    fn is_left_alone(&mut self, micros: u64) {
        assert_eq!(self.waits(micros), []);
    }

    /// A session that its client knows of, by a ready.
    fn knows(&mut self, claim: TakenId) -> SessionName {
        match self.due()[..] {
            [Due::Ready { id, session, is_running: false, .. }] if id == claim => session,
            ref other => panic!("no ready: {other:?}"),
        }
    }

    /// A claim that was confirmed, and whose request is complete.
    fn running(&mut self, client: u32) -> TakenId {
        let claim = self.claim(client);
        self.knows(claim);
        assert_eq!(self.taken.receive(self.now, claim, Part::Last), Progress::Run);
        claim
    }

    fn find(&self, session: SessionName, request: u64) -> Option<TakenId> {
        self.taken.find(session, request)
    }

    /// The name of a request's session.
    fn tag_of(&self, id: TakenId) -> SessionName {
        self.taken.entries[super::at(id) as usize].session(id.index)
    }

    /// Numbers that are not settled.
    fn held(&mut self) -> u64 {
        self.taken.given(HERE).unwrap().held()
    }
}
