use super::{feedback, sample, state};
use crate::{AlgorithmConfig, Congestion, CongestionConfig, Feedback, TimelyConfig};
use petasos_base::Time;

const LINK: f64 = 3.125e9;

fn with(timely: TimelyConfig) -> Congestion {
    let algorithm = AlgorithmConfig::Timely(timely);
    Congestion::new(&CongestionConfig { algorithm, ..CongestionConfig::default() }, 32)
}

/// The rate after round trips that arrive 10 µs apart: each a full step.
fn rate_after(timely: TimelyConfig, rtts_us: &[u64]) -> f64 {
    let mut congestion = with(timely);
    for (index, rtt_us) in rtts_us.iter().enumerate() {
        sample(&mut congestion, (index as u64 + 1) * 10_000, rtt_us * 1_000);
    }
    state(&congestion).1.unwrap_or(LINK)
}

#[track_caller]
fn assert_near(found: f64, expected: f64) {
    assert!((found / expected - 1.0).abs() < 1e-3, "{found} instead of {expected}");
}

#[test]
fn an_uncongested_session_is_not_paced() {
    let mut congestion = Congestion::new(&CongestionConfig::timely(), 32);
    assert_eq!(state(&congestion), (u32::MAX, None));
    sample(&mut congestion, 10_000, 49_999);
    assert_eq!(state(&congestion), (u32::MAX, None));
}

#[test]
fn rising_round_trips_decrease_the_rate_by_their_distance_and_gradient() {
    let timely = TimelyConfig::default();
    // A difference of 10 µs is far beyond a gradient of 1/4, so the weight is 1:
    // 1 - 0.26 × (70 - 50) / 50.
    assert_near(rate_after(timely, &[60, 70]), LINK * (1.0 - 0.26 * 0.5 * 0.2) * (1.0 - 0.104));
    // As first published: 1 - 0.26 × 0.46 × 1 µs / 2 µs, after one step up at gradient 0.
    let published = TimelyConfig { patched: false, ..timely };
    assert_near(rate_after(published, &[60, 61]), LINK * (1.0 - 0.26 * 0.23));
    // Above T_high: 1 - 0.26 × (1 - 1000 / 2000), whatever the gradient.
    assert_near(rate_after(timely, &[2_000]), LINK * (1.0 - 0.26 * 0.5));
}

#[test]
fn the_rate_rises_by_steps_and_in_leaps_once_round_trips_keep_falling() {
    let published = TimelyConfig { patched: false, ..TimelyConfig::default() };
    let start = rate_after(published, &[60, 80]);
    assert!(start < LINK - 100e6, "there is room to rise");
    assert_near(rate_after(published, &[60, 80, 40]), start + 5e6);
    // The average gradient is below zero from the second falling sample on.
    let falling = [60, 80, 75, 70, 65, 60, 55];
    let leap = rate_after(published, &falling) - rate_after(published, &falling[..6]);
    assert_near(leap, 25e6);
}

#[test]
fn the_rate_stays_within_its_bounds_and_is_at_most_halved() {
    let timely = TimelyConfig::default();
    let rises: Vec<u64> = (0..100).map(|step| 60 + step * 9).collect();
    assert_near(rate_after(timely, &rises), 15e6);
    assert_near(rate_after(timely, &[60, 900]), LINK * (1.0 - 0.26 * 0.5 * 0.2) * 0.5);
    let recovered = [rises, vec![20; 700]].concat();
    assert_eq!(rate_after(timely, &recovered), LINK, "exactly, or it would never be bypassed");
}

#[test]
fn samples_closer_than_the_least_round_trip_count_less() {
    let mut congestion = with(TimelyConfig::default());
    sample(&mut congestion, 10_000, 2_000_000);
    let before = state(&congestion).1.expect("paced by now");
    sample(&mut congestion, 10_500, 20_000);
    let step = state(&congestion).1.expect("not at the link's rate yet") - before;
    assert!((step / (5e6 / 4.0) - 1.0).abs() < 0.01, "{step}: a quarter of 2 µs passed");
}

#[test]
fn a_round_trip_with_a_handler_in_it_never_slows_down() {
    let mut congestion = with(TimelyConfig::default());
    for now_us in 1..100u64 {
        let served = Feedback { served: true, ..feedback(now_us * 50_000) };
        congestion.on_sample(Time::from_nanos(now_us * 1_000), &served);
    }
    assert_eq!(state(&congestion).1, None);
}

#[test]
fn losses_count_once_per_round_trip() {
    let mut congestion = with(TimelyConfig::default());
    sample(&mut congestion, 1_000_000, 60_000);
    let before = state(&congestion).1.expect("above T_low");
    for now_ns in [1_010_000, 1_020_000, 1_069_999] {
        congestion.on_loss(Time::from_nanos(now_ns), 3);
        assert_near(state(&congestion).1.expect("slower"), before * 0.75);
    }
    congestion.on_loss(Time::from_nanos(1_070_000), 1);
    assert_near(state(&congestion).1.expect("slower"), before * 0.75 * 0.75);
    congestion.on_timeout(Time::from_nanos(1_070_000));
    assert_near(state(&congestion).1.expect("slower"), before * 0.75 * 0.75 * 0.5);
}
