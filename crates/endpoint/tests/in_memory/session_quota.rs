//! One peer does not take the sessions of all.

use std::net::IpAddr;

use petasos_control::AcceptParams;
use petasos_endpoint::{Endpoint, EndpointConfig, RefuseCode, SessionSecurity};

use crate::joined::*;

const SESSIONS_MAX: u32 = 10;
const PER_PEER_MAX: u32 = 4;

fn pair() -> Joined {
    Joined::with(
        |_| {},
        |server| {
            server.sessions_max = SESSIONS_MAX;
            server.sessions_per_peer_max = PER_PEER_MAX;
            server.believe_data_addresses = true;
        },
    )
}

/// Asks for a session as the client at `from`.
fn ask(
    pair: &mut Joined,
    from: &str,
    security: Option<SessionSecurity>,
) -> Result<AcceptParams, RefuseCode> {
    let offer = pair.client.open_session(pair.server.local_address(), None);
    let offer = offer.expect("the hub reaches every port").expect("the client has room");
    let from: IpAddr = from.parse().expect("it is an address");
    // Packets go to the client's port of the hub, whatever its control connection's address.
    let mut params = offer.params;
    params.address.ip = Some(pair.client.local_address().ip());
    pair.server.accept_secured(&params, from, None, security)
}

fn refused<S>(endpoint: &Endpoint<S>) -> u64 {
    endpoint.stats().event_loop.sessions_over_quota
}

#[test]
fn issue_10_one_address_leaves_sessions_to_others() {
    let mut pair = pair();
    // The pair's own session is its client's.
    for _ in 0..PER_PEER_MAX {
        ask(&mut pair, "10.0.0.7", None).expect("the quota has room");
    }
    for _ in 0..3 {
        assert_eq!(ask(&mut pair, "10.0.0.7", None), Err(RefuseCode::QuotaUsedUp));
    }
    assert_eq!(refused(&pair.server), 3);
    ask(&mut pair, "10.0.0.8", None).expect("another address has its own");
    assert!(RefuseCode::QuotaUsedUp.retry_may_succeed());
}

#[test]
fn issue_10_one_name_leaves_sessions_to_others_wherever_it_calls_from() {
    let mut pair = pair();
    for host in 1..=PER_PEER_MAX {
        let greedy = Some(security(1, "greedy.test"));
        ask(&mut pair, &format!("10.0.0.{host}"), greedy).expect("the quota has room");
    }
    let greedy = Some(security(1, "greedy.test"));
    assert_eq!(ask(&mut pair, "10.0.0.200", greedy), Err(RefuseCode::QuotaUsedUp));
    let other = Some(security(1, "other.test"));
    ask(&mut pair, "10.0.0.1", other).expect("another name has its own");
}

/// Behind one address (a NAT, a host of many containers) may be many that have nothing to do with
/// each other.
#[test]
fn issue_10_names_behind_one_address_have_sessions_each() {
    let mut pair = pair();
    let greedy = || Some(security(1, "greedy.test"));
    for _ in 0..PER_PEER_MAX {
        ask(&mut pair, "10.0.0.7", greedy()).expect("the quota has room");
    }
    assert_eq!(ask(&mut pair, "10.0.0.7", greedy()), Err(RefuseCode::QuotaUsedUp));
    let other = Some(security(1, "other.test"));
    ask(&mut pair, "10.0.0.7", other).expect("another name has its own");
}

/// Slots are what handlers that never answer can hold.
#[test]
fn issue_10_one_address_leaves_handlers_to_others() {
    let slots = EndpointConfig::default().session.slots;
    let mut pair = Joined::with(
        |_| {},
        |server| {
            server.requests_per_peer_max = 3 * slots;
            server.believe_data_addresses = true;
        },
    );
    for _ in 0..3 {
        ask(&mut pair, "10.0.0.7", None).expect("the quota has room");
    }
    assert_eq!(ask(&mut pair, "10.0.0.7", None), Err(RefuseCode::QuotaUsedUp));
    ask(&mut pair, "10.0.0.8", None).expect("another address has its own");
}

#[test]
fn issue_10_sessions_that_end_are_given_back() {
    // What is granted may be less than either end has room for.
    for slots in [1, 2, 5, 8, 12, 64] {
        let mut pair = Joined::with(
            |_| {},
            |server| {
                (server.session.slots, server.requests_per_peer_max) = (slots, 8);
                server.believe_data_addresses = true;
            },
        );
        for _ in 0..20 {
            let granted = ask(&mut pair, "10.0.0.7", None).expect("the one before was given back");
            assert!(u32::from(granted.slots) <= slots);
            assert!(pair.server.drop_server_session(granted.session, granted.tag));
        }
        assert_eq!(refused(&pair.server), 0);
    }
}
