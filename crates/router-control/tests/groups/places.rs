//! Workers that the router names to callers that stay (RT37).

use std::collections::HashSet;
use std::net::SocketAddr;
use std::slice::from_mut;

use petasos_endpoint::{GroupId, Routing, ServedGroupId, SessionError};
use petasos_router_control::{GroupSettings, WorkerChange};

use crate::operate::{change, snapshot};
use crate::world::{LOCALHOST, Member, Router, client, until, worker_that};

/// The address at which a worker with this dial port is dialled.
fn dialled(port: u16) -> SocketAddr {
    SocketAddr::new(LOCALHOST, port)
}

fn place(
    client: &mut Member<GroupId>,
    routing: &Routing,
    avoid: Option<SocketAddr>,
) -> Result<SocketAddr, SessionError> {
    assert!(client.endpoint.place(client.group, routing, avoid), "the router can be asked");
    let mut placed = None;
    until(from_mut(client), &mut [], |clients, _| {
        let group = clients[0].group;
        placed = clients[0].endpoint.context().placed(group);
        placed.is_some()
    });
    placed.expect("it is told")
}

/// A group whose workers have these dial ports, the first as primary, and its client.
fn group(ports: &[Option<u16>]) -> (Router, Vec<Member<ServedGroupId>>, Member<GroupId>) {
    let router = Router::start(GroupSettings::default());
    let join = |(at, port): (usize, &Option<u16>)| {
        worker_that(&[router.address], |config| {
            (config.dial_port, config.is_primary) = (*port, at == 0);
        })
    };
    let mut workers: Vec<_> = ports.iter().enumerate().map(join).collect();
    let mut client = client(&[router.address]);
    let count = workers.len();
    until(from_mut(&mut client), &mut workers, |clients, workers| {
        clients[0].session().is_some()
            && clients[0].peers() == count
            && workers.iter_mut().all(|worker| worker.is_member())
    });
    (router, workers, client)
}

#[test]
fn rt37_workers_that_can_be_dialled_are_named_in_turn() {
    let (_router, mut workers, mut client) = group(&[Some(4001), None, Some(4003), Some(4004)]);
    let any = Routing::default();
    let all = HashSet::from([4001, 4003, 4004].map(dialled));
    let named: Vec<_> = (0..6).map(|_| place(&mut client, &any, None)).collect();
    let named: Vec<_> = named.into_iter().map(|it| it.expect("there are some")).collect();
    assert_eq!(HashSet::from_iter(named[..3].iter().copied()), all, "each once");
    assert_eq!(named[..3], named[3..], "and again");
    // One that has failed is not named again at once.
    for _ in 0..6 {
        let first = place(&mut client, &any, None).expect("there are some");
        assert_ne!(place(&mut client, &any, Some(first)), Ok(first));
    }
    // One that is gone is not named any more.
    drop(workers.remove(2));
    until(from_mut(&mut client), &mut [], |clients, _| clients[0].peers() == 3);
    let named: HashSet<_> = (0..6).filter_map(|_| place(&mut client, &any, None).ok()).collect();
    assert_eq!(named, HashSet::from([4001, 4004].map(dialled)));
}

#[test]
fn rt37_the_primary_and_keys_have_their_workers() {
    let (_router, _workers, mut client) = group(&[Some(4001), Some(4002), Some(4003)]);
    for _ in 0..3 {
        assert_eq!(place(&mut client, &Routing::to_primary(), None), Ok(dialled(4001)));
    }
    let by_key = |key: u32| Routing::by_key(&key.to_le_bytes());
    let mut named = HashSet::new();
    for key in 0..30 {
        let first = place(&mut client, &by_key(key), None).expect("there are some");
        assert_eq!(place(&mut client, &by_key(key), None), Ok(first), "key {key}");
        named.insert(first);
    }
    assert_eq!(named.len(), 3, "keys are spread");
}

#[test]
fn rt37_without_a_worker_that_can_be_dialled_nobody_is_placed() {
    let (_router, _workers, mut client) = group(&[None, None]);
    let refused = Err(SessionError::NoWorker);
    for routing in [Routing::default(), Routing::to_primary(), Routing::by_key(b"a")] {
        assert_eq!(place(&mut client, &routing, None), refused);
    }
    // The only one is named even if it has failed.
    let (_router, _workers, mut client) = group(&[Some(4001)]);
    let only = dialled(4001);
    assert_eq!(place(&mut client, &Routing::default(), None), Ok(only));
    assert_eq!(place(&mut client, &Routing::default(), Some(only)), Ok(only));
}

#[test]
fn rt37_nobody_is_placed_where_an_operator_has_drained() {
    let (router, _workers, mut client) = group(&[Some(4001), Some(4002)]);
    let operator = router.service.operator();
    let numbers: Vec<_> = snapshot(&operator).workers.iter().map(|worker| worker.worker).collect();
    let drain = |number: u16, is_draining| {
        assert!(change(&operator, number, WorkerChange::Drain(is_draining)), "it is a member");
    };
    let mut named = || {
        let named = (0..4).map(|_| place(&mut client, &Routing::default(), None));
        named.collect::<Result<HashSet<_>, _>>()
    };
    let all = HashSet::from([4001, 4002].map(dialled));
    assert_eq!(named(), Ok(all.clone()));
    drain(numbers[0], true);
    let left = named().expect("the other one is there");
    assert_eq!(left.len(), 1, "{left:?}");
    drain(numbers[1], true);
    assert_eq!(named(), Err(SessionError::NoWorker));
    drain(numbers[0], false);
    assert_eq!(named().expect("it is there again"), &all - &left);
    drain(numbers[1], false);
    assert_eq!(named(), Ok(all));
}
