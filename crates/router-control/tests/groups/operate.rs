//! What operators see and change while calls run.

use std::sync::mpsc::channel;
use std::time::Duration;

use petasos_endpoint::{GroupConfig, GroupId, RefuseCode, SessionError};
use petasos_router_control::{
    Active, ClientSnapshot, GroupSettings, GroupSnapshot, MemberSettings, Operator, PlaneConfig,
    WorkerChange, Workers,
};

use crate::world::{Member, Router, Wire, client, client_with, until, worker};

const PATIENCE: Duration = Duration::from_secs(30);

pub fn snapshot(of: &Operator) -> GroupSnapshot {
    let (tell, told) = channel();
    of.snapshot(move |snapshot| tell.send(snapshot).expect("it is waited for"));
    told.recv_timeout(PATIENCE).expect("the router answers")
}

fn clients(of: &Operator, after: Option<u32>, most: usize) -> (Vec<ClientSnapshot>, bool) {
    let (tell, told) = channel();
    of.clients((after, most), move |all, more| tell.send((all, more)).expect("it is waited for"));
    told.recv_timeout(PATIENCE).expect("the router answers")
}

pub fn change(of: &Operator, worker: u16, change: WorkerChange) -> bool {
    let (tell, told) = channel();
    of.change_worker(worker, change, move |is_there| tell.send(is_there).expect("it is waited"));
    told.recv_timeout(PATIENCE).expect("the router answers")
}

/// So many calls more, of which none fails.
fn calls(
    clients: &mut [Member<petasos_endpoint::GroupId>],
    workers: &mut [Member<petasos_endpoint::ServedGroupId>],
    count: u64,
) {
    let answered = clients[0].endpoint.state().answered;
    let mut made = 0;
    until(clients, workers, |clients, _| {
        made += u64::from(made < count && clients[0].call(32, false));
        clients[0].endpoint.state().answered == answered + count
    });
    assert_eq!(clients[0].endpoint.state().errors, []);
}

#[test]
fn a_drained_worker_gets_nothing_also_when_it_has_joined_anew_and_no_call_fails() {
    let router = Router::start(GroupSettings::default());
    let operator = router.service.operator();
    let wire = Wire::to(router.address);
    let mut workers = [worker(&[wire.address]), worker(&[router.address])];
    let mut callers = [client(&[router.address])];
    until(&mut callers, &mut workers, |callers, _| callers[0].peers() == 2);
    calls(&mut callers, &mut workers, 200);
    let own = workers[0].endpoint.local_address();
    let number = |snapshot: &GroupSnapshot| {
        let is_it = |it: &&petasos_router_control::WorkerSnapshot| it.address == own;
        snapshot.workers.iter().find(is_it).map(|it| (it.worker, it.state))
    };
    let (first, state) = number(&snapshot(&operator)).expect("it is there");
    assert!(!state.is_draining && state.bound == 8 && !state.is_lost);
    assert!(change(&operator, first, WorkerChange::Drain(true)));
    assert!(change(&operator, first, WorkerChange::Weight(40)));
    assert!(!change(&operator, 999, WorkerChange::Drain(true)));
    let handled = workers[0].endpoint.state().handled;
    calls(&mut callers, &mut workers, 200);
    assert_eq!(workers[0].endpoint.state().handled, handled);
    // Its connection breaks, and it joins anew by the same number.
    wire.cut();
    until(&mut callers, &mut workers, |_, _| {
        number(&snapshot(&operator)).is_some_and(|(_, state)| state.is_lost)
    });
    until(&mut callers, &mut workers, |_, _| {
        number(&snapshot(&operator)).is_some_and(|(_, state)| !state.is_lost && !state.is_held_back)
    });
    let (again, state) = number(&snapshot(&operator)).expect("it is there");
    assert!(again == first && state.is_draining && state.weight == 40, "{again} {state:?}");
    calls(&mut callers, &mut workers, 50);
    assert_eq!(workers[0].endpoint.state().handled, handled);
    assert!(change(&operator, first, WorkerChange::Drain(false)));
    calls(&mut callers, &mut workers, 200);
    assert!(workers[0].endpoint.state().handled > handled);
    let seen = snapshot(&operator);
    assert!(seen.stats.given >= 650 && seen.counts.feedback > 0, "{seen:?}");
    assert_eq!(seen.clients, 1);
    // Copies of what was answered may wait a while: a slow answer makes its caller ask again.
    until(&mut callers, &mut workers, |_, _| {
        let seen = snapshot(&operator);
        (seen.waiting, seen.waiting_bytes) == (0, 0)
    });
}

#[test]
fn settings_change_while_calls_run_and_wrong_ones_do_not() {
    let plane = PlaneConfig { clients_max: 8, ..PlaneConfig::default() };
    let router = Router::start(GroupSettings { plane, ..GroupSettings::default() });
    let operator = router.service.operator();
    let mut workers = vec![worker(&[router.address])];
    let mut callers = vec![client(&[router.address]), client(&[router.address])];
    until(&mut callers, &mut workers, |callers, _| callers.iter_mut().all(|it| it.peers() == 1));
    let adjust = |policy: &'static str, waiting_max: usize| {
        let (tell, told) = channel();
        let change = move |mut to: petasos_router_control::Adjustment| {
            to.policy = policy.parse().expect("it is a policy");
            to.waiting_max = waiting_max;
            to
        };
        operator.adjust(change, move |done| tell.send(done).expect("it is waited for"));
        told.recv_timeout(PATIENCE).expect("the router answers")
    };
    for policy in ["rr", "jbsq1", "random", "pl2", "jsq"] {
        let in_force = adjust(policy, 100).expect("it is right");
        assert_eq!((in_force.policy.to_string(), in_force.waiting_max), (policy.to_owned(), 100));
        calls(&mut callers, &mut workers, 50);
    }
    assert!(adjust("rr", 0).is_err());
    assert_eq!(snapshot(&operator).adjustment.policy.to_string(), "jsq");
    let (tell, told) = channel();
    let settings = MemberSettings {
        workers: Workers { allowed: Some(vec!["nobody".into()]), primaries: None },
        asked_max: 16,
        clients_max: 2,
        routers: Vec::new(),
    };
    operator.set_members(settings, move || tell.send(()).expect("it is waited for"));
    told.recv_timeout(PATIENCE).expect("the router answers");
    // The worker that is not allowed any more leaves, and is refused when it asks again.
    until(&mut callers, &mut workers, |_, workers| {
        let failure = workers[0].failure();
        failure.is_some_and(|(error, _)| matches!(error, SessionError::RefusedBy(_)))
    });
    assert_eq!(snapshot(&operator).workers.len(), 0);
    let (error, _) = workers[0].failure().expect("it was refused");
    assert_eq!(error, SessionError::RefusedBy(RefuseCode::NotAuthorised));
    callers.push(client(&[router.address]));
    until(&mut callers, &mut workers, |_, _| snapshot(&operator).refused.0 > 0);
    let (listed, has_more) = clients(&operator, None, 1);
    assert!(listed.len() == 1 && has_more && listed[0].peer.is_some(), "{listed:?}");
    let (rest, has_more) = clients(&operator, Some(listed[0].client), 10);
    assert!(rest.len() == 1 && !has_more);
    let sum: u64 = listed.iter().chain(&rest).map(|it| it.counts.requests).sum();
    assert!(sum >= 250, "{listed:?} {rest:?}");
    assert_eq!(clients(&operator, Some(u32::MAX), 10), (Vec::new(), false));
}

#[test]
fn nobody_waits_for_a_router_that_has_ended() {
    let router = Router::start(GroupSettings::default());
    let operator = router.service.operator();
    drop(router);
    let (tell, told) = channel::<()>();
    let other = tell.clone();
    operator.snapshot(move |_| tell.send(()).expect("it is waited for"));
    operator.change_worker(1, WorkerChange::Drain(true), move |_| {
        other.send(()).expect("it is waited for");
    });
    assert!(told.recv_timeout(PATIENCE).is_err_and(|it| !matches!(it, TIMEOUT)), "it is dropped");
}

const TIMEOUT: std::sync::mpsc::RecvTimeoutError = std::sync::mpsc::RecvTimeoutError::Timeout;

#[test]
fn rt36_clients_are_told_which_router_is_active_when_that_changes() {
    let standby = Active { is_active: false, term: 0 };
    let settings = || GroupSettings { active: standby, ..GroupSettings::default() };
    let routers = [Router::start(settings()), Router::start(settings())];
    let addresses: Vec<_> = routers.iter().map(|router| router.address).collect();
    let mut callers = [client(&addresses)];
    let mut workers = [worker(&addresses)];
    let at = |callers: &mut [Member<GroupId>]| {
        let group = callers[0].group;
        let at = callers[0].endpoint.context().group_routers(group);
        at.iter().map(|at| (at.is_connected && at.peers == 1, at.term)).collect::<Vec<_>>()
    };
    until(&mut callers, &mut workers, |callers, _| at(callers) == [(true, 0), (true, 0)]);
    let say = |router: usize, is_active, term| {
        let (tell, told) = channel();
        let operator = routers[router].service.operator();
        operator.set_active(Active { is_active, term }, move || tell.send(()).expect("waited"));
        told.recv_timeout(PATIENCE).expect("the router answers");
    };
    // Each is the active one in turn, for a while both; calls go by that of the higher term.
    for term in 1..8 {
        let router = term as usize % 2;
        say(router, true, term);
        until(&mut callers, &mut workers, |callers, _| at(callers)[router] == (true, term));
        let used = callers[0].endpoint.context().group_router(callers[0].group);
        assert_eq!(used, Some(addresses[router]), "term {term}");
        calls(&mut callers, &mut workers, 20);
        say(1 - router, false, term);
        until(&mut callers, &mut workers, |callers, _| at(callers)[1 - router] == (true, 0));
        let used = callers[0].endpoint.context().group_router(callers[0].group);
        assert_eq!(used, Some(addresses[router]), "term {term}");
    }
    assert_eq!(snapshot(&routers[1].service.operator()).active, (true, 7));
}

#[test]
fn rt38_calls_that_do_not_move_wait_for_no_router_that_another_has_overtaken() {
    let active = |term| Active { is_active: term > 0, term };
    let settings = |term| GroupSettings { active: active(term), ..GroupSettings::default() };
    let (cut_off, other) = (Router::start(settings(1)), Router::start(settings(0)));
    let fixed = |routers| GroupConfig { routers, moves_calls: false, ..GroupConfig::default() };
    // The second one knows only the router that is cut off.
    let mut callers = [
        client_with(&fixed(vec![cut_off.address, other.address])),
        client_with(&fixed(vec![cut_off.address])),
    ];
    let mut workers = [worker(&[cut_off.address]), worker(&[other.address])];
    let is_used = |callers: &mut [Member<GroupId>], caller: usize, by: &Router| {
        let group = callers[caller].group;
        callers[caller].endpoint.context().group_router(group) == Some(by.address)
    };
    until(&mut callers, &mut workers, |callers, _| {
        let knows = callers[0].endpoint.context().group_routers(callers[0].group);
        knows.iter().all(|at| at.peers == 1)
            && callers[1].peers() == 1
            && (0..2).all(|caller| is_used(callers, caller, &cut_off))
    });
    // Nothing answers any more: the worker's loop is not run. The second one asks first.
    assert!(callers[1].call(32, false) && callers[0].call(32, false));
    let ended = |caller: &Member<GroupId>| caller.endpoint.state().errors.len();
    let (tell, told) = channel();
    let operator = other.service.operator();
    operator.set_active(active(2), move || tell.send(()).expect("waited"));
    told.recv_timeout(PATIENCE).expect("the router answers");
    until(&mut callers, &mut [], |callers, _| {
        // By itself a call ends when nothing has come for 2 s (RT13).
        assert!(ended(&callers[1]) <= ended(&callers[0]), "it waits as long as the other one");
        ended(&callers[1]) == 1
    });
    assert!(is_used(&mut callers, 0, &other) && is_used(&mut callers, 1, &cut_off));
    assert!(callers[0].endpoint.state().errors[0].retry_is_safe());
}

#[test]
fn a_client_that_hears_of_no_others_attaches_where_it_was_told_to() {
    let other = Router::start(GroupSettings::default());
    let routers = vec![other.address];
    let router = Router::start(GroupSettings { routers, ..GroupSettings::default() });
    let named = client(&[router.address]);
    let config = GroupConfig {
        routers: vec![router.address],
        hears_of_others: false,
        ..GroupConfig::default()
    };
    let alone = client_with(&config);
    let mut clients = [named, alone];
    let attached = |client: &mut Member<GroupId>| {
        let group = client.group;
        let at = client.endpoint.context().group_routers(group);
        (at.len(), at.iter().filter(|at| at.is_connected).count())
    };
    until(&mut clients, &mut [], |clients, _| {
        attached(&mut clients[0]) == (2, 2) && attached(&mut clients[1]) == (1, 1)
    });
    // The other one has heard of the other router by now as well, since it was told the same.
    assert_eq!(snapshot(&other.service.operator()).clients, 1);
}

#[test]
fn a_worker_follows_a_name_that_leads_to_other_routers() {
    let routers = [1, 2, 3].map(|_| Router::start(GroupSettings::default()));
    let addresses = routers.each_ref().map(|router| router.address);
    let mut workers = [worker(&addresses[..2])];
    let (mut callers, mut is_asked) = ([client(&addresses)], false);
    let peers = |callers: &mut [Member<GroupId>]| {
        let group = callers[0].group;
        let at = callers[0].endpoint.context().group_routers(group);
        at.iter().map(|at| at.peers).collect::<Vec<_>>()
    };
    until(&mut callers, &mut workers, |callers, _| peers(callers) == [1, 1, 0]);
    let group = workers[0].group;
    // Nobody found is no news.
    workers[0].endpoint.set_served_routers(group, &[]);
    calls(&mut callers, &mut workers, 50);
    workers[0].endpoint.set_served_routers(group, &addresses[1..]);
    until(&mut callers, &mut workers, |callers, workers| {
        is_asked = workers[0].endpoint.context().served_routers(group).len() == 2;
        peers(callers) == [0, 1, 1]
    });
    assert!(is_asked, "it asks no router that it has left");
    calls(&mut callers, &mut workers, 50);
}
