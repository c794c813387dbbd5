use petasos_wire::{Kind, REQUEST_NUMBERS, TRANSMISSION_NUMBERS};

use super::link::{Fate, Link};
use super::pair::{Config, PAYLOAD, Pair};
use super::plan::{Outcome, Plan};

/// A pair whose request numbers wrap at each slot's second call, and whose transmission numbers
/// wrap after `transmissions`.
fn near_wrap(config: Config, transmissions: u32) -> Pair {
    let mut pair = Pair::new(config);
    pair.client.near_wrap(transmissions);
    pair.server.near_wrap(transmissions);
    pair
}

#[test]
fn w5_request_numbers_wrap() {
    let mut pair = near_wrap(Config { slots: 2, ..Config::default() }, 1000);
    for _ in 0..6 {
        pair.call(Plan::new(32, 32));
    }
    pair.run();
    let last = REQUEST_NUMBERS - 1;
    let numbers: Vec<_> = pair.sent(Kind::Request).iter().map(|sent| sent.request).collect();
    assert_eq!(numbers, [last - 1, last, 0, 1, 2, 3]);
    assert!((0..6).all(|method| pair.outcome(method) == Outcome::Answered));
}

#[test]
fn w5_a_packet_from_before_the_wrap_is_stale_after_it() {
    let mut pair = near_wrap(Config { slots: 1, ..Config::default() }, 1000);
    pair.network.doom(Kind::Request, 0..1, Fate::Late(50_000_000));
    pair.call(Plan::new(32, 32));
    pair.call_after(Plan::new(32, 32), 30_000_000);
    pair.run();
    assert_eq!(pair.sent(Kind::Request).last().unwrap().request, 0);
    assert_eq!(pair.runs, [1, 1]);
    assert_eq!(pair.server.stats().stale, 1);
}

#[test]
fn w6_round_trips_are_measured_across_the_wrap() {
    for transmissions in 0..4 {
        let mut pair = near_wrap(Config::default(), transmissions);
        for at in 0..4 {
            pair.call_after(Plan::new(32, 32), at * 20_000);
        }
        pair.run();
        let sent: Vec<_> = pair.sent(Kind::Request).iter().map(|sent| sent.transmission).collect();
        let first = TRANSMISSION_NUMBERS - transmissions;
        let expected: Vec<_> = (0..4).map(|at| (first + at) % TRANSMISSION_NUMBERS).collect();
        assert_eq!(sent, expected);
        assert_eq!(pair.client.rtt_ns(), Some(10_000));
        assert_eq!(pair.client.stats().retransmissions_spurious, 0);
    }
}

#[test]
fn w6_loss_is_repaired_across_the_wrap() {
    let link = Link { loss: 0.1, jitter_ns: 2_000, duplication: 0.05, ..Link::CLEAN };
    for transmissions in [0, 1, 5, 17, 40, 100] {
        let config = Config { link, seed: u64::from(transmissions), ..Config::default() };
        let mut pair = near_wrap(config, transmissions);
        for _ in 0..20 {
            pair.call(Plan::new(20 * PAYLOAD, 20 * PAYLOAD));
        }
        pair.run();
        assert!((0..20).all(|method| pair.outcome(method) == Outcome::Answered));
    }
}
