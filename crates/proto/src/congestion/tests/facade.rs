use petasos_base::Time;
use proptest::prelude::*;

use super::{sample, state};
use crate::{
    AlgorithmConfig, Congestion, CongestionConfig, DctcpConfig, Feedback, SwiftConfig, TimelyConfig,
};

fn all() -> [CongestionConfig; 4] {
    let none = CongestionConfig::none();
    [none, CongestionConfig::timely(), CongestionConfig::swift(), CongestionConfig::dctcp()]
}

#[test]
fn without_an_algorithm_the_credits_alone_limit() {
    let mut congestion = Congestion::new(&CongestionConfig::none(), 8);
    sample(&mut congestion, 5, u64::MAX);
    congestion.on_loss(Time::ZERO, 8);
    congestion.on_timeout(Time::ZERO);
    assert_eq!(congestion.window_packets(7), 7);
    assert_eq!(state(&congestion), (u32::MAX, None));
}

#[test]
fn the_receivers_credits_bound_every_window() {
    for config in all() {
        let congestion = Congestion::new(&config, 32);
        assert_eq!(congestion.window_packets(3), 3);
        assert_eq!(congestion.window_packets(0), 0);
    }
}

#[test]
fn without_the_pacing_bypass_everything_is_paced_at_the_links_rate() {
    for config in all() {
        let config = CongestionConfig { pacing_bypass: false, ..config };
        let congestion = Congestion::new(&config, 32);
        let rate = state(&congestion).1.expect("paced");
        assert!((rate / 3.125e9 - 1.0).abs() < 1e-5, "{rate}");
    }
}

/// With and without the bypass the same samples end in the same state: it skips only what would
/// change nothing, but for DCTCP's place in its observation window.
#[test]
fn the_rate_bypass_skips_only_what_changes_nothing() {
    for config in [CongestionConfig::timely(), CongestionConfig::swift()] {
        let mut with = Congestion::new(&config, 32);
        let mut without = Congestion::new(&CongestionConfig { rate_bypass: false, ..config }, 32);
        for step in 1..2_000u64 {
            // A quiet time, then a queue that comes and goes.
            let rtt_ns = if step < 1_000 { 10_000 } else { 10_000 + (step % 64) * 1_500 };
            sample(&mut with, step * 5_000, rtt_ns);
            sample(&mut without, step * 5_000, rtt_ns);
        }
        let (paced, window) = (state(&with).1.is_some(), state(&with).0);
        assert!(paced || window < 32, "{config:?} met congestion");
        let (rate, rate_without) =
            (state(&with).1.unwrap_or(0.0), state(&without).1.unwrap_or(0.0));
        assert_eq!(window, state(&without).0);
        assert!((rate - rate_without).abs() <= 0.02 * rate, "{rate} and {rate_without}");
    }
}

/// Timely's gradient shows which samples were worked through.
#[test]
fn without_the_rate_bypass_quiet_samples_count() {
    let after_a_jump = |rate_bypass| {
        let config = CongestionConfig { rate_bypass, ..CongestionConfig::timely() };
        let mut congestion = Congestion::new(&config, 32);
        sample(&mut congestion, 10_000, 10_000);
        sample(&mut congestion, 20_000, 60_000);
        state(&congestion).1.expect("above T_low")
    };
    assert!(after_a_jump(false) < after_a_jump(true), "50 µs more than nothing, or than 10 µs");
}

#[test]
fn parameters_out_of_their_ranges_are_named() {
    let named = |config: CongestionConfig| config.validate().expect_err("out of range").parameter;
    let base = CongestionConfig::default();
    for config in all() {
        assert_eq!(config.validate(), Ok(()));
    }
    assert_eq!(named(CongestionConfig { link_bytes_per_s: 0, ..base }), "link_bytes_per_s");
    assert_eq!(named(CongestionConfig { packet_bytes: 63, ..base }), "packet_bytes");
    assert_eq!(named(CongestionConfig { burst_ns: 1_000_001, ..base }), "burst_ns");
    let swift =
        |swift| named(CongestionConfig { algorithm: AlgorithmConfig::Swift(swift), ..base });
    let good = SwiftConfig::default();
    assert_eq!(swift(SwiftConfig { beta: f64::NAN, ..good }), "beta");
    assert_eq!(swift(SwiftConfig { decrease_max: 1.0, ..good }), "decrease_max");
    assert_eq!(swift(SwiftConfig { flow_window_min: 16.0, ..good }), "flow_window_max");
    assert_eq!(swift(SwiftConfig { window_min: 0.0, ..good }), "window_min");
    let timely = TimelyConfig { low_ns: 1_000_000, ..TimelyConfig::default() };
    let config = CongestionConfig { algorithm: AlgorithmConfig::Timely(timely), ..base };
    assert_eq!(named(config), "high_ns");
    let slow = CongestionConfig { link_bytes_per_s: 1_000_000, ..CongestionConfig::timely() };
    assert_eq!(named(slow), "rate_min_bytes_per_s");
    let dctcp = DctcpConfig { gain: 0.0, ..DctcpConfig::default() };
    assert_eq!(
        named(CongestionConfig { algorithm: AlgorithmConfig::Dctcp(dctcp), ..base }),
        "gain"
    );
    let error = slow.validate().expect_err("out of range").to_string();
    assert_eq!(error, "congestion control: rate_min_bytes_per_s is out of its range");
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Sample(u64, u32, u32, u32, bool),
    Loss(u32),
    Timeout,
}

fn step() -> impl Strategy<Value = (u64, Step)> {
    let rtt_ns = prop_oneof![0u64..100, 1_000u64..200_000, 0u64..10_000_000_000, Just(u64::MAX)];
    let packets = prop_oneof![Just(1u32), 0u32..64, any::<u32>()];
    let marked = prop_oneof![3 => Just(0u32), 1 => 0u32..64, 1 => any::<u32>()];
    let sample = (rtt_ns, packets, marked, 0u32..64, any::<bool>());
    let sample = sample.prop_map(|(rtt, packets, marked, in_flight, served)| {
        Step::Sample(rtt, packets, marked, in_flight, served)
    });
    let what = prop_oneof![
        8 => sample,
        2 => prop_oneof![Just(1u32), any::<u32>()].prop_map(Step::Loss),
        1 => Just(Step::Timeout),
    ];
    (prop_oneof![0u64..100, 0u64..100_000, Just(10_000_000_000)], what)
}

proptest! {
    /// Whatever a path and a peer make up, a session may send: at least a packet, at a pace that
    /// lets one out within seconds, and never faster than the link.
    #[test]
    fn no_input_silences_a_session_or_lifts_its_bounds(
        which in 0usize..4,
        rate_bypass in any::<bool>(),
        steps in prop::collection::vec(step(), 0..200),
    ) {
        let config = CongestionConfig { rate_bypass, ..all()[which] };
        let mut congestion = Congestion::new(&config, 32);
        let mut now = Time::ZERO;
        for (pause_ns, step) in steps {
            now = now.plus_nanos(pause_ns);
            match step {
                Step::Sample(rtt_ns, packets, marked, in_flight, served) => {
                    let feedback = Feedback { rtt_ns, packets, marked, in_flight, served };
                    congestion.on_sample(now, &feedback);
                }
                Step::Loss(packets) => congestion.on_loss(now, packets),
                Step::Timeout => congestion.on_timeout(now),
            }
            prop_assert!(congestion.window_packets(u32::MAX) >= 1);
            if let Some(pace) = congestion.pace() {
                prop_assert!(pace.nanos(config.packet_bytes) < 10_000_000_000, "{pace:?}");
            }
        }
    }
}
