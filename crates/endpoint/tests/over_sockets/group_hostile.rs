//! Routers that do what a router should not: they cost a member little, and no other anything.

use std::time::Duration;

use petasos_control::Epoch;
use petasos_endpoint::Endpoint;
use petasos_endpoint::group_router::Told;

use crate::common::*;
use crate::control_peers::Proxy;
use crate::group_desk::{Router, Said, epoch};
use crate::group_members::{at, is_attach, open, serve, session, until};

#[test]
fn rt39_who_grants_and_breaks_is_asked_less_and_less_often() {
    let _watchdog = watchdog("grants and breaks");
    let router = Router::new();
    let proxy = Proxy::to(router.address);
    let node = node(None);
    let mut client = client(&node, localhost());
    open(&mut client, &[proxy.address]);
    let clock = petasos_endpoint::Clock::system();
    let end = clock.now() + Duration::from_secs(3);
    let mut seen = 0;
    while clock.now() < end {
        client.run_for(Duration::from_millis(2), |_, _| false);
        let attached = router.heard(is_attach);
        if attached > seen {
            seen = attached;
            proxy.cut();
        }
    }
    assert!((3..12).contains(&seen), "{seen}: it was asked every 40 ms before");
}

#[test]
fn rt31_a_router_that_says_bind_anew_again_and_again_is_asked_less_and_less_often() {
    let _watchdog = watchdog("says bind anew");
    let router = Router::new();
    router.tell_members(&[]);
    let node = node(None);
    let mut client = client(&node, localhost());
    let group = open(&mut client, &[router.address]);
    session(&mut client, group);
    let clock = petasos_endpoint::Clock::system();
    let end = clock.now() + Duration::from_secs(3);
    let mut number = 0;
    while clock.now() < end {
        client.run_for(Duration::from_millis(2), |_, _| false);
        let attached = router.desk().said.iter().rev().find_map(|said| match said {
            Said::Attach { client, .. } => Some(*client),
            _ => None,
        });
        number += 1;
        let epoch = Epoch { binds_anew: true, ..epoch(number % 4096) };
        router.tell(Told::Epoch { client: attached, epoch });
    }
    let asked = router.heard(is_attach);
    assert!((3..12).contains(&asked), "{asked}");
    // There is one that calls go by, all the while.
    assert!(client.context().group_session(group).is_some());
}

#[test]
fn rt38_routers_that_are_told_of_are_heeded_once_a_second() {
    let _watchdog = watchdog("tells of many");
    let router = Router::new();
    router.tell_members(&[]);
    let victims = [0, 1].map(|_| {
        let listener = std::net::TcpListener::bind((localhost(), 0)).expect("loopback has ports");
        listener.set_nonblocking(true).expect("it is a socket");
        listener
    });
    let named = victims.each_ref().map(|it| vec![it.local_addr().expect("it is bound")]);
    let node = node(None);
    let mut client = client(&node, localhost());
    let group = open(&mut client, &[router.address]);
    session(&mut client, group);
    let clock = petasos_endpoint::Clock::system();
    let end = clock.now() + Duration::from_secs(3);
    while clock.now() < end {
        for routers in &named {
            router.tell(Told::Routers(routers.clone()));
            client.run_for(Duration::from_millis(5), |_, _| false);
        }
    }
    let dialled = victims.iter().flat_map(|it| core::iter::from_fn(|| it.accept().ok())).count();
    assert!((1..=6).contains(&dialled), "{dialled} connections to whom the router has named");
}

#[test]
fn rt39_what_a_router_tells_is_bounded() {
    let _watchdog = watchdog("tells much");
    let router = Router::new();
    router.tell_clients((0..20_000).map(|client| (client, true)));
    let node = node(None);
    let mut worker = client(&node, localhost());
    let served = serve(&mut worker, &[router.address]);
    let peers = |it: &mut Endpoint<Outcomes>| it.context().served_routers(served)[0].peers;
    until(&mut worker, |it| peers(it) == 16 * 1024);
    // Room comes back with those that go.
    router.tell_clients((0..10_000).map(|client| (client, false)));
    until(&mut worker, |it| peers(it) == 6384);
    let group = open(&mut worker, &[router.address]);
    let all: Vec<_> = (1..=2000).map(|at| (at, Some(4000 + at))).collect();
    router.tell_members(&all);
    until(&mut worker, |it| at(it, group)[0].peers == 1024);
}
