//! Slots that are made when they are first used.

use petasos_wire::Kind;

use super::forge::{FromClient, FromServer};
use super::pair::{Config, Pair};
use super::plan::{Outcome, Plan};

#[test]
fn issue_10_a_session_has_memory_for_the_slots_that_it_has_used() {
    let mut pair = Pair::new(Config { slots: 32, ..Config::default() });
    let footprint = |pair: &Pair| (pair.client.footprint_bytes(), pair.server.footprint_bytes());
    let fresh = footprint(&pair);
    for _ in 0..10 {
        pair.call(Plan::new(32, 32));
        pair.run();
    }
    assert_eq!(footprint(&pair), fresh, "one call at a time takes one slot");
    let calls: Vec<u16> = (0..32).map(|_| pair.call(Plan::new(32, 32).after_us(10))).collect();
    pair.run();
    assert!(calls.into_iter().all(|method| pair.outcome(method) == Outcome::Answered));
    let used = footprint(&pair);
    assert!(used.0 > 16 * fresh.0 / 2 && used.1 > 16 * fresh.1 / 2, "{used:?} from {fresh:?}");
}

#[test]
fn w5_packets_for_unused_slots_are_stale_and_make_none() {
    let mut pair = Pair::new(Config { slots: 32, ..Config::default() });
    let fresh = (pair.client.footprint_bytes(), pair.server.footprint_bytes());
    for kind in [Kind::Pull, Kind::Cancel, Kind::Done] {
        pair.forge_to_server(&FromClient::bare(kind, 31, 0, 1));
    }
    assert_eq!(pair.server.stats().stale, 3);
    for kind in [Kind::Response, Kind::Ack, Kind::Reject] {
        pair.forge_to_client(&FromServer::new(kind, 31, 0));
    }
    assert_eq!(pair.client.stats().stale, 3);
    assert_eq!((pair.client.footprint_bytes(), pair.server.footprint_bytes()), fresh);
    let method = pair.call(Plan::new(32, 32));
    pair.run();
    assert_eq!(pair.outcome(method), Outcome::Answered);
}
