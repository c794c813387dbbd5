//! Slots that a driver borrows, and a server that is lost while nobody calls.

use std::net::{IpAddr, Ipv4Addr};

use petasos_base::{Rng, Time};
use petasos_call::channel::{
    Action, Address, CallOptions, ChannelConfig, ChannelCore, Pick, SessionIndex,
};

fn at(ms: u64) -> Time {
    Time::from_nanos(ms * 1_000_000)
}

fn address(port: u16) -> Address {
    Address::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port)
}

fn connected(core: &mut ChannelCore, port: u16, ms: u64) -> SessionIndex {
    let peer = core.find(&address(port)).expect("it is on the list");
    core.handle_connected(peer, 4, at(ms)).expect("it is wanted")
}

fn pick(core: &mut ChannelCore, ms: u64) -> Pick {
    core.pick(CallOptions::default(), at(ms), &mut Rng::new(1))
}

fn one_server() -> (ChannelCore, SessionIndex) {
    let mut core = ChannelCore::new(ChannelConfig::default());
    core.handle_addresses(&[address(1), address(2)], at(0));
    core.connect();
    assert!(matches!(core.poll_action(at(0)), Some(Action::Connect { .. })));
    let session = connected(&mut core, 1, 0);
    (core, session)
}

#[test]
fn slots_of_the_only_server_are_lent_and_come_back_one_by_one() {
    let (mut core, session) = one_server();
    assert_eq!(pick(&mut core, 0), Pick::Session(session));
    assert_eq!((core.lease(session), core.lease(session)), (3, 0));
    let Pick::Wait(ticket) = pick(&mut core, 0) else { panic!("no slot is left") };
    assert_eq!(core.lease(session), 0, "somebody waits");
    core.handle_ended(session, None, at(0));
    let given = core.poll_waiting(at(0), &mut Rng::new(1));
    assert_eq!(given, Some((ticket, Ok(session))));
    for _ in 0..4 {
        core.handle_ended(session, None, at(0));
    }
    assert_eq!(core.lease(session), 4);
}

#[test]
fn nothing_is_lent_where_there_is_a_choice() {
    let (mut core, first) = one_server();
    let second = connected(&mut core, 1, 0);
    assert_eq!((core.lease(first), core.lease(second)), (4, 4), "all sessions of one server");
    for session in [first, second].into_iter().cycle().take(8) {
        core.handle_ended(session, None, at(0));
    }
    connected(&mut core, 2, 0);
    assert_eq!(core.lease(first), 0, "there are two servers");
}

#[test]
fn a_lost_server_is_connected_again() {
    let (mut core, session) = one_server();
    while core.poll_action(at(0)).is_some() {}
    core.handle_lost(session, at(5000));
    let action = core.poll_action(at(5000));
    assert!(matches!(action, Some(Action::Connect { .. })), "{action:?}");
}

/// When the core wants to be asked again, it is, as a driver does that gives lent slots back first.
fn look(core: &mut ChannelCore, lent: &mut Vec<SessionIndex>, gives_back: bool) -> Vec<Action> {
    let now = core.next_timeout();
    assert!(now < Time::NEVER, "there are sessions to be closed some day");
    for session in lent.extract_if(.., |_| gives_back) {
        core.handle_ended(session, None, now);
    }
    core::iter::from_fn(|| core.poll_action(now)).collect()
}

#[test]
fn a_session_whose_slots_are_lent_is_not_idle_until_they_are_given_back() {
    let (mut core, first) = one_server();
    let second = connected(&mut core, 1, 0);
    while core.poll_action(at(0)).is_some() {}
    let mut lent = vec![second; core.lease(second) as usize];
    for _ in 0..5 {
        assert_eq!(look(&mut core, &mut lent, false), [], "somebody may be calling there");
    }
    let closed: Vec<_> = (0..2).flat_map(|_| look(&mut core, &mut lent, true)).collect();
    assert_eq!(closed, [Action::Close(second)]);
    assert_eq!(core.lease(first), 4, "the first one stays");
}
