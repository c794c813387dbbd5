//! Convergence in the closed loop. `-- --nocapture` prints the figures of `docs/congestion.md`.

use super::model::{Model, Outcome};
use crate::{AlgorithmConfig, CongestionConfig};

fn run(model: Model) -> Outcome {
    let found = model.run();
    let name = match model.config.algorithm {
        AlgorithmConfig::None => "none",
        AlgorithmConfig::Timely(_) => "timely",
        AlgorithmConfig::Swift(_) => "swift",
        AlgorithmConfig::Dctcp(_) => "dctcp",
    };
    let us = |nanos: u64| nanos as f64 / 1e3;
    println!(
        "{name:6} {:4} senders, loss {:.0e}, buffer {:5} kB: {:5.1} Gbit/s, p50 {:6.1} µs, \
         p99 {:6.1} µs ({:6.1} with start-up), Jain {:.3}, {} lost, {} paced",
        model.senders,
        model.loss,
        model.buffer_bytes / 1_000,
        found.utilisation * 25.0,
        us(found.p50_ns),
        us(found.p99_ns),
        us(found.p99_all_ns),
        found.fairness,
        found.lost,
        found.paced,
    );
    found
}

fn incast(config: CongestionConfig, senders: usize) -> Outcome {
    run(Model::incast(config, senders))
}

#[test]
fn without_control_the_queue_holds_all_that_the_receivers_grant() {
    // 50 × 32 packets of 1,514 bytes at 25 Gbit/s are 775 µs.
    assert!(incast(CongestionConfig::none(), 50).p50_ns > 750_000);
    assert!(incast(CongestionConfig::none(), 100).p50_ns > 1_500_000);
}

#[test]
fn swift_keeps_the_queue_short_the_link_busy_and_the_shares_even() {
    for (senders, p99_ns) in [(1, 20_000), (2, 40_000), (10, 50_000), (20, 60_000), (50, 80_000)] {
        let found = incast(CongestionConfig::swift(), senders);
        assert!(found.utilisation > 0.95 && found.fairness > 0.95, "{found:?}");
        assert!(found.p99_ns < p99_ns && found.lost == 0, "{found:?}");
    }
}

#[test]
fn swift_paces_more_senders_than_packets_fit() {
    for (senders, p99_ns) in [(100, 100_000), (200, 150_000), (400, 200_000)] {
        let found = incast(CongestionConfig::swift(), senders);
        assert!(found.utilisation > 0.9 && found.fairness > 0.8, "{found:?}");
        assert!(found.p99_ns < p99_ns && found.lost == 0, "{found:?}");
        assert!(found.paced > senders / 4, "windows below a packet: {found:?}");
    }
}

/// The milestone's goals are for all packets of an incast, those of its begin included.
#[test]
fn swift_meets_the_goals_with_the_start_up_included() {
    assert!(incast(CongestionConfig::swift(), 50).p99_all_ns < 120_000);
    assert!(incast(CongestionConfig::swift(), 100).p99_all_ns < 400_000);
}

#[test]
fn swift_makes_room_for_latecomers() {
    for senders in [10, 100] {
        let model = Model::incast(CongestionConfig::swift(), senders);
        let found = run(Model { start_ns: 9_000_000, ..model });
        assert!(found.utilisation > 0.95 && found.fairness > 0.9, "{found:?}");
    }
}

/// A port that holds less than the target takes to fill: losses are the only signal. With two
/// packets of room for each sender, halving and growing by one loses one packet in five.
#[test]
fn swift_works_within_a_buffer_that_is_smaller_than_its_target() {
    for (senders, buffer_bytes, lost_of_100) in [(2, 60_000, 2), (20, 60_000, 25), (50, 150_000, 3)]
    {
        let model = Model::incast(CongestionConfig::swift(), senders);
        let found = run(Model { buffer_bytes, ..model });
        assert!(found.utilisation > 0.95 && found.fairness > 0.8, "{found:?}");
        // 40 ms at the full rate are 82,000 packets.
        assert!(found.lost < 820 * lost_of_100, "{found:?}");
    }
}

#[test]
fn swift_does_not_mistake_sparse_loss_for_congestion() {
    for (loss, utilisation) in [(1e-4, 0.95), (1e-3, 0.8), (1e-2, 0.5)] {
        let model = Model::incast(CongestionConfig::swift(), 1);
        let found = run(Model { loss, ..model });
        assert!(found.utilisation > utilisation, "{found:?}");
    }
}

#[test]
fn timely_shortens_the_queue_at_a_price_in_bandwidth() {
    for (senders, utilisation, p99_ns) in
        [(10, 0.6, 120_000), (20, 0.65, 150_000), (50, 0.8, 180_000), (100, 0.9, 1_000_000)]
    {
        let found = incast(CongestionConfig::timely(), senders);
        assert!(found.utilisation > utilisation && found.fairness > 0.9, "{found:?}");
        assert!(found.p99_ns < p99_ns && found.lost == 0, "{found:?}");
    }
}

#[test]
fn dctcp_keeps_the_queue_at_the_marking_threshold() {
    for (senders, fairness) in [(2, 0.9), (10, 0.9), (50, 0.9), (100, 0.8)] {
        let found = incast(CongestionConfig::dctcp(), senders);
        assert!(found.utilisation > 0.95 && found.fairness > fairness, "{found:?}");
        // 80 kB are 26 µs; a packet of each sender may come on top.
        assert!(found.p99_ns < 80_000 && found.lost == 0, "{found:?}");
    }
}
