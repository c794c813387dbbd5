use petasos_wire::{CREDITS_MAX, Kind};

use super::forge::FromClient;
use super::link::Fate;
use super::pair::{Config, PAYLOAD, Pair};
use super::plan::{Outcome, Plan};

#[test]
fn w19_pulls_ask_for_windows_and_not_for_packets() {
    let mut pair = Pair::plain();
    pair.call(Plan::new(8, 97 * PAYLOAD));
    pair.run();
    let pulls: Vec<_> = pair.sent(Kind::Pull).iter().map(|sent| (sent.start, sent.end)).collect();
    assert_eq!(pulls, [(1, 33), (33, 65), (65, 97)]);
}

#[test]
fn w19_w25_a_lost_pull_is_repaired() {
    for packets in [2, 3, 4, 5, 30] {
        let mut pair = Pair::plain();
        pair.network.doom(Kind::Pull, 0..1, Fate::Lost);
        let method = pair.call(Plan::new(8, packets * PAYLOAD));
        pair.run();
        assert_eq!(pair.outcome(method), Outcome::Answered);
        assert_eq!(pair.sent(Kind::Request).len(), 1, "the request is not sent again");
        assert_eq!(pair.client.stats().timeouts, 1, "one timeout for {packets} packets");
    }
}

#[test]
fn w25_one_lost_response_packet_is_pulled_again_alone() {
    for lost in [1, 10, 25] {
        let mut pair = Pair::plain();
        pair.network.doom(Kind::Response, lost..lost + 1, Fate::Lost);
        pair.call(Plan::new(8, 30 * PAYLOAD));
        pair.run();
        let pulls = pair.sent(Kind::Pull);
        assert_eq!((pulls[1].start, pulls[1].end), (lost, lost + 1));
        assert_eq!(pair.sent(Kind::Response).len(), 31);
        assert_eq!(pair.client.stats().timeouts, 0, "packets behind it show the loss");
    }
}

#[test]
fn w25_the_last_response_packet_may_be_lost() {
    let mut pair = Pair::plain();
    pair.network.doom(Kind::Response, 29..30, Fate::Lost);
    let method = pair.call(Plan::new(8, 30 * PAYLOAD));
    pair.run();
    assert_eq!(pair.outcome(method), Outcome::Answered);
    assert_eq!(pair.sent(Kind::Response).len(), 31);
    assert_eq!(pair.client.stats().timeouts, 1);
}

#[test]
fn w19_pulls_out_of_range_are_dropped() {
    let config = Config { slots: 1, ..Config::default() };
    let ranges = [(0, 0), (3, 3), (4, 2), (0, 6), (5, 6), (0, CREDITS_MAX + 1)];
    for (start, end) in ranges {
        let mut pair = Pair::new(config);
        pair.call(Plan::new(8, 5 * PAYLOAD));
        pair.run();
        pair.forge_to_server(&FromClient::bare(Kind::Pull, 1, start, end));
        assert_eq!(pair.server.stats().inconsistent, 1, "{start}..{end}");
    }
}

#[test]
fn w19_a_pull_grants_no_more_than_a_window_at_once() {
    let mut pair = Pair::new(Config { slots: 1, ..Config::default() });
    pair.call(Plan::new(8, (CREDITS_MAX + 1) * PAYLOAD));
    pair.run();
    let before = pair.sent(Kind::Response).len();
    pair.forge_to_server(&FromClient::bare(Kind::Pull, 1, 0, CREDITS_MAX + 1));
    assert_eq!(pair.server.stats().inconsistent, 1);
    pair.forge_to_server(&FromClient::bare(Kind::Pull, 1, 0, CREDITS_MAX));
    assert_eq!(pair.sent(Kind::Response).len() - before, CREDITS_MAX as usize);
}

#[test]
fn w5_a_pull_of_a_response_that_is_not_there_is_dropped() {
    let mut pair = Pair::new(Config { slots: 1, ..Config::default() });
    pair.call(Plan::new(8, 5 * PAYLOAD).after_us(100));
    pair.run_for_us(50);
    pair.forge_to_server(&FromClient::bare(Kind::Pull, 1, 1, 2));
    pair.forge_to_server(&FromClient::bare(Kind::Pull, 2, 1, 2));
    assert_eq!(pair.server.stats().stale, 2);
    pair.run();
}
