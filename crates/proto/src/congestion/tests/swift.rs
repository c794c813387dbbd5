use super::{feedback, sample, state};
use crate::congestion::swift::Swift;
use crate::{AlgorithmConfig, Congestion, CongestionConfig, Feedback, SwiftConfig};
use petasos_base::Time;

/// A target of 40 µs whatever the window, and windows that start at 16 packets.
fn flat() -> SwiftConfig {
    SwiftConfig {
        base_target_ns: 37_000,
        flow_range_ns: 0,
        window_initial: 16.0,
        ..SwiftConfig::default()
    }
}

fn with(swift: SwiftConfig) -> Congestion {
    let algorithm = AlgorithmConfig::Swift(swift);
    Congestion::new(&CongestionConfig { algorithm, ..CongestionConfig::default() }, 64)
}

fn window(congestion: &Congestion) -> u32 {
    congestion.window_packets(u32::MAX)
}

/// A session whose window was cut once, to 12.8 packets at 1 ms: 16 × (1 - 0.8 × 20 / 80).
fn cut_once() -> Congestion {
    let mut congestion = with(SwiftConfig { base_target_ns: 57_000, ..flat() });
    sample(&mut congestion, 1_000_000, 80_000);
    assert_eq!(window(&congestion), 12);
    congestion
}

#[test]
fn the_target_grows_with_hops_and_with_smaller_windows() {
    let swift = Swift::new(SwiftConfig::default(), 1_500, 64);
    assert_eq!(swift.target_ns(16.0), 33_000, "base and three hops");
    assert_eq!(swift.target_ns(1_000.0), 33_000);
    assert_eq!(swift.target_ns(0.1), 63_000, "all of the flow range");
    assert_eq!(swift.target_ns(0.001), 63_000);
    // 30 µs / (1/√0.1 - 1/√16) × (1/√1 - 1/√16) = 7.73 µs.
    assert_eq!(swift.target_ns(1.0) / 10, 4_072);
}

#[test]
fn a_fresh_session_opens_fast_and_is_left_alone_once_open() {
    let mut congestion = with(flat());
    for _ in 0..16 {
        sample(&mut congestion, 1_000_000, 39_999);
    }
    assert_eq!(window(&congestion), 32, "doubled in a round trip");
    for _ in 0..64 {
        sample(&mut congestion, 1_000_000, 39_999);
    }
    assert_eq!(state(&congestion), (64, None));
}

#[test]
fn a_window_of_which_a_quarter_is_used_stays() {
    let few = Feedback { in_flight: 3, ..feedback(39_999) };
    let more = Feedback { in_flight: 4, ..few };
    let mut congestion = with(flat());
    congestion.on_sample(Time::from_nanos(1_000_000), &few);
    assert_eq!(window(&congestion), 16);
    congestion.on_sample(Time::from_nanos(1_000_000), &more);
    assert_eq!(window(&congestion), 17);
    // Congestion counts whoever caused it.
    let late = Feedback { rtt_ns: 80_000, in_flight: 0, ..few };
    congestion.on_sample(Time::from_nanos(2_000_000), &late);
    assert!(window(&congestion) < 17);
}

#[test]
fn a_good_sample_ends_a_row_of_timeouts_in_an_unused_window_too() {
    let few = Feedback { in_flight: 0, ..feedback(30_000) };
    let mut congestion = with(SwiftConfig { timeouts_max: 2, ..flat() });
    for _ in 0..2 {
        congestion.on_timeout(Time::from_nanos(1_000_000_000));
        assert_eq!(window(&congestion), 8, "cut once in a round trip, and not to the least");
        congestion.on_sample(Time::from_nanos(1_000_000_000), &few);
    }
}

#[test]
fn after_the_first_congestion_the_window_grows_by_a_packet_per_round_trip() {
    let mut congestion = cut_once();
    for _ in 0..13 {
        sample(&mut congestion, 2_000_000, 20_000);
    }
    assert_eq!(window(&congestion), 13);
}

#[test]
fn the_cut_is_in_proportion_to_the_excess_once_per_round_trip() {
    let mut congestion = cut_once();
    sample(&mut congestion, 1_079_999, 80_000);
    assert_eq!(window(&congestion), 12, "within the round trip of the first cut");
    sample(&mut congestion, 1_080_000, 80_000);
    assert_eq!(window(&congestion), 10, "12.8 × 0.8");
    sample(&mut congestion, 9_000_000, 10_000_000);
    assert_eq!(window(&congestion), 10, "sent before the latest cut, so it tells nothing of it");
    sample(&mut congestion, 90_000_000, 10_000_000);
    assert_eq!(window(&congestion), 5, "never more than half");
}

#[test]
fn sparse_losses_cost_four_packets_each_and_a_burst_no_more_than_half() {
    let mut congestion = cut_once();
    congestion.on_loss(Time::from_nanos(3_000_000), 1);
    assert_eq!(window(&congestion), 8, "12.8 - 4");
    for _ in 0..20 {
        congestion.on_loss(Time::from_nanos(3_000_001), 3);
    }
    assert_eq!(window(&congestion), 6, "half of 12.8, within one round trip");

    let mut published = with(SwiftConfig { loss_packets: f64::INFINITY, ..flat() });
    published.on_loss(Time::from_nanos(3_000_000), 1);
    assert_eq!(window(&published), 8, "half, whatever was lost");
}

#[test]
fn timeouts_in_a_row_close_the_window_and_one_answer_reopens_it() {
    let mut congestion = with(flat());
    for timeout in 1..=4u64 {
        congestion.on_timeout(Time::from_nanos(timeout * 4_000_000));
    }
    assert_eq!(window(&congestion), 1, "16 / 2^4");
    assert!(congestion.pace().is_none());
    congestion.on_timeout(Time::from_nanos(20_000_000));
    assert!(congestion.pace().is_some());
    sample(&mut congestion, 21_000_000, 10_000);
    assert!(congestion.pace().is_none(), "0.01 + 1");
    congestion.on_timeout(Time::from_nanos(24_000_000));
    let pace = congestion.pace().expect("half of 1.01 packets").bytes_per_s();
    let expected = 0.505 * 1_514.0 / 10e-6;
    assert!((pace / expected - 1.0).abs() < 1e-3, "{pace}: the count began again");
}

#[test]
fn below_a_packet_the_window_is_one_and_the_pace_a_packet_per_round_trip_over_window() {
    let mut congestion = with(SwiftConfig { window_initial: 0.25, ..flat() });
    // At the target exactly: no excess, no cut.
    sample(&mut congestion, 1_000_000, 40_000);
    let (window, pace) = state(&congestion);
    assert_eq!(window, 1);
    let expected = 0.25 * 1_514.0 / 40e-6;
    assert!((pace.expect("below a packet") / expected - 1.0).abs() < 1e-3);
    // A burst that has passed does not silence the session for its own length.
    sample(&mut congestion, 90_000_000, 40_000_000);
    let pace = state(&congestion).1.expect("below a packet");
    assert!((pace / (expected / 2.0) - 1.0).abs() < 1e-3, "cut by half, and no more: {pace}");
}

#[test]
fn a_round_trip_with_a_handler_in_it_opens_but_never_cuts() {
    let mut congestion = cut_once();
    for now_ns in (20_000_000..30_000_000).step_by(100_000) {
        let served = Feedback { served: true, ..feedback(5_000_000) };
        congestion.on_sample(Time::from_nanos(now_ns), &served);
    }
    assert_eq!(window(&congestion), 12);
    for _ in 0..13 {
        let served = Feedback { served: true, ..feedback(30_000) };
        congestion.on_sample(Time::from_nanos(40_000_000), &served);
    }
    assert_eq!(window(&congestion), 13);
}

#[test]
fn a_path_far_longer_than_configured_is_not_throttled() {
    let mut congestion = with(flat());
    for round in 1..=50 {
        sample(&mut congestion, round * 5_000_000, 5_000_000);
    }
    assert!(window(&congestion) > 16, "no queue stands, whatever the target says");
    for round in 51..=100 {
        sample(&mut congestion, round * 5_000_000, 8_000_000);
    }
    assert!(window(&congestion) < 16, "a queue beyond the target on top is one");
}
