//! Who may attach and join, and what is bounded (RT28, RT32, RT34, RT39).

use std::net::SocketAddr;
use std::time::Duration;

use petasos_endpoint::{RefuseCode, SessionError};
use petasos_router_control::{
    EpochTimes, GroupSettings, GroupSnapshot, PlaneConfig, StartError, Workers,
};

use crate::operate::snapshot;
use crate::world::{LOCALHOST, Router, Wire, client, node, patient, socket, until, worker};

fn failure(at: &[petasos_endpoint::AtRouter]) -> Option<(SessionError, String)> {
    at[0].failure.as_ref().map(|failure| (failure.error.clone(), failure.detail.clone()))
}

#[test]
fn rt39_one_peer_has_half_of_the_clients_at_most() {
    let plane = PlaneConfig { clients_max: 8, ..PlaneConfig::default() };
    let router = Router::start(GroupSettings { plane, ..GroupSettings::default() });
    // All of these come from one address.
    let mut clients: Vec<_> = (0..5).map(|_| client(&[router.address])).collect();
    let is_in = |it: &mut crate::world::Member<_>| it.session().is_some();
    until(&mut clients, &mut [], |clients, _| {
        clients.iter_mut().filter_map(|it| is_in(it).then_some(())).count() == 4
            && router.service.refused().0 > 0
    });
    let refused = clients.iter_mut().position(|it| !is_in(it)).expect("it is one");
    let mut reason = None;
    until(&mut clients, &mut [], |clients, _| {
        let group = clients[refused].group;
        reason = failure(&clients[refused].endpoint.context().group_routers(group));
        reason.is_some()
    });
    let (error, _) = reason.expect("it was refused");
    assert_eq!(error, SessionError::RefusedBy(RefuseCode::QuotaUsedUp));
    // One that leaves makes room.
    let leaving = (0..5).find(|at| *at != refused).expect("there are five");
    clients.swap_remove(leaving);
    until(&mut clients, &mut [], |clients, _| clients.iter_mut().all(is_in));
}

#[test]
fn rt34_workers_that_are_not_allowed_or_too_narrow_are_refused_in_words() {
    let workers = Workers { allowed: Some(vec!["worker.test".into()]), primaries: None };
    let router = Router::start(GroupSettings { workers, ..GroupSettings::default() });
    let plane = PlaneConfig { payload_bytes: 65_000, ..PlaneConfig::default() };
    let wide = Router::start(GroupSettings { plane, ..GroupSettings::default() });
    let mut workers = vec![worker(&[router.address]), worker(&[wide.address])];
    let at = |it: &mut crate::world::Member<petasos_endpoint::ServedGroupId>| {
        let group = it.group;
        failure(&it.endpoint.context().served_routers(group))
    };
    until(&mut [], &mut workers, |_, workers| workers.iter_mut().all(|it| at(it).is_some()));
    let (error, detail) = at(&mut workers[0]).expect("it was refused");
    assert_eq!(error, SessionError::RefusedBy(RefuseCode::NotAuthorised));
    assert_eq!(detail, "it may not be a worker");
    let (error, detail) = at(&mut workers[1]).expect("it was refused");
    assert_eq!(error, SessionError::RefusedBy(RefuseCode::IncompatibleParameters));
    assert!(detail.contains("payload_bytes_max") && detail.contains("65000"), "{detail}");
    assert!(router.service.refused().1 > 0 && wide.service.refused().1 > 0);
}

/// RT32: the payload size is the group's, and who cannot have it is told.
#[test]
fn rt32_a_client_that_is_too_narrow_is_refused() {
    let plane = PlaneConfig { payload_bytes: 65_000, ..PlaneConfig::default() };
    let wide = Router::start(GroupSettings { plane, ..GroupSettings::default() });
    let mut clients = vec![client(&[wide.address])];
    let mut reason = None;
    until(&mut clients, &mut [], |clients, _| {
        let group = clients[0].group;
        reason = failure(&clients[0].endpoint.context().group_routers(group));
        reason.is_some()
    });
    let (error, _) = reason.expect("it was refused");
    assert_eq!(error, SessionError::RefusedBy(RefuseCode::IncompatibleParameters));
    assert!(wide.service.refused().0 > 0 && clients[0].session().is_none());
}

#[test]
fn rt30_calls_go_on_across_epochs_and_numbers_come_back() {
    let epochs =
        EpochTimes { epoch: Duration::from_millis(2300), overlap: Duration::from_millis(200) };
    let plane = PlaneConfig { clients_max: 4, ..PlaneConfig::default() };
    let outlive = Duration::from_millis(100);
    let settings = GroupSettings { epochs, plane, outlive, ..GroupSettings::default() };
    let router = Router::start(settings);
    let wire = Wire::to(router.address);
    let mut clients = vec![client(&[wire.address])];
    let mut workers = vec![worker(&[router.address])];
    let mut made = 0u64;
    // Each round uses a number of a client, of which there are four: they come back two epochs
    // later. The first calls of a client wait for the worker to be admitted.
    for round in 1..=6 {
        let before = clients[0].session();
        wire.cut();
        until(&mut clients, &mut workers, |clients, _| {
            let state = clients[0].endpoint.state();
            let (answered, failed) = (state.answered, state.errors.len() as u64);
            // A worker whose loop does not run for a lease is gone for a while.
            if made - failed < round * 100 {
                made += u64::from(clients[0].call(64, true));
            }
            answered == round * 100
        });
        until(&mut clients, &mut workers, |clients, _| clients[0].session() != before);
    }
}

#[test]
fn rt30_who_has_not_confirmed_the_epoch_of_requests_gets_none() {
    let epochs =
        EpochTimes { epoch: Duration::from_millis(2300), overlap: Duration::from_millis(200) };
    let router = Router::start(GroupSettings { epochs, ..patient() });
    let operator = router.service.operator();
    let mut clients = [client(&[router.address])];
    let mut workers = [worker(&[router.address]), worker(&[router.address])];
    until(&mut clients, &mut workers, |clients, _| clients[0].peers() == 2);
    let late = workers[1].endpoint.local_address();
    let is_held = |seen: &GroupSnapshot| {
        let late = seen.workers.iter().find(|it| it.address == late);
        late.expect("it is there").state.is_held_back
    };
    until(&mut clients, &mut workers, |_, _| !is_held(&snapshot(&operator)));
    // The loop of one stands, and so confirms nothing. It has nothing to do, so nobody misses it.
    let (_, begun) = snapshot(&operator).epoch;
    until(&mut clients, &mut workers[..1], |_, _| {
        let seen = snapshot(&operator);
        assert!(!is_held(&seen) || seen.epoch.1 > begun, "as long as the epoch is its own");
        is_held(&seen)
    });
    let handled = workers[1].endpoint.state().handled;
    let mut made = 0;
    until(&mut clients, &mut workers[..1], |clients, _| {
        made += u64::from(made < 100 && clients[0].call(64, false));
        clients[0].endpoint.state().answered == 100
    });
    assert_eq!(clients[0].endpoint.state().errors, []);
    until(&mut clients, &mut workers, |_, _| !is_held(&snapshot(&operator)));
    assert_eq!(workers[1].endpoint.state().handled, handled, "nothing was given to it");
    until(&mut clients, &mut workers, |clients, workers| {
        clients[0].call(64, false);
        workers[1].endpoint.state().handled > handled
    });
}

#[test]
fn settings_that_cannot_be_meant_are_refused() {
    let start = |change: &dyn Fn(&mut GroupSettings)| {
        let mut settings = GroupSettings::default();
        change(&mut settings);
        let started = petasos_router_control::RouterService::start(&node(true), socket(), settings);
        started.expect_err("it is wrong").to_string()
    };
    assert_eq!(start(&|it| it.asked_max = 0), StartError::OutOfRange("asked_max").to_string());
    assert_eq!(start(&|it| it.hole_us = 0), StartError::OutOfRange("hole_us").to_string());
    let nine = vec![SocketAddr::new(LOCALHOST, 1); 9];
    let routers = start(&|it| it.routers.clone_from(&nine));
    assert_eq!(routers, StartError::OutOfRange("routers").to_string());
    let short = start(&|it| it.epochs.epoch = it.epochs.overlap);
    assert_eq!(short, StartError::OutOfRange("epochs").to_string());
    assert_eq!(start(&|it| it.plane.payload_bytes = 10), "a payload has 1024 to 65,000 bytes");
}

#[test]
fn rt39_attaching_and_leaving_without_end_uses_up_nobody_elses_numbers() {
    let plane = PlaneConfig { clients_max: 8, ..PlaneConfig::default() };
    let epochs =
        EpochTimes { epoch: Duration::from_millis(2300), overlap: Duration::from_millis(200) };
    let router = Router::start(GroupSettings { plane, epochs, ..GroupSettings::default() });
    // Four are held back, which is this address' half.
    for _ in 0..4 {
        let mut clients = vec![client(&[router.address])];
        until(&mut clients, &mut [], |clients, _| clients[0].session().is_some());
    }
    let mut clients = vec![client(&[router.address])];
    until(&mut clients, &mut [], |_, _| router.service.refused().0 > 0);
    assert!(clients[0].session().is_none());
    // Refusing it has made the next epochs begin, which give numbers back.
    until(&mut clients, &mut [], |clients, _| clients[0].session().is_some());
}

#[test]
fn rt34_a_worker_of_a_full_group_joins_anew() {
    let mut plane = PlaneConfig::default();
    plane.core.workers_max = 2;
    let router = Router::start(GroupSettings { plane, ..GroupSettings::default() });
    let wire = Wire::to(router.address);
    // One address may have half of the places.
    let mut workers = vec![worker(&[wire.address])];
    until(&mut [], &mut workers, |_, workers| workers[0].is_member());
    let mut second = worker(&[router.address]);
    until(&mut [], &mut workers, |_, _| {
        second.endpoint.run_once();
        router.service.refused().1 > 0
    });
    drop(second);
    for _ in 0..3 {
        wire.cut();
        // It notices, and joins.
        let clock = petasos_endpoint::Clock::system();
        let end = clock.now() + Duration::from_millis(150);
        until(&mut [], &mut workers, |_, _| clock.now() > end);
        until(&mut [], &mut workers, |_, workers| workers[0].is_member());
    }
}

#[test]
fn rt5_another_primary_takes_over_when_one_leaves() {
    use petasos_endpoint::RoutePolicy;
    let router = Router::start(GroupSettings::default());
    let mut clients = vec![client(&[router.address])];
    let primary = || crate::world::worker_that(&[router.address], |it| it.is_primary = true);
    let mut workers = vec![worker(&[router.address]), primary()];
    until(&mut clients, &mut workers, |clients, _| clients[0].peers() == 2);
    let call = |client: &mut crate::world::Member<_>| client.call_by(RoutePolicy::Primary);
    let answered = |clients: &[crate::world::Member<petasos_endpoint::GroupId>]| {
        clients[0].endpoint.state().answered
    };
    let mut wanted = 0;
    let mut primaries_answer = |clients: &mut Vec<_>, workers: &mut Vec<_>, count: u64| {
        wanted += count;
        until(clients, workers, |clients, _| {
            let failed = clients[0].endpoint.state().errors.len() as u64;
            let made = clients[0].made;
            if made - failed < wanted {
                clients[0].made += u64::from(call(&mut clients[0]));
            }
            answered(clients) == wanted
        });
    };
    primaries_answer(&mut clients, &mut workers, 20);
    assert_eq!(workers[0].endpoint.state().handled, 0, "only the primary has them");
    // A second one takes its place; when that leaves, the first is it again.
    workers.push(primary());
    until(&mut clients, &mut workers, |clients, _| clients[0].peers() == 3);
    primaries_answer(&mut clients, &mut workers, 20);
    let second = workers.pop().expect("it is there");
    drop(second);
    until(&mut clients, &mut workers, |clients, _| clients[0].peers() == 2);
    primaries_answer(&mut clients, &mut workers, 20);
    assert_eq!(workers[0].endpoint.state().handled, 0);
}
