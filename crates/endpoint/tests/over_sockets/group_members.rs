//! Attaching to routers and joining them, by way of nodes (RT33 to RT36, RT38).

use std::net::SocketAddr;
use std::time::Duration;

use petasos_control::Member;
use petasos_endpoint::group_router::{Active, Told};
use petasos_endpoint::{
    AtRouter, Credentials, Endpoint, GroupConfig, GroupId, GroupOpenError, Node, NodeConfig, Pem,
    RefuseCode, ServeConfig, ServedGroupId, SessionError, SessionId, TlsConfig,
};

use crate::certificates::Authority;
use crate::common::*;
use crate::control_peers::{Mode, Proxy};
use crate::group_desk::{Router, Said, epoch};

pub fn open(endpoint: &mut Endpoint<Outcomes>, routers: &[SocketAddr]) -> GroupId {
    let config = GroupConfig { routers: routers.to_vec(), ..GroupConfig::default() };
    endpoint.open_group(&config).expect("it is attached")
}

pub fn serve(endpoint: &mut Endpoint<Outcomes>, routers: &[SocketAddr]) -> ServedGroupId {
    let config = ServeConfig { routers: routers.to_vec(), ..ServeConfig::default() };
    endpoint.serve_group(&config).expect("it is attached")
}

/// Turns until something holds.
pub fn until(
    endpoint: &mut Endpoint<Outcomes>,
    mut holds: impl FnMut(&mut Endpoint<Outcomes>) -> bool,
) {
    let clock = petasos_endpoint::Clock::system();
    let end = clock.now() + PATIENCE;
    while !holds(endpoint) {
        endpoint.run_for(Duration::from_millis(1), |_, _| false);
        assert!(clock.now() < end, "it holds in the end");
    }
}

pub fn session(endpoint: &mut Endpoint<Outcomes>, group: GroupId) -> SessionId {
    until(endpoint, |it| it.context().group_session(group).is_some());
    endpoint.context().group_session(group).expect("it was there")
}

pub fn at(endpoint: &mut Endpoint<Outcomes>, group: GroupId) -> Vec<AtRouter> {
    endpoint.context().group_routers(group)
}

pub fn is_attach(said: &Said) -> bool {
    matches!(said, Said::Attach { .. })
}

fn is_join(said: &Said) -> bool {
    matches!(said, Said::Join { .. })
}

#[test]
fn rt33_rt36_a_group_is_usable_once_its_workers_are_told() {
    let _watchdog = watchdog("attached");
    let router = Router::new();
    router.desk().active = Some(4);
    let node = node(None);
    let mut client = client(&node, localhost());
    let group = open(&mut client, &[router.address]);
    until(&mut client, |it| at(it, group)[0].is_member);
    assert!(client.context().group_session(group).is_none(), "nobody is known there");
    router.tell_members(&[(1, Some(4001)), (2, Some(4002))]);
    session(&mut client, group);
    assert_eq!((at(&mut client, group)[0].peers, at(&mut client, group)[0].is_active), (2, true));
    router.tell_members(&[(1, None)]);
    until(&mut client, |it| at(it, group)[0].peers == 1);
    // What the connection has told is known to whoever attaches on it later.
    let mut second = crate::common::client(&node, localhost());
    let of_second = open(&mut second, &[router.address]);
    session(&mut second, of_second);
    assert_eq!(at(&mut second, of_second)[0].peers, 1);
    // Closed, and dropped: the router hears of both.
    client.close_group(group);
    assert!(at(&mut client, group).is_empty());
    drop(second);
    until(&mut client, |_| router.heard(|said| matches!(said, Said::Left(_))) == 2);
    assert_eq!(router.heard(is_attach), 2);
}

#[test]
fn rt35_a_broken_connection_is_attached_anew_and_the_old_attachment_goes_on_until_then() {
    let _watchdog = watchdog("attached anew");
    let router = Router::new();
    router.tell_members(&[(1, Some(4001))]);
    let proxy = Proxy::to(router.address);
    let node = node(None);
    let mut client = client(&node, localhost());
    let group = open(&mut client, &[proxy.address]);
    let first = session(&mut client, group);
    proxy.set(Mode::Closed);
    proxy.cut();
    until(&mut client, |it| at(it, group)[0].failure.is_some());
    client.run_for(Duration::from_millis(100), |_, _| false);
    assert_eq!(client.context().group_session(group), Some(first), "its packets may still come");
    proxy.set(Mode::Open);
    until(&mut client, |it| it.context().group_session(group) != Some(first));
    session(&mut client, group);
    assert_eq!(at(&mut client, group)[0].peers, 1);
    assert_eq!(at(&mut client, group)[0].failure, None);
    assert_eq!(router.heard(is_attach), 2);
    assert_eq!(router.heard(|said| *said == Said::Gone { is_broken: true }), 1);
}

/// The next process of a router knows no worker yet, and what has none cannot serve: so calls stay
/// with the data plane of the one before, which may go on.
#[test]
fn rt38_what_outlives_its_router_is_used_until_the_next_one_knows_a_worker() {
    let _watchdog = watchdog("no worker yet");
    let router = Router::new();
    router.tell_members(&[(1, Some(4001))]);
    let proxy = Proxy::to(router.address);
    let node = node(None);
    let mut client = client(&node, localhost());
    let group = open(&mut client, &[proxy.address]);
    let first = session(&mut client, group);
    proxy.set(Mode::Closed);
    proxy.cut();
    until(&mut client, |it| at(it, group)[0].failure.is_some());
    // To be told of the worker, and that it is gone, would be to know one for a moment.
    router.forget();
    router.tell_members(&[]);
    proxy.set(Mode::Open);
    until(&mut client, |it| router.heard(is_attach) == 2 && at(it, group)[0].is_member);
    // Longer than one is there that another has replaced.
    client.run_for(Duration::from_secs(3), |_, _| false);
    assert_eq!(client.context().group_session(group), Some(first));
    router.tell_members(&[(2, Some(4002))]);
    until(&mut client, |it| it.context().group_session(group) != Some(first));
    session(&mut client, group);
    assert_eq!(at(&mut client, group)[0].peers, 1);
}

#[test]
fn rt35_an_attachment_outlives_its_connection_for_ten_seconds_at_most() {
    let _watchdog = watchdog("outlives");
    let router = Router::new();
    router.tell_members(&[(1, Some(4001))]);
    let node = node(None);
    let mut client = client(&node, localhost());
    let proxy = Proxy::to(router.address);
    let group = open(&mut client, &[proxy.address]);
    session(&mut client, group);
    proxy.set(Mode::Closed);
    proxy.cut();
    client.run_for(Duration::from_secs(5), |_, _| false);
    assert!(client.context().group_session(group).is_some());
    until(&mut client, |it| it.context().group_session(group).is_none());
    assert!(!at(&mut client, group)[0].is_member);
}

#[test]
fn who_refuses_is_asked_again_and_the_reason_is_seen() {
    let _watchdog = watchdog("refused");
    let router = Router::new();
    router.tell_members(&[]);
    router.desk().refuses = Some(RefuseCode::NotAuthorised);
    let node = node(None);
    let mut client = client(&node, localhost());
    let group = open(&mut client, &[router.address]);
    let served = serve(&mut client, &[router.address]);
    let refused = SessionError::RefusedBy(RefuseCode::NotAuthorised);
    until(&mut client, |it| {
        at(it, group)[0].failure.as_ref().map(|it| &it.error) == Some(&refused)
    });
    until(&mut client, |it| it.context().served_routers(served)[0].failure.is_some());
    let joining = client.context().served_routers(served).remove(0);
    assert_eq!(joining.failure.expect("it was there").to_string(), format!("{refused}: no"));
    router.desk().refuses = None;
    session(&mut client, group);
    until(&mut client, |it| it.context().served_routers(served)[0].is_member);
    // A process that is no router, and one that is not there.
    let other = crate::common::node(Some(localhost()));
    let listens = other.local_address().expect("it listens");
    let nobody = SocketAddr::new(localhost(), 1);
    let group = open(&mut client, &[listens, nobody]);
    until(&mut client, |it| at(it, group).iter().all(|at| at.failure.is_some()));
    let errors: Vec<_> = at(&mut client, group).into_iter().map(|at| at.failure).collect();
    let errors: Vec<_> = errors.into_iter().flatten().map(|failure| failure.error).collect();
    let none = SessionError::RefusedBy(RefuseCode::NoSuchEndpoint);
    assert_eq!(errors, [none, SessionError::Refused]);
}

#[test]
fn settings_that_cannot_be_meant_are_refused() {
    let node = node(None);
    let mut client = client(&node, localhost());
    let open = |client: &mut Endpoint<Outcomes>, routers: usize, asked_max| {
        let routers = (0..routers).map(|at| SocketAddr::new(localhost(), 1 + at as u16)).collect();
        client.open_group(&GroupConfig { routers, asked_max, ..GroupConfig::default() })
    };
    assert_eq!(open(&mut client, 0, 1), Err(GroupOpenError::Routers));
    assert_eq!(open(&mut client, 9, 1), Err(GroupOpenError::Routers));
    assert_eq!(open(&mut client, 1, 0), Err(GroupOpenError::OutOfRange("asked_max")));
    let routers = vec![SocketAddr::new(localhost(), 1)];
    let config = ServeConfig { bound: 4096, routers, ..ServeConfig::default() };
    assert_eq!(client.serve_group(&config), Err(GroupOpenError::OutOfRange("bound")));
    for _ in 0..64 {
        open(&mut client, 1, 1).expect("there is room");
    }
    assert_eq!(open(&mut client, 1, 1), Err(GroupOpenError::TooMany));
    client.detach();
    assert_eq!(open(&mut client, 1, 1), Err(GroupOpenError::NotAttached));
}

#[test]
fn rt38_calls_go_by_the_active_router_with_the_greatest_term() {
    let _watchdog = watchdog("several routers");
    let routers = [Router::new(), Router::new(), Router::new()];
    let node = node(None);
    let mut client = client(&node, localhost());
    // The third is told of by the first.
    let group = open(&mut client, &[routers[0].address, routers[1].address]);
    routers.iter().for_each(|router| router.tell_members(&[(1, Some(4001))]));
    session(&mut client, group);
    routers[0].tell(Told::Routers(routers.iter().map(|router| router.address).collect()));
    until(&mut client, |it| at(it, group).iter().filter(|at| at.is_member).count() == 3);
    let by = |client: &mut Endpoint<Outcomes>| client.context().group_session(group);
    let says = |router: &Router, is_active, term| {
        router.tell(Told::Active(Active { is_active, term }));
    };
    says(&routers[1], true, 5);
    until(&mut client, |it| at(it, group)[1].is_active);
    let second = by(&mut client);
    says(&routers[2], true, 4);
    until(&mut client, |it| at(it, group)[2].is_active);
    assert_eq!(by(&mut client), second, "a smaller term changes nothing");
    says(&routers[2], true, 5);
    until(&mut client, |it| it.context().group_session(group) != second);
    let third = by(&mut client);
    // It drains: the second is the best that does not.
    routers[2].node.drain();
    until(&mut client, |it| it.context().group_session(group) == second);
    // Its connection ends as well.
    let [first, gone, _third] = routers;
    let of_first = at(&mut client, group)[0].router;
    assert_eq!(of_first, first.address);
    drop(gone);
    until(&mut client, |it| !matches!(it.context().group_session(group), it if it == second));
    assert!(by(&mut client).is_some() && by(&mut client) != third);
}

#[test]
fn rt34_rt36_workers_know_clients_from_before_and_after_and_confirm_epochs_together() {
    let _watchdog = watchdog("joined");
    let router = Router::new();
    router.tell_clients([(5, true), (6, true)].into_iter());
    let node = node(None);
    let mut workers = [client(&node, localhost()), client(&node, localhost())];
    let served = workers.each_mut().map(|worker| serve(worker, &[router.address]));
    let peers =
        |worker: &mut Endpoint<Outcomes>, served| worker.context().served_routers(served)[0].peers;
    for (worker, served) in workers.iter_mut().zip(served) {
        until(worker, |it| peers(it, served) == 2);
    }
    let is_zero = |said: &Said| *said == Said::Heard(0);
    until(&mut workers[0], |_| router.heard(is_zero) > 0);
    router.tell_clients([(5, false), (7, true), (8, true)].into_iter());
    for (worker, served) in workers.iter_mut().zip(served) {
        until(worker, |it| peers(it, served) == 3);
    }
    // An epoch is confirmed once both take it.
    router.tell(Told::Epoch { client: None, epoch: epoch(1) });
    let heard = |router: &Router| router.heard(|said| *said == Said::Heard(1));
    workers[0].run_for(Duration::from_millis(50), |_, _| false);
    assert_eq!(heard(&router), 0, "the other has not turned");
    workers[1].run_for(Duration::from_millis(20), |_, _| false);
    until(&mut workers[0], |_| heard(&router) == 1);
    // One has to leave, and joins anew, under other numbers.
    let joins: Vec<_> = router.desk().said.iter().filter(|said| is_join(said)).cloned().collect();
    let Said::Join { worker, tag, .. } = joins[0] else { panic!("it is one") };
    router.desk().epoch = 1;
    router.expel(Member::Worker(worker));
    until(&mut workers[0], |_| router.heard(is_join) == 3);
    let joins: Vec<_> = router.desk().said.iter().filter(|said| is_join(said)).cloned().collect();
    let Said::Join { worker: later, tag: other, .. } = joins[2] else { panic!("it is one") };
    assert!(later != worker && other != tag);
    until(&mut workers[0], |it| peers(it, served[0]) == 3);
    // They leave.
    workers[0].leave_served(served[0]);
    assert!(workers[0].context().served_routers(served[0]).is_empty());
    let left = |said: &Said| *said == Said::Left(Member::Worker(later));
    until(&mut workers[1], |_| router.heard(left) == 1);
}

#[test]
fn rt35_a_worker_joins_anew_over_the_next_connection() {
    let _watchdog = watchdog("joined anew");
    let router = Router::new();
    let proxy = Proxy::to(router.address);
    let node = node(None);
    let mut worker = client(&node, localhost());
    let served = serve(&mut worker, &[proxy.address]);
    let is_member = |it: &mut Endpoint<Outcomes>| it.context().served_routers(served)[0].is_member;
    until(&mut worker, is_member);
    for times in 2..7 {
        proxy.cut();
        until(&mut worker, |_| router.heard(is_join) == times);
        until(&mut worker, |it| {
            is_member(it) && it.context().served_routers(served)[0].failure.is_none()
        });
    }
}

#[test]
fn a_group_that_is_not_sealed_over_tls_is_refused() {
    let _watchdog = watchdog("not sealed");
    let authority = Authority::new("one");
    let tls = |pem: Pem| TlsConfig { credentials: Credentials::Pem(pem), allow: None };
    let router = Router::with(Some(tls(authority.pem("router.test"))), 1);
    let config = NodeConfig { tls: Some(tls(authority.pem("client.test"))), ..Default::default() };
    let node = Node::start(config).expect("threads are to be had");
    let mut client = client(&node, localhost());
    let group = open(&mut client, &[router.address]);
    until(&mut client, |it| at(it, group)[0].failure.is_some());
    let failure = at(&mut client, group).remove(0).failure.expect("it was there");
    assert!(failure.detail.contains("sealed"), "{failure}");
    until(&mut client, |_| router.heard(|said| matches!(said, Said::Left(_))) > 0);
    assert!(client.context().group_session(group).is_none());
}

#[test]
fn rt35_an_attachment_that_was_ended_waits_for_the_next_one_for_two_seconds() {
    let _watchdog = watchdog("ended");
    let router = Router::new();
    router.tell_members(&[(1, Some(4001))]);
    let node = node(None);
    let mut client = client(&node, localhost());
    let group = open(&mut client, &[router.address]);
    let first = session(&mut client, group);
    let Said::Attach { client: number, .. } = router.desk().said[0] else { panic!("it is one") };
    router.expel(Member::Client(number));
    until(&mut client, |it| it.context().group_session(group) != Some(first));
    session(&mut client, group);
    // The process ends on purpose: nothing is left of it soon.
    drop(router);
    let clock = petasos_endpoint::Clock::system();
    let begun = clock.now();
    until(&mut client, |it| it.context().group_session(group).is_none());
    assert!(clock.now() - begun < Duration::from_secs(9), "sooner than after a break");
}

#[test]
fn a_worker_serves_at_eight_routers_and_no_more() {
    let _watchdog = watchdog("eight routers");
    let node = node(None);
    let mut worker = client(&node, localhost());
    let at = |ports: core::ops::Range<u16>| {
        let routers = ports.map(|port| SocketAddr::new(localhost(), port)).collect();
        ServeConfig { routers, ..ServeConfig::default() }
    };
    worker.serve_group(&at(1..6)).expect("there is room");
    assert_eq!(worker.serve_group(&at(6..10)), Err(GroupOpenError::TooMany));
    worker.serve_group(&at(6..9)).expect("there is room");
    // Nobody listens there: it asks again, and again.
    worker.run_for(Duration::from_millis(500), |_, _| false);
}

#[test]
fn rt34_a_router_that_is_reached_by_two_addresses_has_one_membership() {
    let _watchdog = watchdog("two addresses");
    let router = Router::new();
    router.desk().same_worker = Some(7);
    let proxy = Proxy::to(router.address);
    let node = node(None);
    let mut worker = client(&node, localhost());
    let served = serve(&mut worker, &[router.address, proxy.address]);
    until(&mut worker, |_| router.heard(is_join) == 2);
    worker.run_for(Duration::from_millis(300), |_, _| false);
    assert_eq!(router.heard(is_join), 2, "the second stands");
    let members = |it: &mut Endpoint<Outcomes>| {
        it.context().served_routers(served).iter().filter(|at| at.is_member).count()
    };
    assert_eq!(members(&mut worker), 1);
    // It ends: the other address is asked again.
    proxy.set(Mode::Closed);
    proxy.cut();
    router.node.turn_router();
    until(&mut worker, |_| router.heard(is_join) > 2);
    until(&mut worker, |it| members(it) == 1);
}

#[test]
fn rt30_an_epoch_is_confirmed_although_a_worker_left_before_it_took_it() {
    let _watchdog = watchdog("left before");
    let router = Router::new();
    let node = node(None);
    let mut worker = client(&node, localhost());
    let mut other = client(&node, localhost());
    let served = serve(&mut worker, &[router.address]);
    let also = serve(&mut other, &[router.address]);
    until(&mut worker, |it| it.context().served_routers(served)[0].is_member);
    until(&mut other, |it| it.context().served_routers(also)[0].is_member);
    router.tell(Told::Epoch { client: None, epoch: epoch(1) });
    worker.run_for(Duration::from_millis(100), |_, _| false);
    let heard = |said: &Said| *said == Said::Heard(1);
    assert_eq!(router.heard(heard), 0, "the other has not turned");
    drop(other);
    until(&mut worker, |_| router.heard(heard) == 1);
    // One that joins with a newer epoch brings it to all of the connection.
    router.desk().epoch = 2;
    let mut third = client(&node, localhost());
    let of_third = serve(&mut third, &[router.address]);
    until(&mut third, |it| it.context().served_routers(of_third)[0].is_member);
    until(&mut worker, |_| router.heard(|said| *said == Said::Heard(2)) == 1);
}

#[test]
fn rt38_a_router_whose_packets_are_not_answered_is_left() {
    let _watchdog = watchdog("not answered");
    // Nobody reads the sockets of these routers.
    let routers = [Router::new(), Router::new()];
    routers[0].desk().active = Some(1);
    let node = node(None);
    let mut client = client(&node, localhost());
    let group = open(&mut client, &[routers[0].address, routers[1].address]);
    routers.iter().for_each(|router| router.tell_members(&[(1, Some(4001))]));
    until(&mut client, |it| at(it, group).iter().all(|at| at.peers == 1));
    let active = session(&mut client, group);
    let call = |client: &mut Endpoint<Outcomes>, session| {
        let request = petasos_endpoint::MsgBuf::from_slice(&[7; 8]);
        let settings = petasos_endpoint::CallSettings::default();
        let routing = petasos_endpoint::Routing::default();
        let cx = client.context();
        let call = cx.enqueue_routed(session, ECHO, request, collect, 0, &settings, routing);
        call.expect("there is room");
    };
    (0..2).for_each(|_| call(&mut client, active));
    until(&mut client, |it| it.state().list.len() == 2);
    assert_eq!(client.context().group_session(group), Some(active), "two may be lost");
    client.run_for(Duration::from_millis(2500), |_, _| false);
    (0..3).for_each(|_| call(&mut client, active));
    until(&mut client, |it| it.context().group_session(group) != Some(active));
    let other = session(&mut client, group);
    // That one does not answer either: there is no better one.
    (0..3).for_each(|_| call(&mut client, other));
    until(&mut client, |it| it.state().list.len() == 8);
    client.run_for(Duration::from_millis(50), |_, _| false);
    assert!(client.context().group_session(group).is_some());
}
