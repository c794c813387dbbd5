//! Asking routers for workers to connect to (RT37).

use std::net::SocketAddr;
use std::time::Duration;

use petasos_endpoint::group_router::PlaceGrant;
use petasos_endpoint::{
    Clock, Endpoint, GroupConfig, GroupId, RefuseCode, Routing, SessionError, SessionState,
};

use crate::common::*;
use crate::group_desk::{Router, Said};

/// Turns until something is there.
fn until<T>(
    endpoint: &mut Endpoint<Outcomes>,
    mut it: impl FnMut(&mut Endpoint<Outcomes>) -> Option<T>,
) -> T {
    let clock = Clock::system();
    let end = clock.now() + PATIENCE;
    loop {
        if let Some(it) = it(endpoint) {
            return it;
        }
        endpoint.run_for(Duration::from_millis(1), |_, _| false);
        assert!(clock.now() < end, "it is there in the end");
    }
}

fn attached(client: &mut Endpoint<Outcomes>, router: &Router) -> GroupId {
    let config = GroupConfig { routers: vec![router.address], ..GroupConfig::default() };
    let group = client.open_group(&config).expect("it is attached to a node");
    router.tell_members(&[]);
    until(client, |it| it.context().group_session(group));
    group
}

fn placed(
    client: &mut Endpoint<Outcomes>,
    group: GroupId,
    avoid: Option<SocketAddr>,
) -> Result<SocketAddr, SessionError> {
    assert!(client.place(group, &Routing::default(), avoid), "the router can be asked");
    assert!(!client.place(group, &Routing::default(), avoid), "it is asked once at a time");
    let placed = until(client, |it| it.context().placed(group));
    assert!(client.context().placed(group).is_none(), "it is told once");
    placed
}

#[test]
fn rt37_a_router_names_a_worker_and_hears_which_one_has_failed() {
    let _watchdog = watchdog("placed");
    let router = Router::new();
    let node = node(None);
    let mut client = client(&node, localhost());
    let config = GroupConfig { routers: vec![router.address], ..GroupConfig::default() };
    let early = client.open_group(&config).expect("it is attached to a node");
    assert!(!client.place(early, &Routing::default(), None), "nobody can be asked yet");
    client.close_group(early);
    let group = attached(&mut client, &router);
    let worker = SocketAddr::new(localhost(), 4001);
    router.desk().place = Some(Ok(PlaceGrant { worker: 7, address: worker }));
    assert_eq!(placed(&mut client, group, None), Ok(worker));
    assert_eq!(placed(&mut client, group, Some(worker)), Ok(worker));
    let other = SocketAddr::new(localhost(), 4002);
    assert_eq!(placed(&mut client, group, Some(other)), Ok(worker), "that one was not named");
    let avoided: Vec<_> = router
        .desk()
        .said
        .iter()
        .filter_map(|said| match said {
            Said::Place { avoid } => Some(*avoid),
            _ => None,
        })
        .collect();
    assert_eq!(avoided, [None, Some(7), None]);
    router.desk().place = Some(Err(RefuseCode::SessionsFull));
    let refused = placed(&mut client, group, None);
    assert_eq!(refused, Err(SessionError::NoWorker));
}

#[test]
fn rt37_a_question_ends_with_its_router() {
    let _watchdog = watchdog("not placed");
    let router = Router::new();
    let node = node(None);
    let mut client = client(&node, localhost());
    let group = attached(&mut client, &router);
    assert!(client.place(group, &Routing::default(), None));
    let is_asked = |said: &Said| matches!(said, Said::Place { .. });
    until(&mut client, |_| (router.heard(is_asked) == 1).then_some(()));
    drop(router);
    let ended = until(&mut client, |it| it.context().placed(group));
    assert!(ended.is_err(), "{ended:?}");
    // The attachment outlives its connection, by which nobody can be asked.
    assert!(client.context().group_session(group).is_some());
    assert!(!client.context().can_be_placed(group));
    assert!(!client.place(group, &Routing::default(), None), "nobody can be asked any more");
}

#[test]
fn rt38_routers_that_are_named_anew_are_attached_to_and_others_left() {
    let _watchdog = watchdog("renamed");
    let (former, latter) = (Router::new(), Router::new());
    let node = node(None);
    let mut client = client(&node, localhost());
    let group = attached(&mut client, &former);
    client.set_group_routers(group, &[]);
    assert_eq!(client.context().group_router(group), Some(former.address), "as before");
    client.set_group_routers(group, &[latter.address]);
    latter.tell_members(&[]);
    let is_used = |it: &mut Endpoint<Outcomes>| {
        (it.context().group_router(group) == Some(latter.address)).then_some(())
    };
    until(&mut client, is_used);
    let is_left = |said: &Said| matches!(said, Said::Left(_));
    until(&mut client, |_| (former.heard(is_left) == 1).then_some(()));
    let routers = client.context().group_routers(group);
    assert_eq!(routers.iter().map(|at| at.router).collect::<Vec<_>>(), [latter.address]);
}

#[test]
fn rt31_a_session_is_told_to_be_with_the_router_of_the_attachment_or_not() {
    let _watchdog = watchdog("with the router");
    let (router, other) = (Router::new(), Router::new());
    let node = node(None);
    let mut client = client(&node, localhost());
    let group = attached(&mut client, &router);
    // Routers grant sessions as well, for binds.
    let _servers = [&router, &other].map(|router| Server::start(&router.node, localhost()));
    let mut is_with_it = |address| {
        let session = client.connect_with_slots(address, 1).expect("there is room");
        until(&mut client, |it| {
            (it.context().session_state(session) == SessionState::Ready).then_some(())
        });
        client.context().is_with_group_router(group, session)
    };
    assert!(is_with_it(router.address));
    assert!(!is_with_it(other.address));
}
