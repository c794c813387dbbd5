//! Pairs with members that are played by the tests.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

mod asking;
mod property;
mod states;

use core::time::Duration;

use petasos_base::Time;
use petasos_wire::{Header, Kind, Packet, RejectCode, WorkerBlock};

use super::{
    Answer, Arrival, Asking, AttachmentId, First, Member, Over, PairConfig, PairId, Pairs,
    WorkerSession,
};

const HERE: AttachmentId = AttachmentId(7);
const THERE: AttachmentId = AttachmentId(8);
const ROUTER: Member = Member { attachment: HERE, worker: WorkerBlock::ROUTER };
const ONE: WorkerSession =
    WorkerSession { member: Member { attachment: HERE, worker: 1 }, session: 0x80011, tag: 0x111 };
const TWO: WorkerSession =
    WorkerSession { member: Member { attachment: HERE, worker: 2 }, session: 0x80022, tag: 0x222 };
/// The same worker's session for another first packet.
const ONE_AGAIN: WorkerSession = WorkerSession { session: 0x80099, ..ONE };

fn at(micros: u64) -> Time {
    Time::from_nanos(micros * 1000)
}

fn millis(millis: u64) -> Time {
    at(millis * 1000)
}

/// The pairs of a client, and the time.
struct Client {
    pairs: Pairs<u64>,
    now: Time,
    next_tag: u32,
}

/// A packet to a pair, apart from whom it is from.
#[derive(Clone, Copy, Debug)]
struct To {
    kind: Kind,
    value: u32,
    echo: u32,
    payload: &'static [u8],
}

const fn ready(echo: u64, value: u32) -> To {
    To { kind: Kind::Ready, value, echo: echo as u32, payload: b"" }
}

const fn response(echo: u64, bytes: u32) -> To {
    To { kind: Kind::Response, value: bytes, echo: echo as u32, payload: b"answer\0\0" }
}

const fn reject(echo: u64, code: RejectCode) -> To {
    To { kind: Kind::Reject, value: code as u32, echo: echo as u32, payload: b"" }
}

fn bytes_of(first: &First, to: To) -> Vec<u8> {
    let header = Header::for_session(first.pair.index, first.tag);
    let header = header.with_request(to.kind, first.pair.request, 9);
    let header = header.with_server(to.echo, to.value, 32);
    [&header.to_bytes()[..], to.payload].concat()
}

impl Client {
    fn new() -> Client {
        let mut pairs = Pairs::new(PairConfig::default());
        pairs.attach(HERE, 1000, 2);
        Client { pairs, now: millis(1000), next_tag: 1 }
    }

    fn asking(&mut self, is_claim: bool) -> Asking {
        self.next_tag += 1;
        Asking { tag: self.next_tag, is_claim, timeout_at: Time::NEVER }
    }

    /// A pair whose first packet was sent, and its context is its request's number.
    fn ask(&mut self, is_claim: bool) -> First {
        let asking = self.asking(is_claim);
        self.pairs.ask(HERE, asking, 0).unwrap();
        let first = self.pairs.poll_first(self.now).unwrap();
        *self.pairs.context(first.pair).unwrap() = first.pair.request;
        assert_eq!(self.pairs.poll_first(self.now), None);
        first
    }

    fn waits(&mut self, millis: u64) {
        self.now = self.now + Duration::from_millis(millis);
        self.pairs.handle_timers(self.now);
    }

    /// A packet with a worker block, which names the session.
    fn hears(&mut self, first: &First, from: WorkerSession, to: To) -> Answer<u64> {
        let (session, tag, worker) = (from.session, from.tag, from.member.worker);
        self.takes(first, from.member, Some(WorkerBlock { session, tag, worker }), to)
    }

    /// A packet whose block names no session.
    fn hears_only(&mut self, first: &First, from: Member, to: To) -> Answer<u64> {
        let block = WorkerBlock { session: 0, tag: 0, worker: from.worker };
        self.takes(first, from, Some(block), to)
    }

    fn takes(
        &mut self,
        first: &First,
        from: Member,
        block: Option<WorkerBlock>,
        to: To,
    ) -> Answer<u64> {
        let bytes = bytes_of(first, to);
        let packet = Packet::parse(&bytes).unwrap();
        self.pairs.handle(self.now, Arrival { from, packet, block })
    }

    fn over(&mut self) -> Vec<Over<u64>> {
        std::iter::from_fn(|| self.pairs.poll_over()).collect()
    }

    fn sent(&mut self) -> Vec<First> {
        std::iter::from_fn(|| self.pairs.poll_first(self.now)).collect()
    }

    fn is_over(&mut self, pair: PairId) -> bool {
        self.pairs.context(pair).is_none()
    }
}
