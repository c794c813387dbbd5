//! Whole sequences of commands, pieces, pauses and noise, against simple oracles.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use petasos_base::Time;
use proptest::prelude::*;

use super::pair::{DIALLER, Pair, Side};
use super::{encoded, grant, hello, params, strategies};
use crate::*;

#[derive(Clone, Debug)]
enum Step {
    Connect { from_dialler: bool, id: u64 },
    Reply { by_dialler: bool, accept: bool },
    Disconnect { by_dialler: bool, session: u32 },
    Move { from_dialler: bool },
    Pass { milliseconds: u64 },
    Drain { by_dialler: bool },
    Succeed { by_dialler: bool },
}

fn step() -> impl Strategy<Value = Step> {
    let side = any::<bool>();
    prop_oneof![
        4 => (side, 0u64..6).prop_map(|(from_dialler, id)| Step::Connect { from_dialler, id }),
        4 => (side, side).prop_map(|(by_dialler, accept)| Step::Reply { by_dialler, accept }),
        2 => (side, 0u32..6)
            .prop_map(|(by_dialler, session)| Step::Disconnect { by_dialler, session }),
        8 => side.prop_map(|from_dialler| Step::Move { from_dialler }),
        2 => (1u64..1500).prop_map(|milliseconds| Step::Pass { milliseconds }),
        1 => side.prop_map(|by_dialler| Step::Drain { by_dialler }),
        1 => side.prop_map(|by_dialler| Step::Succeed { by_dialler }),
    ]
}

/// What one process has to see, whatever the other does.
#[derive(Default)]
struct Oracle {
    /// Connects that are waited for.
    waiting: BTreeSet<u64>,
    /// Requests of the peer to be answered.
    requested: BTreeMap<u64, ConnectParams>,
    disconnects: BTreeSet<SessionRef>,
    ended: bool,
}

impl Oracle {
    fn check(&mut self, events: Vec<Event>) {
        for event in events {
            assert!(!self.ended, "{event:?} after the last event");
            match event {
                Event::ConnectAnswered { id, .. } => {
                    assert!(self.waiting.remove(&id), "{id} is answered once");
                }
                Event::ConnectRequested { id, params } => {
                    assert_eq!(self.requested.insert(id, params), None, "{id} is requested once");
                }
                // Beside those that were asked for, late grants are given back.
                Event::DisconnectAnswered { session } => {
                    self.disconnects.remove(&session);
                }
                Event::PeerFailed(reason) => panic!("a good peer has failed: {reason}"),
                Event::Closed { .. } => self.ended = true,
                _ => {}
            }
        }
    }
}

struct Run {
    pair: Pair,
    oracles: [Oracle; 2],
    sessions: u32,
}

impl Run {
    fn side(&mut self, dialler: bool) -> (&mut Side, &mut Oracle, Time) {
        let side = if dialler { &mut self.pair.dialler } else { &mut self.pair.acceptor };
        (side, &mut self.oracles[usize::from(dialler)], self.pair.now)
    }

    fn step(&mut self, step: Step) {
        self.sessions += 1;
        let fresh = self.sessions;
        match step {
            Step::Connect { from_dialler, id } => {
                let (side, oracle, now) = self.side(from_dialler);
                let asked = side.connection.connect(id, params(id as u32), now);
                assert!(asked.is_err() || oracle.waiting.insert(id), "{id} was in use");
            }
            Step::Reply { by_dialler, accept } => {
                let (side, oracle, _) = self.side(by_dialler);
                if let Some((id, _)) = oracle.requested.pop_first() {
                    let result = accept.then(|| grant(fresh)).ok_or(RefuseCode::Internal);
                    side.connection.reply(id, result).unwrap();
                }
            }
            Step::Disconnect { by_dialler, session } => {
                let (side, oracle, _) = self.side(by_dialler);
                let role = if session % 2 == 0 { SessionRole::Client } else { SessionRole::Server };
                let session = SessionRef { role, ..grant(session).server_ref() };
                side.connection.disconnect(session).unwrap();
                oracle.disconnects.insert(session);
            }
            Step::Move { from_dialler } => {
                self.pair.transfer_piece(from_dialler);
            }
            Step::Pass { milliseconds } => self.pair.pass(Duration::from_millis(milliseconds)),
            Step::Drain { by_dialler } => self.side(by_dialler).0.connection.drain(),
            Step::Succeed { by_dialler } => {
                self.side(by_dialler).0.connection.announce_successor();
            }
        }
        self.check();
    }

    fn check(&mut self) {
        for dialler in [false, true] {
            let (side, oracle, _) = self.side(dialler);
            oracle.check(side.take_events());
        }
    }
}

/// A valid stream whose bytes have then been damaged here and there.
fn damaged_stream() -> impl Strategy<Value = Vec<u8>> {
    let messages = proptest::collection::vec(strategies::message(), 0..20);
    let damage = proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 0..4);
    (messages, damage).prop_map(|(messages, damage)| {
        let mut bytes = Vec::new();
        messages.iter().for_each(|message| message.encode(&mut bytes));
        for (at, byte) in damage.into_iter().filter(|_| !bytes.is_empty()).collect::<Vec<_>>() {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        bytes
    })
}

proptest! {
    #[test]
    fn good_peers_answer_everything_once(
        seed in any::<u64>(),
        piece_bytes_max in 1usize..200,
        steps in proptest::collection::vec(step(), 1..120),
    ) {
        let pair = Pair::open().seeded(seed, piece_bytes_max);
        let mut run = Run { pair, oracles: Default::default(), sessions: 100 };
        steps.into_iter().for_each(|step| run.step(step));
        run.pair.pass(Config::default().connect_timeout);
        run.check();
        for oracle in &run.oracles {
            prop_assert!(oracle.waiting.is_empty() && oracle.disconnects.is_empty());
        }
        run.pair.dialler.connection.close(ByeReason::Idle);
        run.pair.transfer();
        run.check();
        prop_assert!(run.oracles.iter().all(|oracle| oracle.ended));
    }

    #[test]
    fn noise_ends_in_one_last_event_and_bounded_memory(
        stream in damaged_stream(),
        noise in proptest::collection::vec(any::<u8>(), 0..100),
        after_hello in any::<bool>(),
        role in prop_oneof![Just(Role::Dialler), Just(Role::Acceptor)],
        cut in 1usize..100,
    ) {
        let mut side = Side::new(Config::default(), role, hello(DIALLER));
        let mut bytes = if after_hello { encoded(&Message::Hello(hello(1))) } else { Vec::new() };
        bytes.extend(stream);
        bytes.extend(noise);
        let mut now = Time::ZERO;
        for piece in bytes.chunks(cut) {
            side.connection.handle_bytes(piece, now);
            now = now + Duration::from_millis(7);
            side.connection.handle_timeout(now);
        }
        side.connection.handle_eof(now);
        let events = side.take_events();
        let last = |event: &Event| matches!(event, Event::PeerFailed(_) | Event::Closed { .. });
        prop_assert_eq!(events.iter().filter(|event| last(event)).count(), 1);
        prop_assert!(events.last().is_some_and(last));
        prop_assert!(side.connection.is_finished());
    }
}
