//! Attaching, joining, being placed and leaving, and who may speak of it.

use core::time::Duration;

use petasos_wire::RoutePolicy;

use super::group_golden::{attach, attached, join, joined};
use super::pair::{ACCEPTOR, DIALLER, Pair, Side};
use super::{encoded, hello, params};
use crate::*;

pub(super) const STANDBY: Active = Active { is_active: false, term: 3 };

/// A process that has groups.
pub(super) fn member(incarnation: u64) -> Hello {
    let hello = hello(incarnation);
    Hello { capabilities: hello.capabilities.with(Capabilities::GROUPS), ..hello }
}

/// A client or worker, which dials, and a router, after their hellos.
pub(super) fn open() -> Pair {
    let mut pair = Pair::with(member(DIALLER), member(ACCEPTOR));
    pair.transfer();
    pair.dialler.take_events();
    pair.acceptor.take_events();
    pair
}

/// The same after an attachment.
pub(super) fn open_attached(client: u32) -> Pair {
    let mut pair = open();
    pair.dialler.connection.attach(1, attach()).unwrap();
    pair.transfer();
    pair.acceptor.connection.answer_attach(1, Ok((attached(client), STANDBY))).unwrap();
    pair.transfer();
    pair.dialler.take_events();
    pair.acceptor.take_events();
    pair
}

/// The same after a membership.
pub(super) fn open_joined(worker: u16) -> Pair {
    let mut pair = open();
    pair.dialler.connection.join(1, join()).unwrap();
    pair.transfer();
    pair.acceptor.connection.answer_join(1, Ok(joined(worker))).unwrap();
    pair.transfer();
    pair.dialler.take_events();
    pair.acceptor.take_events();
    pair
}

pub(super) fn group(event: GroupEvent) -> Vec<Event> {
    vec![Event::Group(event)]
}

fn place(client: u32) -> PlaceParams {
    PlaceParams { client, policy: RoutePolicy::Any, key_hash: 0, avoid: None }
}

#[test]
fn rt33_an_attach_is_requested_and_answered_and_active_follows() {
    let mut pair = open().seeded(3, 5);
    pair.dialler.connection.attach(1, attach()).unwrap();
    pair.transfer();
    let requested = GroupEvent::AttachRequested { id: 1, params: attach() };
    assert_eq!(pair.acceptor.take_events(), group(requested));
    pair.acceptor.connection.answer_attach(1, Ok((attached(5), STANDBY))).unwrap();
    pair.transfer();
    let answered = GroupEvent::AttachAnswered { id: 1, result: Ok(attached(5)) };
    let told = GroupEvent::Told(Told::Active(STANDBY));
    assert_eq!(pair.dialler.take_events(), [group(answered), group(told)].concat());
}

#[test]
fn rt34_a_join_is_answered_after_what_the_worker_has_to_know() {
    let mut pair = open().seeded(4, 5);
    pair.dialler.connection.join(1, join()).unwrap();
    pair.transfer();
    let requested = GroupEvent::JoinRequested { id: 1, params: join() };
    assert_eq!(pair.acceptor.take_events(), group(requested));
    let clients = Told::Clients(vec![ClientChange { client: 5, names: Some(vec![]) }]);
    pair.acceptor.connection.tell(clients.clone()).unwrap();
    pair.acceptor.connection.answer_join(1, Ok(joined(300))).unwrap();
    pair.transfer();
    let answered = GroupEvent::JoinAnswered { id: 1, result: Ok(joined(300)) };
    let expected = [group(GroupEvent::Told(clients)), group(answered)].concat();
    assert_eq!(pair.dialler.take_events(), expected);
    pair.dialler.connection.confirm_epoch(7).unwrap();
    pair.transfer();
    assert_eq!(pair.acceptor.take_events(), group(GroupEvent::EpochHeard { epoch: 7 }));
}

#[test]
fn rt33_rt34_rt37_refusals_say_why() {
    let mut pair = open_attached(5);
    let code = RefuseCode::NotAuthorised;
    pair.dialler.connection.attach(2, attach()).unwrap();
    pair.dialler.connection.join(2, join()).unwrap();
    pair.dialler.connection.place(2, place(5)).unwrap();
    pair.transfer();
    let requested = GroupEvent::PlaceRequested { id: 2, params: place(5) };
    assert_eq!(pair.acceptor.take_events().pop(), group(requested).pop());
    let router = &mut pair.acceptor.connection;
    router.answer_place(2, Err(RefuseCode::SessionsFull)).unwrap();
    let detail = Text::new("kv.Store.Get");
    router.answer_join(2, Err(Refusal { code, detail: detail.clone() })).unwrap();
    router.answer_attach(2, Err(code)).unwrap();
    pair.transfer();
    let reason = ConnectFailure::Refused(code);
    let result = Err(ConnectFailure::Refused(RefuseCode::SessionsFull));
    let expected = [
        group(GroupEvent::PlaceAnswered { id: 2, result }),
        group(GroupEvent::JoinAnswered { id: 2, result: Err(JoinFailure { reason, detail }) }),
        group(GroupEvent::AttachAnswered { id: 2, result: Err(reason) }),
    ];
    assert_eq!(pair.dialler.take_events(), expected.concat());
}

#[test]
fn rt37_a_client_is_placed() {
    let mut pair = open_attached(5);
    pair.dialler.connection.place(2, place(5)).unwrap();
    pair.transfer();
    pair.acceptor.take_events();
    let grant = PlaceGrant { worker: 300, address: "10.1.2.3:7411".parse().unwrap() };
    pair.acceptor.connection.answer_place(2, Ok(grant)).unwrap();
    pair.transfer();
    let answered = GroupEvent::PlaceAnswered { id: 2, result: Ok(grant) };
    assert_eq!(pair.dialler.take_events(), group(answered));
    let stranger = pair.dialler.connection.place(3, place(6));
    assert_eq!(stranger, Err(GroupError::Misplaced("client")));
}

#[test]
fn rt35_either_end_leaves_and_also_both_at_once() {
    let leave = Leave { member: Member::Client(5), tag: attached(5).tag };
    let (left, confirmed) = (GroupEvent::Left { leave }, GroupEvent::LeaveAnswered { leave });
    for (client, router) in [(true, false), (false, true), (true, true)] {
        let mut pair = open_attached(5);
        let sides = [(&mut pair.dialler, client), (&mut pair.acceptor, router)];
        for (side, leaves) in sides.into_iter().filter(|(_, leaves)| *leaves) {
            assert!(leaves && side.connection.leave(leave).is_ok());
            assert_eq!(side.connection.leave(leave), Ok(()), "a repetition says nothing");
        }
        pair.transfer();
        let expect = |leaves| group(if leaves { confirmed.clone() } else { left.clone() });
        assert_eq!(pair.dialler.take_events(), expect(client));
        assert_eq!(pair.acceptor.take_events(), expect(router));
        for (side, before) in [(&mut pair.dialler, 3), (&mut pair.acceptor, 2)] {
            assert_eq!(side.connection.leave(leave), Err(GroupError::Misplaced("client")));
            assert_eq!(side.connection.counters().frames_received, before + 1);
        }
    }
}

#[test]
fn rt35_a_leave_of_nobody_is_confirmed() {
    let mut pair = open();
    let leave = Leave { member: Member::Worker(9), tag: 1 };
    let bytes = encoded(&Message::Group(GroupMessage::Leave(leave)));
    pair.acceptor.connection.handle_bytes(&bytes, pair.now);
    assert_eq!(pair.acceptor.take_events(), group(GroupEvent::Left { leave }));
    assert_eq!(pair.acceptor.take_output(), bytes);
}

#[test]
fn rt34_rt35_a_worker_that_joins_anew_may_have_the_number_that_it_had() {
    let mut pair = open_joined(300);
    let anew = JoinGrant { tag: 99, ..joined(300) };
    pair.dialler.connection.join(2, join()).unwrap();
    pair.transfer();
    pair.acceptor.connection.answer_join(2, Ok(anew)).unwrap();
    pair.transfer();
    let leave = |tag| Leave { member: Member::Worker(300), tag };
    let earlier = pair.dialler.connection.leave(leave(joined(300).tag));
    assert_eq!(earlier, Err(GroupError::Misplaced("worker")), "it has ended");
    assert_eq!(pair.dialler.connection.leave(leave(99)), Ok(()));
}

#[test]
fn rt35_the_end_of_a_connection_answers_everything() {
    let mut pair = open_attached(5);
    pair.dialler.connection.attach(2, attach()).unwrap();
    pair.dialler.connection.join(3, join()).unwrap();
    pair.dialler.connection.place(4, place(5)).unwrap();
    pair.dialler.connection.handle_reset(pair.now);
    let failure = ConnectFailure::PeerFailed;
    let join_failure = JoinFailure { reason: failure, detail: Text::default() };
    let expected = [
        group(GroupEvent::AttachAnswered { id: 2, result: Err(failure) }),
        group(GroupEvent::JoinAnswered { id: 3, result: Err(join_failure) }),
        group(GroupEvent::PlaceAnswered { id: 4, result: Err(failure) }),
        vec![Event::PeerFailed(FailureReason::Reset)],
    ];
    assert_eq!(pair.dialler.take_events(), expected.concat());
    assert_eq!(pair.dialler.connection.attach(5, attach()), Err(GroupError::NotOpen));
}

#[test]
fn c13_a_router_that_drains_takes_nobody() {
    let mut pair = open_attached(5);
    // They are on their way when it begins.
    pair.dialler.connection.attach(2, attach()).unwrap();
    pair.dialler.connection.join(2, join()).unwrap();
    pair.dialler.connection.place(2, place(5)).unwrap();
    pair.acceptor.connection.drain();
    pair.transfer();
    assert_eq!(pair.acceptor.take_events(), []);
    let refused = ConnectFailure::Refused(RefuseCode::Draining);
    let join_failure = JoinFailure { reason: refused, detail: Text::default() };
    let expected = [
        vec![Event::PeerDraining],
        group(GroupEvent::AttachAnswered { id: 2, result: Err(refused) }),
        group(GroupEvent::JoinAnswered { id: 2, result: Err(join_failure) }),
        group(GroupEvent::PlaceAnswered { id: 2, result: Err(refused) }),
    ];
    assert_eq!(pair.dialler.take_events(), expected.concat());
    assert_eq!(pair.dialler.connection.join(3, join()), Err(GroupError::PeerDraining));
}

/// The ways in which two processes have no groups in common.
fn strangers() -> [(Hello, Hello); 4] {
    let minor = |minor| Version { major: 1, minor };
    let old = |hello: Hello| {
        let versions = VersionRange { newest: minor(3), ..SUPPORTED };
        Hello { versions, ..hello }
    };
    [
        (old(member(DIALLER)), member(ACCEPTOR)),
        (member(DIALLER), old(member(ACCEPTOR))),
        (hello(DIALLER), member(ACCEPTOR)),
        (member(DIALLER), hello(ACCEPTOR)),
    ]
}

#[test]
fn c2_rt33_to_rt37_a_peer_of_1_3_or_without_groups_is_sent_nothing_of_them() {
    for (dialler, acceptor) in strangers() {
        let mut pair = Pair::with(dialler, acceptor);
        pair.transfer();
        assert!(pair.dialler.connection.is_open() && pair.acceptor.connection.is_open());
        let (member, router) = (&mut pair.dialler.connection, &mut pair.acceptor.connection);
        assert!(!member.knows_groups() && !router.knows_groups());
        let unknown = Err(GroupError::UnknownToPeer);
        let leave = Leave { member: Member::Client(5), tag: 0 };
        assert_eq!(member.attach(1, attach()), unknown);
        assert_eq!(member.join(1, join()), unknown);
        assert_eq!(member.place(1, place(5)), unknown);
        assert_eq!(member.confirm_epoch(7), unknown);
        assert_eq!(member.leave(leave), unknown);
        assert_eq!(router.tell(Told::Active(STANDBY)), unknown);
        assert_eq!(router.answer_attach(1, Err(RefuseCode::Internal)), unknown);
        assert!(member.poll_output().is_none() && router.poll_output().is_none());
        // What it does not know it passes over, whatever is in it, and the rest works.
        pair.acceptor.connection.handle_bytes(&[1, 0, 15, 1, 7], pair.now);
        assert_eq!(pair.acceptor.connection.counters().frames_skipped, 1);
        pair.dialler.take_events();
        pair.acceptor.take_events();
        pair.dialler.connection.connect(1, params(3), pair.now).unwrap();
        pair.transfer();
        let requested = Event::ConnectRequested { id: 1, params: params(3) };
        assert_eq!(pair.acceptor.take_events(), [requested]);
    }
}

#[test]
fn rt33_to_rt37_without_groups_a_frame_that_may_not_be_skipped_is_an_error() {
    let mut pair = Pair::open();
    pair.acceptor.connection.handle_bytes(&[1, 0, 15, 0, 7], pair.now);
    let reason = ProtocolError::Malformed(Malformed::UnknownKind(15));
    let failed = Event::PeerFailed(FailureReason::Protocol(reason));
    assert_eq!(pair.acceptor.take_events(), [failed]);
}

#[test]
fn misused_commands_name_the_mistake() {
    let mut pair = open();
    let (member, router) = (&mut pair.dialler.connection, &mut pair.acceptor.connection);
    assert_eq!(router.attach(1, attach()), Err(GroupError::WrongRole));
    assert_eq!(router.join(1, join()), Err(GroupError::WrongRole));
    assert_eq!(member.tell(Told::Active(STANDBY)), Err(GroupError::WrongRole));
    assert_eq!(member.answer_place(1, Err(RefuseCode::Internal)), Err(GroupError::WrongRole));
    let wrong = AttachParams { asked_max: 0, ..attach() };
    assert_eq!(member.attach(1, wrong), Err(GroupError::InvalidField("asked_max")));
    let wrong = JoinParams { dial_port: Some(0), ..join() };
    assert_eq!(member.join(1, wrong), Err(GroupError::InvalidField("dial_port")));
    member.attach(1, attach()).unwrap();
    assert_eq!(member.attach(1, attach()), Err(GroupError::IdInUse));
    member.join(1, join()).unwrap();
    pair.transfer();
    let router = &mut pair.acceptor.connection;
    assert_eq!(router.answer_attach(2, Ok((attached(5), STANDBY))), Err(GroupError::UnknownId));
    let beyond = [
        (AttachGrant { payload_bytes: 1449, ..attached(5) }, "payload_bytes"),
        (AttachGrant { asked_max: 4097, ..attached(5) }, "asked_max"),
        (AttachGrant { cipher: Some(Cipher::Aes128Gcm), ..attached(5) }, "secret"),
    ];
    for (grant, field) in beyond {
        let refused = router.answer_attach(1, Ok((grant, STANDBY)));
        assert_eq!(refused, Err(GroupError::InvalidField(field)));
    }
    let grant = JoinGrant { secret: 1 << 40, ..joined(300) };
    assert_eq!(router.answer_join(1, Ok(grant)), Err(GroupError::InvalidField("secret")));
    let names = Some(vec!["n".repeat(3000)]);
    let two = vec![ClientChange { client: 1, names }; 2];
    assert_eq!(router.tell(Told::Clients(two)), Err(GroupError::InvalidField("entries")));
    assert_eq!(router.answer_attach(1, Ok((attached(5), STANDBY))), Ok(()), "it still waits");
}

fn ids() -> impl Iterator<Item = u64> {
    0..OUTSTANDING_MAX as u64
}

#[test]
fn c8_attempts_and_leaves_count_among_the_requests() {
    let mut pair = open_attached(5);
    for id in 2..OUTSTANDING_MAX as u64 {
        pair.transfer();
        match id % 3 {
            0 => pair.dialler.connection.attach(id, attach()).unwrap(),
            1 => pair.dialler.connection.place(id, place(5)).unwrap(),
            _ => pair.dialler.connection.connect(id, params(3), pair.now).unwrap(),
        }
    }
    let member = &mut pair.dialler.connection;
    member.leave(Leave { member: Member::Client(5), tag: attached(5).tag }).unwrap();
    member.attach(5000, attach()).unwrap();
    assert_eq!(member.attach(6000, attach()), Err(GroupError::TooManyOutstanding));
    let full = member.connect(6000, params(3), pair.now);
    assert_eq!(full, Err(ConnectError::TooManyOutstanding));
    pair.transfer();
    assert!(pair.acceptor.connection.is_open());
    // The leave is confirmed at once.
    assert_eq!(pair.dialler.connection.attach(6000, attach()), Ok(()));
}

#[test]
fn c8_a_peer_with_too_many_attempts_is_cut_off() {
    let mut pair = open();
    for id in 0..=OUTSTANDING_MAX as u64 {
        assert!(pair.acceptor.connection.is_open());
        let message = match id % 2 {
            0 => Message::Connect { connect_id: id, params: params(3) },
            _ => Message::Group(GroupMessage::Join { join_id: id, params: join() }),
        };
        pair.acceptor.connection.handle_bytes(&encoded(&message), pair.now);
    }
    let reason = FailureReason::Protocol(ProtocolError::TooManyOutstanding);
    assert_eq!(pair.acceptor.take_events().last(), Some(&Event::PeerFailed(reason)));
}

#[test]
fn c15_a_good_peer_that_reads_late_is_owed_every_answer_of_a_router() {
    let config = Config { output_bytes_max: 4096, ..Config::default() };
    let ip = Some("2001:db8::1".parse().unwrap());
    let far = DataAddress::udp(1, ip);
    let (cipher, secret) = (Some(Cipher::Aes128Gcm), Some(Secret::new([7; 32])));
    let epoch = Epoch { secret, ..joined(1).epoch };
    let longest = JoinGrant { cipher, epoch, source: far, feedback: far, ..joined(1) };
    let detail = Text::new(&"n".repeat(DETAIL_BYTES_MAX));
    let refusal = Refusal { code: RefuseCode::IncompatibleParameters, detail };
    for result in [Ok(longest), Err(refusal)] {
        let mut side = Side::new(config, Role::Acceptor, member(ACCEPTOR));
        let now = petasos_base::Time::ZERO;
        side.connection.handle_bytes(&encoded(&Message::Hello(member(DIALLER))), now);
        for id in ids() {
            let message = GroupMessage::Join { join_id: id, params: join() };
            side.connection.handle_bytes(&encoded(&Message::Group(message)), now);
            side.connection.answer_join(id, result.clone()).unwrap();
        }
        side.connection.handle_bytes(&encoded(&Message::Ping { nonce: 1 }), now);
        assert!(side.connection.is_open());
    }
}

#[test]
fn c15_what_is_told_waits_for_room() {
    let mut pair = open_attached(5);
    let config = Config::default();
    let gone = MemberChange { worker: 1, state: MemberState::Gone };
    let told = Told::Members(vec![gone; 1000]);
    let refused = loop {
        let unsent = pair.acceptor.connection.poll_output().map_or(0, <[u8]>::len);
        assert!(unsent < config.output_bytes_max + FRAME_BYTES_MAX);
        if let Err(error) = pair.acceptor.connection.tell(told.clone()) {
            break error;
        }
    };
    assert_eq!(refused, GroupError::Backlogged);
    pair.transfer();
    assert_eq!(pair.acceptor.connection.tell(told), Ok(()));
    pair.pass(Duration::from_secs(3));
    assert!(pair.dialler.connection.is_open());
}
