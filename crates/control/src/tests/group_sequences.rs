//! Routers, clients and workers that follow the rules, with their bytes cut anywhere and moved in
//! any order between the two directions; and peers that say anything.

use std::collections::BTreeSet;

use petasos_base::Time;
use petasos_wire::{EPOCHS, RoutePolicy};
use proptest::prelude::*;

use super::group_golden::{attach, attached, epoch, join, joined};
use super::groups::{STANDBY, member, open};
use super::pair::{ACCEPTOR, DIALLER, Pair, Side};
use super::{encoded, group_strategies};
use crate::*;

#[derive(Clone, Debug)]
enum Step {
    Attach,
    Join,
    Place(u32),
    /// A leave by the dialler or the acceptor, of a client or a worker.
    Leave(bool, bool, u16),
    Confirm(u16),
    /// An answer, with a grant or not.
    Answer(bool),
    Tell(Told),
    Move(bool),
    Drain,
}

const NUMBERS: u16 = 5;

fn step() -> impl Strategy<Value = Step> {
    let number = 1..NUMBERS;
    let told = prop_oneof![
        group_strategies::told(),
        (0..4u16, any::<bool>()).prop_map(|(epoch, is_last)| {
            let service = Text::new("s");
            Told::Table(Table { epoch, first: 1, is_last, service, methods: vec![] })
        }),
        (proptest::option::of(0..u32::from(NUMBERS)), 0..20u16)
            .prop_map(|(client, number)| Told::Epoch { client, epoch: epoch(number) }),
    ];
    prop_oneof![
        3 => Just(Step::Attach),
        3 => Just(Step::Join),
        2 => number.clone().prop_map(|client| Step::Place(client.into())),
        3 => (any::<bool>(), any::<bool>(), number)
            .prop_map(|(dialler, client, number)| Step::Leave(dialler, client, number)),
        2 => (0..20u16).prop_map(Step::Confirm),
        6 => any::<bool>().prop_map(Step::Answer),
        6 => told.prop_map(Step::Tell),
        8 => any::<bool>().prop_map(Step::Move),
        1 => Just(Step::Drain),
    ]
}

/// What one end waits for and owes.
#[derive(Default)]
struct Oracle {
    /// Attempts of the dialler that are not answered, by kind and id.
    waiting: BTreeSet<(u8, u64)>,
    /// Attempts that the router has to answer.
    requested: Vec<(u8, u64)>,
    leaving: [BTreeSet<Leave>; 2],
    next_id: u64,
    /// Counts epochs and tags.
    grants: u16,
}

struct Run {
    pair: Pair,
    oracle: Oracle,
}

impl Run {
    /// Commands that an end may not give are refused, so whatever is sent is in order.
    fn step(&mut self, step: Step) {
        let member = &mut self.pair.dialler.connection;
        let oracle = &mut self.oracle;
        oracle.next_id += 1;
        let id = oracle.next_id;
        let asked = match step {
            Step::Attach => member.attach(id, attach()).map(|()| 0),
            Step::Join => member.join(id, join()).map(|()| 1),
            Step::Place(client) => {
                let policy = RoutePolicy::Any;
                let params = PlaceParams { client, policy, key_hash: 0, avoid: None };
                member.place(id, params).map(|()| 2)
            }
            step => return self.other(step),
        };
        if let Ok(kind) = asked {
            oracle.waiting.insert((kind, id));
        }
    }

    fn other(&mut self, step: Step) {
        let (member, router) =
            (&mut self.pair.dialler.connection, &mut self.pair.acceptor.connection);
        match step {
            Step::Leave(by_dialler, client, number) => {
                let (tags, end) =
                    (0..=self.oracle.grants, if by_dialler { member } else { router });
                for tag in tags.map(u32::from) {
                    let who =
                        if client { Member::Client(number.into()) } else { Member::Worker(number) };
                    let leave = Leave { member: who, tag };
                    if end.leave(leave).is_ok() {
                        self.oracle.leaving[usize::from(by_dialler)].insert(leave);
                    }
                }
            }
            Step::Confirm(epoch) => drop(member.confirm_epoch(epoch)),
            Step::Answer(grants) => self.answer(grants),
            Step::Tell(told) => drop(router.tell(told)),
            Step::Move(from_dialler) => drop(self.pair.transfer_piece(from_dialler)),
            Step::Drain => router.drain(),
            Step::Attach | Step::Join | Step::Place(_) => unreachable!("handled before"),
        }
        self.check();
    }

    fn answer(&mut self, grants: bool) {
        let oracle = &mut self.oracle;
        let Some((kind, id)) = oracle.requested.pop() else { return };
        oracle.grants += 1;
        let (tag, number) = (u32::from(oracle.grants), epoch(oracle.grants % EPOCHS));
        let router = &mut self.pair.acceptor.connection;
        let code = RefuseCode::Internal;
        let who = oracle.grants % NUMBERS;
        let granted = match kind {
            0 => {
                let grant = AttachGrant { tag, epoch: number, ..attached(who.into()) };
                let granted = grants && router.answer_attach(id, Ok((grant, STANDBY))).is_ok();
                granted || router.answer_attach(id, Err(code)).is_ok()
            }
            1 => {
                let grant = JoinGrant { tag, epoch: number, ..joined(who.max(1)) };
                let refusal = Refusal { code, detail: Text::new("no") };
                let granted = grants && router.answer_join(id, Ok(grant)).is_ok();
                granted || router.answer_join(id, Err(refusal)).is_ok()
            }
            _ => router.answer_place(id, Err(code)).is_ok(),
        };
        assert!(granted, "an attempt that waits can be refused");
    }

    fn check(&mut self) {
        let Run { pair, oracle } = self;
        for event in pair.dialler.take_events() {
            match event {
                Event::Group(event) => oracle.heard(event),
                Event::PeerDraining => {}
                other => panic!("a good router: {other:?}"),
            }
        }
        for event in pair.acceptor.take_events() {
            let Event::Group(event) = event else { panic!("a good member: {event:?}") };
            match event {
                GroupEvent::AttachRequested { id, .. } => oracle.requested.push((0, id)),
                GroupEvent::JoinRequested { id, .. } => oracle.requested.push((1, id)),
                GroupEvent::PlaceRequested { id, .. } => oracle.requested.push((2, id)),
                GroupEvent::LeaveAnswered { leave } => assert!(oracle.leaving[0].remove(&leave)),
                GroupEvent::EpochHeard { .. } | GroupEvent::Left { .. } => {}
                other => panic!("no router hears {other:?}"),
            }
        }
    }
}

impl Oracle {
    fn heard(&mut self, event: GroupEvent) {
        let answered = match event {
            GroupEvent::AttachAnswered { id, .. } => (0, id),
            GroupEvent::JoinAnswered { id, .. } => (1, id),
            GroupEvent::PlaceAnswered { id, .. } => (2, id),
            GroupEvent::LeaveAnswered { leave } => {
                assert!(self.leaving[1].remove(&leave), "{leave:?} was not asked");
                return;
            }
            GroupEvent::Told(_) | GroupEvent::Left { .. } => return,
            other => panic!("no member hears {other:?}"),
        };
        assert!(self.waiting.remove(&answered), "{answered:?} is answered once");
    }
}

proptest! {
    #[test]
    fn rt33_to_rt37_whoever_follows_the_rules_breaks_none(
        seed in any::<u64>(),
        piece_bytes_max in 1usize..200,
        steps in proptest::collection::vec(step(), 1..200),
    ) {
        let pair = open().seeded(seed, piece_bytes_max);
        let mut run = Run { pair, oracle: Oracle::default() };
        steps.into_iter().for_each(|step| run.step(step));
        run.pair.transfer();
        run.check();
        while !run.oracle.requested.is_empty() {
            run.answer(false);
        }
        run.pair.transfer();
        run.check();
        prop_assert!(run.oracle.waiting.is_empty(), "{:?}", run.oracle.waiting);
        prop_assert!(run.oracle.leaving.iter().all(BTreeSet::is_empty));
        prop_assert!(run.pair.dialler.connection.is_open());
        prop_assert!(run.pair.acceptor.connection.is_open());
    }

    /// In any order, from either end, after an attempt of each kind: all is understood or ends the
    /// connection, and then each attempt has one outcome.
    #[test]
    fn rt33_to_rt37_any_order_ends_in_one_outcome_for_each_attempt(
        messages in proptest::collection::vec(group_strategies::message(), 0..20),
        (dials, cut) in (any::<bool>(), 1usize..100),
    ) {
        let role = if dials { Role::Dialler } else { Role::Acceptor };
        let mut side = Side::new(Config::default(), role, member(DIALLER));
        let hello = encoded(&Message::Hello(member(ACCEPTOR)));
        side.connection.handle_bytes(&hello, Time::ZERO);
        let asked = side.connection.attach(1, attach()).is_ok()
            && side.connection.join(1, join()).is_ok();
        prop_assert_eq!(asked, dials);
        let mut bytes = Vec::new();
        messages.into_iter().for_each(|message| Message::Group(message).encode(&mut bytes));
        for piece in bytes.chunks(cut) {
            side.connection.handle_bytes(piece, Time::ZERO);
        }
        side.connection.handle_eof(Time::ZERO);
        let events = side.take_events();
        prop_assert!(matches!(events.last(), Some(Event::PeerFailed(_))));
        let outcome = |event: &&Event| {
            let Event::Group(event) = event else { return false };
            matches!(event, GroupEvent::AttachAnswered { id: 1, .. })
                || matches!(event, GroupEvent::JoinAnswered { id: 1, .. })
        };
        prop_assert_eq!(events.iter().filter(outcome).count(), if dials { 2 } else { 0 });
    }
}
