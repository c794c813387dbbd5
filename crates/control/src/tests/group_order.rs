//! What a router may say when, and what a client or worker may (RT33 to RT36).

use super::group_golden::{attach, attached, epoch, join, joined};
use super::groups::{STANDBY, group, open, open_attached, open_joined};
use super::pair::Pair;
use super::{encoded, hello};
use crate::*;

fn frame(message: GroupMessage) -> Vec<u8> {
    encoded(&Message::Group(message))
}

/// What ends the dialler's connection when it reads `messages`, if anything.
fn heard(pair: &mut Pair, messages: impl IntoIterator<Item = GroupMessage>) -> Option<Event> {
    for message in messages {
        pair.dialler.connection.handle_bytes(&frame(message), pair.now);
    }
    let last = pair.dialler.take_events().pop();
    last.filter(|event| matches!(event, Event::PeerFailed(_)))
}

fn failed(error: ProtocolError) -> Option<Event> {
    Some(Event::PeerFailed(FailureReason::Protocol(error)))
}

fn misplaced(what: &'static str) -> Option<Event> {
    failed(ProtocolError::GroupMisplaced(what))
}

fn told_epoch(client: Option<u32>, number: u16) -> Told {
    Told::Epoch { client, epoch: epoch(number) }
}

fn table(epoch: u16, is_last: bool) -> Told {
    Told::Table(Table { epoch, first: 1, is_last, service: Text::new("s"), methods: vec![] })
}

/// Each thing that can be told, with its name.
fn everything() -> [(Told, &'static str); 7] {
    [
        (table(7, true), "table"),
        (Told::Members(vec![]), "members"),
        (Told::Clients(vec![]), "clients"),
        (told_epoch(None, 8), "epoch"),
        (told_epoch(Some(5), 8), "epoch"),
        (Told::Active(STANDBY), "active"),
        (Told::Routers(vec![]), "routers"),
    ]
}

/// Whether a router may say `told` to `pair`'s dialler, and that the dialler sees it as well.
fn may(mut pair: Pair, told: &Told) -> bool {
    let sent = pair.acceptor.connection.tell(told.clone());
    let refused = heard(&mut pair, [GroupMessage::Told(told.clone())]);
    assert_eq!(sent.is_err(), refused.is_some(), "{told:?}: {sent:?}, {refused:?}");
    sent.is_ok()
}

#[test]
fn rt36_each_is_told_what_concerns_it() {
    let joins = || {
        let mut pair = open();
        pair.dialler.connection.join(1, join()).unwrap();
        pair.transfer();
        pair
    };
    for (told, name) in everything() {
        let for_client = matches!(&told, Told::Epoch { client: Some(_), .. })
            || matches!(name, "members" | "active" | "routers");
        let for_worker = matches!(&told, Told::Epoch { client: None, .. })
            || matches!(name, "table" | "clients" | "routers");
        assert!(!may(open(), &told), "{name} to nobody");
        assert_eq!(may(open_attached(5), &told), for_client, "{name} to a client");
        assert_eq!(may(open_joined(300), &told), for_worker, "{name} to a worker");
        let before = matches!(name, "table" | "clients");
        assert_eq!(may(joins(), &told), before, "{name} to one that wants to join");
        assert!(!may(open_attached(6), &told_epoch(Some(5), 8)), "another client's epoch");
    }
}

#[test]
fn rt36_active_follows_an_attachment_directly() {
    let answer = || GroupMessage::Attached { attach_id: 1, result: Ok(attached(5)) };
    for (told, name) in everything() {
        let mut pair = open();
        pair.dialler.connection.attach(1, attach()).unwrap();
        let ends = heard(&mut pair, [answer(), GroupMessage::Told(told)]);
        let expected = if name == "active" { None } else { misplaced("active") };
        assert_eq!(ends, expected, "{name}");
    }
    let mut pair = open();
    pair.dialler.connection.attach(1, attach()).unwrap();
    pair.dialler.connection.attach(2, attach()).unwrap();
    let refused = GroupMessage::Attached { attach_id: 2, result: Err(RefuseCode::Internal) };
    assert_eq!(heard(&mut pair, [refused, answer(), answer()]), misplaced("active"));
}

#[test]
fn rt36_epochs_count_up_and_are_sealed_alike() {
    let sealed = |number| Epoch { secret: Some(Secret::new([7; 32])), ..epoch(number) };
    for (mut pair, client) in [(open_attached(5), Some(5)), (open_joined(300), None)] {
        let router = &mut pair.acceptor.connection;
        assert_eq!(router.tell(told_epoch(client, 7)), Err(GroupError::Misplaced("epoch")));
        assert_eq!(router.tell(told_epoch(client, 6)), Err(GroupError::Misplaced("epoch")));
        let wrong = router.tell(Told::Epoch { client, epoch: sealed(8) });
        assert_eq!(wrong, Err(GroupError::Misplaced("secret")));
        // One may be left out, and numbers wrap.
        for number in [9, 1000, 2000, 3000, 4000, 4095, 1] {
            assert_eq!(pair.acceptor.connection.tell(told_epoch(client, number)), Ok(()));
            pair.transfer();
            if client.is_none() {
                assert_eq!(pair.dialler.connection.confirm_epoch(number), Ok(()));
                pair.transfer();
            }
        }
        let again = GroupMessage::Told(told_epoch(client, 1));
        assert_eq!(heard(&mut pair, [again]), misplaced("epoch"));
    }
}

#[test]
fn rt33_rt34_all_grants_of_a_connection_are_sealed_or_none() {
    let epoch = Epoch { secret: Some(Secret::new([7; 32])), ..epoch(7) };
    let cipher = Some(Cipher::Aes128Gcm);
    let mut pair = open_attached(5);
    pair.dialler.connection.join(2, join()).unwrap();
    pair.transfer();
    let grant = JoinGrant { cipher, epoch, ..joined(300) };
    let refused = pair.acceptor.connection.answer_join(2, Ok(grant.clone()));
    assert_eq!(refused, Err(GroupError::Misplaced("cipher")));
    let answer = GroupMessage::Joined { join_id: 2, result: Ok(grant) };
    assert_eq!(heard(&mut pair, [answer]), misplaced("cipher"));
}

#[test]
fn rt33_a_client_has_one_attachment_by_its_number() {
    let mut pair = open_attached(5);
    pair.dialler.connection.attach(2, attach()).unwrap();
    pair.transfer();
    let refused = pair.acceptor.connection.answer_attach(2, Ok((attached(5), STANDBY)));
    assert_eq!(refused, Err(GroupError::Misplaced("client")));
    let answer = GroupMessage::Attached { attach_id: 2, result: Ok(attached(5)) };
    assert_eq!(heard(&mut pair, [answer]), misplaced("client"));
}

#[test]
fn rt36_a_table_is_whole_before_what_it_is_for() {
    let mut pair = open_joined(300);
    let router = &mut pair.acceptor.connection;
    assert_eq!(router.tell(table(6, true)), Err(GroupError::Misplaced("table")), "of the past");
    assert_eq!(router.tell(table(8, false)), Ok(()));
    assert_eq!(router.tell(table(9, false)), Err(GroupError::Misplaced("table")));
    assert_eq!(router.tell(told_epoch(None, 8)), Err(GroupError::Misplaced("table")));
    pair.dialler.connection.join(2, join()).unwrap();
    pair.transfer();
    let router = &mut pair.acceptor.connection;
    let early = router.answer_join(2, Ok(joined(301)));
    assert_eq!(early, Err(GroupError::Misplaced("table")));
    // A refused join ends the table that was for it.
    let refusal = Refusal { code: RefuseCode::IncompatibleParameters, detail: Text::default() };
    assert_eq!(router.answer_join(2, Err(refusal)), Ok(()));
    assert_eq!(router.tell(table(9, false)), Ok(()));
    assert_eq!(router.tell(table(9, true)), Ok(()));
    assert_eq!(router.tell(told_epoch(None, 9)), Ok(()));
    pair.transfer();
    assert!(pair.dialler.connection.is_open());
    let other = [table(10, false), table(11, true)].map(GroupMessage::Told);
    assert_eq!(heard(&mut pair, other), misplaced("table"));
}

#[test]
fn rt36_only_epochs_that_were_told_are_confirmed() {
    let mut pair = open_joined(300);
    for wrong in [8, 6] {
        let refused = pair.dialler.connection.confirm_epoch(wrong);
        assert_eq!(refused, Err(GroupError::Misplaced("epoch heard")));
    }
    pair.dialler.connection.confirm_epoch(7).unwrap();
    pair.transfer();
    assert_eq!(pair.acceptor.take_events().pop(), group(GroupEvent::EpochHeard { epoch: 7 }).pop());
    for wrong in [8, 6] {
        let bytes = frame(GroupMessage::EpochHeard { epoch: wrong });
        pair.acceptor.connection.handle_bytes(&bytes, pair.now);
        assert_eq!(pair.acceptor.take_events(), [], "it says nothing");
    }
    for mut pair in [open(), open_attached(5)] {
        let bytes = frame(GroupMessage::EpochHeard { epoch: 7 });
        pair.acceptor.connection.handle_bytes(&bytes, pair.now);
        assert_eq!(pair.acceptor.take_events().pop(), misplaced("epoch heard"));
    }
}

#[test]
fn rt36_a_confirmation_may_cross_a_new_membership() {
    let mut pair = open_joined(300);
    pair.dialler.connection.join(2, join()).unwrap();
    pair.acceptor.connection.tell(told_epoch(None, 9)).unwrap();
    pair.transfer();
    pair.dialler.connection.confirm_epoch(9).unwrap();
    let leave = Leave { member: Member::Worker(300), tag: joined(300).tag };
    pair.acceptor.connection.leave(leave).unwrap();
    let grant = JoinGrant { epoch: epoch(4), ..joined(301) };
    pair.acceptor.connection.answer_join(2, Ok(grant)).unwrap();
    pair.transfer();
    let events = pair.acceptor.take_events();
    assert!(!events.contains(&group(GroupEvent::EpochHeard { epoch: 9 })[0]));
    assert!(pair.dialler.connection.is_open() && pair.acceptor.connection.is_open());
}

#[test]
fn rt36_workers_are_not_told_more_epochs_than_they_can_tell_apart() {
    let mut pair = open_joined(300);
    let router = &mut pair.acceptor.connection;
    assert_eq!(router.tell(told_epoch(None, 7 + 1024)), Ok(()));
    assert_eq!(router.tell(told_epoch(None, 7 + 1025)), Err(GroupError::Backlogged));
    pair.transfer();
    pair.dialler.connection.confirm_epoch(7 + 1024).unwrap();
    pair.transfer();
    assert_eq!(pair.acceptor.connection.tell(told_epoch(None, 7 + 1025)), Ok(()));
}

#[test]
fn rt34_a_worker_that_comes_back_after_long_begins_with_any_epoch() {
    let mut pair = open_joined(300);
    let leave = Leave { member: Member::Worker(300), tag: joined(300).tag };
    pair.dialler.connection.leave(leave).unwrap();
    pair.dialler.connection.join(2, join()).unwrap();
    pair.transfer();
    let grant = JoinGrant { epoch: epoch(4), ..joined(300) };
    assert_eq!(pair.acceptor.connection.answer_join(2, Ok(grant)), Ok(()));
    pair.transfer();
    assert_eq!(pair.dialler.connection.confirm_epoch(4), Ok(()));
    pair.transfer();
    assert!(pair.dialler.connection.is_open() && pair.acceptor.connection.is_open());
}

#[test]
fn c8_answers_answer_requests_and_exceed_none() {
    let answers = [
        GroupMessage::Attached { attach_id: 9, result: Ok(attached(5)) },
        GroupMessage::Joined { join_id: 9, result: Ok(joined(300)) },
        GroupMessage::Placed { place_id: 9, result: Err(RefuseCode::Draining) },
    ];
    for answer in answers {
        let unasked = failed(ProtocolError::UnexpectedReply);
        assert_eq!(heard(&mut open(), [answer.clone()]), unasked);
        // A router hears none at all.
        let mut pair = open();
        pair.acceptor.connection.handle_bytes(&frame(answer), pair.now);
        assert_eq!(pair.acceptor.take_events().pop(), unasked);
    }
    let beyond = [
        (AttachGrant { payload_bytes: 1449, ..attached(5) }, "payload_bytes"),
        (AttachGrant { asked_max: 4097, ..attached(5) }, "asked_max"),
    ];
    for (grant, field) in beyond {
        let mut pair = open();
        pair.dialler.connection.attach(1, attach()).unwrap();
        let answer = GroupMessage::Attached { attach_id: 1, result: Ok(grant) };
        pair.dialler.connection.handle_bytes(&frame(answer), pair.now);
        let result = Err(ConnectFailure::PeerFailed);
        let mut expected = group(GroupEvent::AttachAnswered { id: 1, result });
        expected.extend(failed(ProtocolError::ExceedsProposal(field)));
        assert_eq!(pair.dialler.take_events(), expected);
    }
    let mut pair = open();
    pair.dialler.connection.join(1, join()).unwrap();
    let grant = JoinGrant { payload_bytes: 1449, ..joined(300) };
    let answer = GroupMessage::Joined { join_id: 1, result: Ok(grant) };
    let beyond = failed(ProtocolError::ExceedsProposal("payload_bytes"));
    assert_eq!(heard(&mut pair, [answer]), beyond);
}

#[test]
fn rt33_to_rt37_each_end_says_its_own() {
    let from_members = [
        (GroupMessage::Attach { attach_id: 1, params: attach() }, "attach"),
        (GroupMessage::Join { join_id: 1, params: join() }, "join"),
        (GroupMessage::EpochHeard { epoch: 7 }, "epoch heard"),
    ];
    for (message, name) in from_members {
        assert_eq!(heard(&mut open(), [message]), misplaced(name));
    }
    for (told, _) in everything() {
        let mut pair = open_attached(5);
        pair.acceptor.connection.handle_bytes(&frame(GroupMessage::Told(told)), pair.now);
        let expected = misplaced("what a router tells");
        assert_eq!(pair.acceptor.take_events().pop(), expected);
    }
    let mut pair = open();
    let twice = frame(GroupMessage::Join { join_id: 1, params: join() }).repeat(2);
    pair.acceptor.connection.handle_bytes(&twice, pair.now);
    assert_eq!(pair.acceptor.take_events().pop(), misplaced("an id"), "it waits");
    assert!(hello(1).capabilities != super::groups::member(1).capabilities);
}
