use super::{sample, state};
use crate::{AlgorithmConfig, Congestion, CongestionConfig, DctcpConfig, Feedback};
use petasos_base::Time;

fn fresh() -> Congestion {
    let dctcp = DctcpConfig { window_initial: 32.0, ..DctcpConfig::default() };
    let algorithm = AlgorithmConfig::Dctcp(dctcp);
    Congestion::new(&CongestionConfig { algorithm, ..CongestionConfig::default() }, 64)
}

/// A window's worth of packets returns, `marked` of them with a mark, as many are in flight.
fn round(congestion: &mut Congestion, marked: u32) {
    let packets = congestion.window_packets(u32::MAX);
    let feedback = Feedback { rtt_ns: 30_000, packets, marked, in_flight: packets, served: false };
    congestion.on_sample(Time::ZERO, &feedback);
}

fn window(congestion: &Congestion) -> u32 {
    congestion.window_packets(u32::MAX)
}

/// A session at its greatest window whose average of marks has gone to nothing.
fn clear() -> Congestion {
    let mut congestion = fresh();
    for _ in 0..150 {
        round(&mut congestion, 0);
    }
    assert_eq!(window(&congestion), 64);
    congestion
}

#[test]
fn the_first_mark_counts_as_much_as_a_loss() {
    let mut congestion = fresh();
    round(&mut congestion, 1);
    assert_eq!(window(&congestion), 16);
}

#[test]
fn without_marks_the_window_doubles_at_first_and_later_grows_by_a_packet() {
    let mut congestion = fresh();
    round(&mut congestion, 0);
    assert_eq!(window(&congestion), 64);
    let mut congestion = fresh();
    round(&mut congestion, 1);
    round(&mut congestion, 0);
    assert_eq!(window(&congestion), 17);
}

#[test]
fn the_cut_follows_the_average_fraction_of_marks() {
    let mut congestion = clear();
    // The average is 0 at the first mark, which only enters it: 1/16 after all were marked.
    round(&mut congestion, 64);
    assert_eq!(window(&congestion), 64);
    round(&mut congestion, 64);
    assert_eq!(window(&congestion), 62, "64 × (1 - 1/32)");
    for _ in 0..200 {
        let all = window(&congestion);
        round(&mut congestion, all);
    }
    assert_eq!(window(&congestion), 1, "with every packet marked it halves to below one");
    assert!(congestion.pace().is_some());
}

#[test]
fn one_observation_window_cuts_once() {
    let mut congestion = fresh();
    round(&mut congestion, 1);
    for left in (0..8).rev() {
        let marks =
            Feedback { rtt_ns: 30_000, packets: 4, marked: 4, in_flight: 4 * left, served: false };
        congestion.on_sample(Time::ZERO, &marks);
        // 31/32 of 16, or the whole window of 32 packets that were in flight would be cut twice.
        assert_eq!(window(&congestion), 8, "{left} left");
    }
}

#[test]
fn nothing_grows_in_an_observation_window_that_was_cut() {
    let mut congestion = clear();
    congestion.on_loss(Time::ZERO, 1);
    let rest = Feedback { rtt_ns: 30_000, packets: 48, marked: 0, in_flight: 16, served: false };
    congestion.on_sample(Time::ZERO, &rest);
    assert_eq!(window(&congestion), 32);
}

#[test]
fn a_clear_session_still_sees_few_marks() {
    let mut congestion = clear();
    for _ in 0..40 {
        round(&mut congestion, 1);
    }
    assert!(window(&congestion) < 64);
}

#[test]
fn a_loss_halves_once_and_a_timeout_leaves_one_packet() {
    let mut congestion = clear();
    congestion.on_loss(Time::ZERO, 1);
    congestion.on_loss(Time::ZERO, 5);
    assert_eq!(window(&congestion), 32);
    congestion.on_timeout(Time::ZERO);
    assert_eq!(state(&congestion), (1, None));
    // Slow start again, up to half of what it was.
    for _ in 0..4 {
        round(&mut congestion, 0);
    }
    assert!(window(&congestion) >= 16);
    round(&mut congestion, 0);
    assert!(window(&congestion) < 20);
}

#[test]
fn delay_means_nothing() {
    let mut congestion = clear();
    sample(&mut congestion, 1, u64::MAX);
    assert_eq!(state(&congestion), (64, None));
}
