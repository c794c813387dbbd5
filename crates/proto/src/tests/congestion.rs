//! What a session tells its congestion control, and how it obeys.

use petasos_base::Time;
use petasos_wire::Kind;

use super::link::{DELAY_NS, Fate};
use super::pair::{Config, PAYLOAD, Pair};
use super::plan::{Outcome, Plan};
use crate::{AlgorithmConfig, CallOptions, CongestionConfig, Sharer, SwiftConfig};

fn pair(congestion: CongestionConfig, credits: u32) -> Pair {
    Pair::new(Config { congestion, credits, ..Config::default() })
}

/// Swift with a window that stays at about `packets`: every round trip is just too long.
fn fixed(packets: f64) -> CongestionConfig {
    let swift = SwiftConfig {
        base_target_ns: 2 * DELAY_NS,
        hops: 0,
        flow_range_ns: 0,
        window_min: packets.min(1.0),
        window_initial: packets,
        beta: 1e-9,
        ..SwiftConfig::default()
    };
    let algorithm = AlgorithmConfig::Swift(swift);
    CongestionConfig { algorithm, burst_ns: 0, packet_bytes: 1_114, ..CongestionConfig::default() }
}

#[test]
fn a_window_bounds_requests_and_pulls_below_the_credits() {
    let mut pair = pair(fixed(3.5), 32);
    assert_eq!(pair.client.window(), 3);
    let method = pair.call(Plan::new(10 * PAYLOAD, 10 * PAYLOAD));
    pair.run_for_us(5);
    assert_eq!(pair.sent(Kind::Request).len(), 3, "before anything has returned");
    pair.run();
    assert_eq!(pair.outcome(method), Outcome::Answered);
    let pulled = pair.sent(Kind::Pull).iter().map(|pull| pull.end - pull.start).max();
    assert_eq!(pulled, Some(3), "a pull asks for what the window admits");
    assert_eq!(pair.client.stats().paced_waits, 0, "a window of packets needs no pace");
}

#[test]
fn an_uncongested_session_grows_to_its_credits_whatever_they_are() {
    let congestion = CongestionConfig::swift();
    let config = Config { congestion, credits: 16, credits_max: 64, ..Config::default() };
    let mut pair = Pair::new(config);
    assert_eq!(pair.client.window(), 8, "at first");
    pair.call(Plan::new(100 * PAYLOAD, 32));
    pair.run();
    assert_eq!(pair.client.window(), 16);
    pair.server.take_share(1);
    pair.call(Plan::new(100 * PAYLOAD, 32));
    pair.run();
    assert_eq!(pair.client.window(), 64);
    pair.server.take_share(4);
    pair.call(Plan::new(200 * PAYLOAD, 32));
    pair.run();
    assert_eq!(pair.client.window(), 16, "never beyond what is granted");
}

#[test]
fn losses_and_lost_tails_shrink_the_window() {
    for lost in [20..21, 60..64] {
        let mut pair = pair(CongestionConfig::swift(), 32);
        pair.call(Plan::new(64 * PAYLOAD, 32));
        pair.network.doom(Kind::Request, lost.clone(), Fate::Lost);
        let mut least = 32;
        while pair.client.stats().calls_completed == 0 {
            pair.run_for_us(10);
            let grown = pair.client.stats().request_packets > lost.start.into();
            least = if grown { least.min(pair.client.window()) } else { least };
        }
        pair.run();
        assert!(least <= 28, "{lost:?} are lost, and the window is {least}");
    }
}

#[test]
fn a_slow_handler_does_not_throttle_its_callers() {
    let mut pair = pair(CongestionConfig::swift(), 32);
    pair.call(Plan::new(100 * PAYLOAD, 32));
    pair.run();
    for _ in 0..20 {
        pair.call(Plan::new(32, 32).after_us(30_000));
        pair.call(Plan::new(5 * PAYLOAD, 32).after_us(30_000));
        pair.run();
    }
    assert!(pair.client.stats().timeouts >= 40, "each call was asked after");
    assert_eq!(pair.client.window(), 32);
}

#[test]
fn a_path_that_has_gone_silent_counts_also_for_single_packets() {
    let mut pair = pair(CongestionConfig::swift(), 32);
    pair.network.doom(Kind::Request, 0..1, Fate::Lost);
    pair.call(Plan::new(32, 32));
    pair.run_for_us(11_000);
    assert_eq!(pair.client.stats().timeouts, 1);
    assert!(pair.client.window() >= 8, "a handler might have been slow");
    pair.run();
    pair.network.doom(Kind::Request, 0..5, Fate::Lost);
    let before = pair.client.window();
    pair.call(Plan::new(32, 32));
    pair.run_for_us(60_000);
    assert!(pair.client.stats().timeouts > 2 && pair.client.window() < before);
    pair.run();
}

#[test]
fn a_paced_session_holds_back_says_until_when_and_takes_no_short_cut() {
    let mut pair = pair(fixed(0.1), 32);
    pair.call(Plan::new(4 * PAYLOAD, 32));
    pair.run();
    assert!(pair.client.is_paced());
    let options = CallOptions {
        method: 0,
        encoding: petasos_wire::Encoding::Opaque,
        request_bytes: 32,
        response_bytes_max: 32,
        timeout_at: Time::NEVER,
    };
    let context = super::plan::Context { method: 0, request: vec![0; 32], response: vec![] };
    assert!(pair.client.send_short(options, context, pair.now).is_err());
    let before = pair.client.stats().paced_waits;
    let sent = pair.network.log.len();
    pair.call(Plan::new(4 * PAYLOAD, 32));
    pair.run();
    let requests = pair.network.log[sent..].iter().filter(|sent| sent.kind == Kind::Request);
    let times: Vec<u64> = requests.map(|sent| sent.at.as_nanos()).collect();
    assert_eq!(times.len(), 4);
    // A tenth of a packet per round trip. The first was charged by the call before.
    let gaps_ns: Vec<u64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(gaps_ns.iter().all(|gap_ns| (99_990..=100_010).contains(gap_ns)), "{gaps_ns:?}");
    assert!(pair.client.stats().paced_waits >= before + 3);
    assert_eq!(pair.client.stats().retransmissions, 0, "waiting is not silence");
    assert_eq!(pair.client.next_send(), Time::NEVER, "nothing is left");
}

#[test]
fn every_mark_counts_also_between_samples() {
    let congestion = CongestionConfig::dctcp();
    let mut pair = Pair::new(Config { congestion, marks: 1.0, ..Config::default() });
    for _ in 0..8 {
        pair.call(Plan::new(32, 32));
    }
    pair.run();
    let stats = pair.client.stats();
    assert_eq!((stats.ecn_echoes, stats.ecn_marks), (8, 8), "all in one batch");
    // Eight of eight marked: the average stays at 1, and the next mark halves the window again.
    let before = pair.client.window();
    pair.call(Plan::new(32, 32));
    pair.run();
    assert_eq!(pair.client.window(), before / 2, "{before}");
}
