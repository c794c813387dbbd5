use petasos_wire::Kind;

use super::link::{Fate, Link};
use super::pair::{Config, PAYLOAD, Pair};
use super::plan::{Outcome, Plan};

#[test]
fn w25_a_packet_overtaken_by_two_is_not_sent_again() {
    for (kind, plan) in [
        (Kind::Request, Plan::new(6 * PAYLOAD, 8).after_us(100)),
        (Kind::Response, Plan::new(8, 6 * PAYLOAD)),
    ] {
        let mut pair = Pair::plain();
        pair.network.doom(kind, 3..4, Fate::Late(2_000));
        let method = pair.call(plan);
        pair.run();
        assert_eq!(pair.outcome(method), Outcome::Answered);
        assert_eq!(pair.client.stats().retransmissions, 0, "{kind:?}");
    }
}

#[test]
fn w25_a_packet_overtaken_by_many_is_sent_again_needlessly() {
    let mut pair = Pair::plain();
    pair.network.doom(Kind::Response, 3..4, Fate::Late(2_000));
    pair.call(Plan::new(8, 20 * PAYLOAD));
    pair.run();
    assert_eq!(pair.client.stats().retransmissions, 1);
    assert_eq!(pair.client.stats().retransmissions_spurious, 1);
}

#[test]
fn the_last_request_packet_may_arrive_first() {
    let mut pair = Pair::plain();
    pair.network.doom(Kind::Request, 0..4, Fate::Late(1_000));
    let method = pair.call(Plan::new(5 * PAYLOAD, 8));
    pair.run();
    assert_eq!(pair.outcome(method), Outcome::Answered);
    assert_eq!(pair.runs, [1]);
}

#[test]
fn heavy_reordering_costs_no_timeouts() {
    let link = Link { jitter_ns: 50_000, ..Link::CLEAN };
    let mut pair = Pair::new(Config { link, ..Config::default() });
    for _ in 0..8 {
        pair.call(Plan::new(100 * PAYLOAD, 100 * PAYLOAD));
    }
    pair.run();
    assert!((0..8).all(|method| pair.outcome(method) == Outcome::Answered));
    assert_eq!(pair.client.stats().timeouts, 0);
}
