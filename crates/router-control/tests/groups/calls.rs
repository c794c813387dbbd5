//! Calls to a group whose members have found each other by control connections only.

use std::time::Duration;

use petasos_router_control::GroupSettings;

use crate::world::{Router, Wire, client, patient, until, worker};

fn ready(
    clients: &mut [crate::world::Member<petasos_endpoint::GroupId>],
    workers: &mut [crate::world::Member<petasos_endpoint::ServedGroupId>],
) {
    let count = workers.len();
    until(clients, workers, |clients, workers| {
        clients.iter_mut().all(|it| it.peers() == count)
            && workers.iter_mut().all(|it| it.is_member())
    });
}

#[test]
fn calls_go_to_all_workers_and_their_answers_come_back() {
    let router = Router::start(GroupSettings::default());
    let mut clients: Vec<_> = (0..3).map(|_| client(&[router.address])).collect();
    let mut workers: Vec<_> = (0..4).map(|_| worker(&[router.address])).collect();
    ready(&mut clients, &mut workers);
    let mut made = 0;
    until(&mut clients, &mut workers, |clients, _| {
        // What has certainly not run is made again: claims lapse where loops are slow.
        let failed: usize = clients.iter().map(|it| it.endpoint.state().errors.len()).sum();
        for (at, client) in clients.iter_mut().enumerate() {
            if made - failed < 600 {
                let bytes = [0, 8, 1400, 1401, 20_000][made % 5];
                made += usize::from(client.call(bytes, (made + at) % 2 == 0));
            }
        }
        clients.iter().map(|it| it.endpoint.state().answered).sum::<u64>() == 600
    });
    let mut errors = clients.iter().flat_map(|it| &it.endpoint.state().errors);
    assert!(errors.all(|error| error.retry_is_safe()));
    assert!(workers.iter().all(|it| it.endpoint.state().handled > 0), "all have some");
    assert_eq!(router.service.refused(), (0, 0));
}

#[test]
fn rt35_calls_go_on_while_control_connections_break() {
    let router = Router::start(patient());
    let wire = Wire::to(router.address);
    let mut clients = vec![client(&[wire.address])];
    let mut workers: Vec<_> = (0..2).map(|_| worker(&[wire.address])).collect();
    ready(&mut clients, &mut workers);
    let mut made = 0u64;
    for cut in 1..=5 {
        let before = clients[0].session();
        wire.cut();
        until(&mut clients, &mut workers, |clients, _| {
            let state = clients[0].endpoint.state();
            // What has certainly not run is made again: claims lapse where loops are slow.
            let is_safe = |error: &petasos_endpoint::CallError| error.retry_is_safe();
            assert!(state.errors.iter().all(is_safe), "{:?}", state.errors);
            let (answered, failed) = (state.answered, state.errors.len() as u64);
            if made - failed < cut * 200 {
                made += u64::from(clients[0].call(64, made.is_multiple_of(2)));
            }
            answered == cut * 200
        });
        until(&mut clients, &mut workers, |clients, workers| {
            clients[0].session() != before
                && clients[0].peers() == 2
                && workers.iter_mut().all(|it| it.is_member())
        });
    }
    let handled: u64 = workers.iter().map(|it| it.endpoint.state().handled).sum();
    assert!(handled >= 1000, "{handled}");
}

#[test]
fn rt38_calls_go_on_by_another_router_when_one_ends() {
    let (first, second) =
        (Router::start(GroupSettings::default()), Router::start(GroupSettings::default()));
    let both = [first.address, second.address];
    let mut clients = vec![client(&both)];
    let mut workers: Vec<_> = (0..2).map(|_| worker(&both)).collect();
    until(&mut clients, &mut workers, |clients, workers| {
        let group = clients[0].group;
        let at = clients[0].endpoint.context().group_routers(group);
        at.iter().all(|at| at.peers == 2) && workers.iter_mut().all(|it| it.is_member())
    });
    let mut made = 0u64;
    let mut ended = Some(first);
    until(&mut clients, &mut workers, |clients, _| {
        if made < 2000 {
            made += u64::from(clients[0].call(64, true));
        }
        if made == 1000 {
            // Its packets end with it, and so do its control connections.
            ended = None;
        }
        let state = clients[0].endpoint.state();
        state.answered + state.errors.len() as u64 == 2000
    });
    let state = clients[0].endpoint.state();
    assert_eq!(state.errors, [], "calls that may run twice are repeated at the other router");
    drop(second);
}

#[test]
fn a_worker_that_drains_loses_nothing() {
    let router = Router::start(GroupSettings::default());
    let mut clients = vec![client(&[router.address])];
    let mut workers: Vec<_> = (0..2).map(|_| worker(&[router.address])).collect();
    ready(&mut clients, &mut workers);
    let mut made = 0;
    let mut run = |clients: &mut [_], workers: &mut [_], calls: u64| {
        let wanted = made + calls;
        until(clients, workers, |clients: &mut [crate::world::Member<_>], _| {
            if made < wanted {
                made += u64::from(clients[0].call(64, false));
            }
            let state = clients[0].endpoint.state();
            let errors = state.errors.iter().filter(|error| error.retry_is_safe()).count() as u64;
            state.answered + errors == wanted
        });
    };
    run(&mut clients, &mut workers, 300);
    let mut leaving = workers.remove(0);
    let id = leaving.group;
    leaving.endpoint.set_served_bound(id, 0).expect("it is served");
    workers.push(leaving);
    run(&mut clients, &mut workers, 300);
    let handled = workers[1].endpoint.state().handled;
    run(&mut clients, &mut workers, 300);
    assert_eq!(workers[1].endpoint.state().handled, handled, "it gets nothing more");
    workers[1].endpoint.shut_down(Duration::from_secs(5));
    let mut leaving = workers.remove(1);
    until(&mut clients, &mut workers, |clients, _| {
        leaving.endpoint.run_once();
        clients[0].peers() == 1
    });
    run(&mut clients, &mut workers, 100);
}
