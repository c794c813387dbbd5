//! Groups whose control connections are over TLS: their packets are sealed (RT27 to RT30).

use std::net::SocketAddr;
use std::sync::mpsc::channel;
use std::time::Duration;

use petasos_endpoint::{GroupId, RefuseCode, ServedGroupId, SessionError};
use petasos_router_control::{
    Cipher, EpochTimes, GroupSettings, MemberSettings, PlaneConfig, Workers,
};

use crate::certificates::Authority;
use crate::world::{
    Member, PATIENCE, Router, Wire, client, client_at, patient, secured, until, worker_at,
};

struct Sealed {
    authority: Authority,
    router: Router,
}

impl Sealed {
    fn new(settings: GroupSettings) -> Sealed {
        let authority = Authority::new("one");
        let router = Router::start_at(secured(&authority, "router.test", true), settings);
        Sealed { authority, router }
    }

    fn client(&self, name: &str, router: SocketAddr) -> Member<GroupId> {
        client_at(secured(&self.authority, name, false), &[router])
    }

    fn worker(&self, name: &str, router: SocketAddr) -> Member<ServedGroupId> {
        worker_at(secured(&self.authority, name, false), &[router], |_| {})
    }
}

fn ready(clients: &mut [Member<GroupId>], workers: &mut [Member<ServedGroupId>]) {
    let count = workers.len();
    until(clients, workers, |clients, workers| {
        clients.iter_mut().all(|it| it.peers() == count)
            && workers.iter_mut().all(|it| it.is_member())
    });
}

/// Makes calls until so many are answered. What has certainly not run is made again.
fn call(clients: &mut [Member<GroupId>], workers: &mut [Member<ServedGroupId>], count: u64) {
    let mut made = 0;
    let before: u64 = clients.iter().map(|it| it.endpoint.state().answered).sum();
    let failed_before: usize = clients.iter().map(|it| it.endpoint.state().errors.len()).sum();
    until(clients, workers, |clients, _| {
        let failed: usize = clients.iter().map(|it| it.endpoint.state().errors.len()).sum();
        let failed = (failed - failed_before) as u64;
        for (at, client) in clients.iter_mut().enumerate() {
            if made - failed < count {
                let bytes = [0, 8, 1392, 1401, 20_000][made as usize % 5];
                made += u64::from(client.call(bytes, (made as usize + at).is_multiple_of(2)));
            }
        }
        let answered: u64 = clients.iter().map(|it| it.endpoint.state().answered).sum();
        answered - before == count
    });
    let errors = clients.iter().flat_map(|it| &it.endpoint.state().errors);
    let unsafe_to_retry: Vec<_> = errors.filter(|error| !error.retry_is_safe()).collect();
    assert!(unsafe_to_retry.is_empty(), "{unsafe_to_retry:?}");
}

#[test]
fn rt27_rt29_calls_are_sealed_and_workers_know_who_calls() {
    for cipher in [Cipher::Aes128Gcm, Cipher::ChaCha20Poly1305] {
        let sealed = Sealed::new(GroupSettings { cipher, ..GroupSettings::default() });
        let at = sealed.router.address;
        let mut clients = vec![sealed.client("ann.test", at), sealed.client("bob.test", at)];
        let mut workers = vec![sealed.worker("one.test", at), sealed.worker("two.test", at)];
        ready(&mut clients, &mut workers);
        call(&mut clients, &mut workers, 300);
        for client in &mut clients {
            let session = client.session().expect("it is attached");
            assert!(client.endpoint.context().is_sealed(session));
            assert_eq!(client.endpoint.stats().event_loop.seals_broken, 0);
        }
        let mut callers: Vec<_> =
            workers.iter().flat_map(|it| it.endpoint.state().callers.clone()).collect();
        callers.sort();
        callers.dedup();
        let has = |name: &str| callers.iter().any(|names| names.iter().any(|it| it == name));
        assert!(has("ann.test") && has("bob.test") && callers.len() == 2, "{callers:?}");
    }
}

#[test]
fn rt30_calls_go_on_while_secrets_change() {
    let overlap = Duration::from_millis(200);
    let epochs = EpochTimes { epoch: overlap + Duration::from_millis(2100), overlap };
    let sealed = Sealed::new(GroupSettings { epochs, ..GroupSettings::default() });
    let at = sealed.router.address;
    let mut clients = vec![sealed.client("ann.test", at)];
    let mut workers = vec![sealed.worker("one.test", at), sealed.worker("two.test", at)];
    ready(&mut clients, &mut workers);
    let clock = petasos_endpoint::Clock::system();
    let end = clock.now() + 3 * epochs.epoch;
    while clock.now() < end {
        call(&mut clients, &mut workers, 50);
    }
    let stats = clients[0].endpoint.stats().event_loop;
    assert_eq!((stats.seals_broken, stats.transmit_unsealed), (0, 0));
    for worker in &workers {
        let stats = worker.endpoint.stats().event_loop;
        assert_eq!((stats.seals_broken, stats.transmit_unsealed), (0, 0));
    }
}

/// The same process keeps its number, its windows and its rows of numbers (RT34); a client that
/// attaches anew gets other keys.
#[test]
fn rt35_calls_go_on_while_control_connections_break() {
    let sealed = Sealed::new(patient());
    let wire = Wire::to(sealed.router.address);
    let mut clients = vec![sealed.client("ann.test", wire.address)];
    let mut workers: Vec<_> = (0..2).map(|_| sealed.worker("one.test", wire.address)).collect();
    ready(&mut clients, &mut workers);
    for _ in 0..4 {
        let before = clients[0].session();
        wire.cut();
        call(&mut clients, &mut workers, 200);
        until(&mut clients, &mut workers, |clients, workers| {
            clients[0].session() != before
                && clients[0].peers() == 2
                && workers.iter_mut().all(|it| it.is_member())
        });
        call(&mut clients, &mut workers, 200);
    }
    assert_eq!(clients[0].endpoint.stats().event_loop.seals_broken, 0);
}

#[test]
fn rt34_who_may_be_a_worker_is_said_by_name() {
    let workers = Workers { allowed: Some(vec!["worker.test".into()]), primaries: None };
    let sealed = Sealed::new(GroupSettings { workers, ..GroupSettings::default() });
    let at = sealed.router.address;
    let mut workers = vec![sealed.worker("worker.test", at), sealed.worker("other.test", at)];
    until(&mut [], &mut workers, |_, workers| {
        workers[0].is_member() && workers[1].failure().is_some()
    });
    let (error, detail) = workers[1].failure().expect("it was refused");
    assert_eq!(error, SessionError::RefusedBy(RefuseCode::NotAuthorised));
    assert_eq!(detail, "it may not be a worker");
}

#[test]
fn rt30_who_is_expelled_has_no_secret_of_the_next_epoch_which_begins_at_once() {
    let sealed = Sealed::new(GroupSettings::default());
    let at = sealed.router.address;
    let mut clients = vec![sealed.client("ann.test", at)];
    let mut workers = vec![sealed.worker("one.test", at), sealed.worker("two.test", at)];
    ready(&mut clients, &mut workers);
    call(&mut clients, &mut workers, 50);
    let operator = sealed.router.service.operator();
    let settings = GroupSettings::default();
    let members = MemberSettings {
        workers: Workers { allowed: Some(vec!["two.test".into()]), primaries: None },
        asked_max: settings.asked_max,
        clients_max: settings.plane.clients_max,
        routers: Vec::new(),
    };
    let (tell, told) = channel();
    operator.set_members(members, move || tell.send(()).expect("it is waited for"));
    told.recv_timeout(PATIENCE).expect("the router answers");
    until(&mut clients, &mut workers, |clients, workers| {
        clients[0].peers() == 1 && workers[0].failure().is_some()
    });
    let epochs_begun = || {
        let (tell, told) = channel();
        operator.snapshot(move |at| tell.send(at.epoch.1).expect("it is waited for"));
        told.recv_timeout(PATIENCE).expect("the router answers")
    };
    until(&mut clients, &mut workers, |_, _| epochs_begun() == 2);
    let handled = workers[0].endpoint.state().handled;
    call(&mut clients, &mut workers, 100);
    assert_eq!(workers[0].endpoint.state().handled, handled);
}

#[test]
fn who_has_no_certificate_is_told_nothing() {
    let sealed = Sealed::new(GroupSettings::default());
    let at = sealed.router.address;
    let (mut stranger, mut other) = (client(&[at]), {
        let authority = Authority::new("two");
        client_at(secured(&authority, "ann.test", false), &[at])
    });
    let is_refused = |it: &mut Member<GroupId>| {
        it.endpoint.run_once();
        let group = it.group;
        it.endpoint.context().group_routers(group)[0].failure.is_some()
    };
    until(&mut [], &mut [], |_, _| is_refused(&mut stranger) && is_refused(&mut other));
    assert!(stranger.session().is_none() && other.session().is_none());
}

/// RT39: who attaches and leaves without end uses up its own half, and workers keep no more of it.
#[test]
fn rt39_attaching_without_end_leaves_others_their_attachments_and_workers_their_memory() {
    const CLIENTS: u32 = 8;
    let overlap = Duration::from_millis(200);
    let epochs = EpochTimes { epoch: overlap + Duration::from_millis(2100), overlap };
    let plane = PlaneConfig { clients_max: CLIENTS, ..PlaneConfig::default() };
    let settings = GroupSettings { plane, epochs, ..GroupSettings::default() };
    let sealed = Sealed::new(settings);
    let at = sealed.router.address;
    let mut clients = vec![sealed.client("ann.test", at)];
    let mut workers = vec![sealed.worker("one.test", at)];
    ready(&mut clients, &mut workers);
    // All at once first, then one after the other, until nothing is granted any more.
    let mut greedy: Vec<_> = (0..CLIENTS).map(|_| sealed.client("eve.test", at)).collect();
    let mut peers_max = 0;
    let mut beside = |clients: &mut Vec<_>,
                      greedy: &mut Vec<Member<GroupId>>,
                      holds: &dyn Fn(&mut [Member<GroupId>]) -> bool| {
        until(clients, &mut workers, |_, workers| {
            greedy.iter_mut().for_each(|it| _ = it.endpoint.run_once());
            let group = workers[0].group;
            let served = workers[0].endpoint.context().served_routers(group);
            peers_max = peers_max.max(served[0].peers);
            holds(greedy)
        });
        call(clients, &mut workers, 20);
    };
    let attached =
        |it: &mut [Member<GroupId>]| it.iter_mut().filter_map(Member::session).count() as u32;
    beside(&mut clients, &mut greedy, &|it| attached(it) == CLIENTS / 2);
    assert!(sealed.router.service.refused().0 > 0);
    greedy.clear();
    for _ in 0..CLIENTS {
        let refused = sealed.router.service.refused().0;
        greedy.push(sealed.client("eve.test", at));
        beside(&mut clients, &mut greedy, &|it| {
            attached(it) == 1 || sealed.router.service.refused().0 > refused
        });
        greedy.clear();
    }
    // Another name has a place, whatever that one does.
    clients.push(sealed.client("bob.test", at));
    beside(&mut clients, &mut greedy, &|_| true);
    until(&mut clients, &mut workers, |clients, _| clients[1].session().is_some());
    assert!(peers_max <= 2 * CLIENTS as usize, "{peers_max}");
}
