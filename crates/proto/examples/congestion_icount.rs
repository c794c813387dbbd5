//! Instructions of congestion control and of the timing wheel, for callgrind.
//!
//! `congestion_icount WHAT N` does one thing N times; the difference between two lengths is its
//! cost, without start-up. `empty` is the loop alone. `docs/congestion.md` has the figures.

use std::hint::black_box;

use petasos_base::{Time, Wheel};
use petasos_proto::{Congestion, CongestionConfig, Feedback, Pacer};

const WHATS: &str = "empty, timely-bypass, swift-bypass, dctcp-bypass, timely-update, \
                     swift-update, dctcp-update, window, charge, wheel-idle, wheel";
const WINDOW: u32 = 32;
/// Before the measured part: DCTCP's average takes a hundred windows to forget its start.
const WARM: u64 = 10_000;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [what, count] = arguments.as_slice() else { panic!("usage: WHAT N; WHAT: {WHATS}") };
    let count: u64 = count.parse().expect("a number");
    match what.as_str() {
        "empty" => _ = sum(count),
        "timely-bypass" => samples(&CongestionConfig::timely(), count, true),
        "swift-bypass" => samples(&CongestionConfig::swift(), count, true),
        "dctcp-bypass" => samples(&CongestionConfig::dctcp(), count, true),
        "timely-update" => samples(&CongestionConfig::timely(), count, false),
        "swift-update" => samples(&CongestionConfig::swift(), count, false),
        "dctcp-update" => samples(&CongestionConfig::dctcp(), count, false),
        "window" => windows(count),
        "charge" => charges(count),
        "wheel-idle" => wheel_idle(count),
        "wheel" => wheel(count),
        _ => panic!("WHAT is one of {WHATS}"),
    }
}

fn sum(count: u64) -> u64 {
    (0..count).fold(0, |sum, step| black_box(sum + step))
}

/// Samples of a free path, or such that each is worked through.
fn samples(config: &CongestionConfig, count: u64, clear: bool) {
    let mut congestion = Congestion::new(config, WINDOW);
    let free = Feedback { rtt_ns: 10_000, packets: 1, marked: 0, in_flight: WINDOW, served: false };
    for step in 0..WARM {
        congestion.on_sample(Time::from_nanos(step), &free);
    }
    for step in 0..count {
        let rtt_ns = if clear { 10_000 } else { 60_000 + step % 64 };
        let marked = u32::from(!clear);
        let feedback = black_box(Feedback { rtt_ns, marked, ..free });
        congestion.on_sample(Time::from_nanos(black_box(step * 1_000)), &feedback);
    }
    black_box(&congestion);
}

fn windows(count: u64) {
    let congestion = black_box(Congestion::new(&CongestionConfig::swift(), WINDOW));
    for _ in 0..count {
        let congestion = black_box(&congestion);
        black_box((congestion.window_packets(black_box(8)), congestion.pace().is_some()));
    }
}

/// What a paced packet costs beyond an unpaced one, but for the wheel.
fn charges(count: u64) {
    let config = CongestionConfig { pacing_bypass: false, ..CongestionConfig::swift() };
    let congestion = black_box(Congestion::new(&config, WINDOW));
    let mut pacer = Pacer::default();
    for step in 0..count {
        let now = Time::from_nanos(black_box(step * 1_000));
        if let Some(pace) = black_box(&congestion).pace()
            && pacer.is_open(now, 4_000)
        {
            pacer.charge(now, black_box(1_514), pace);
        }
    }
    black_box(pacer);
}

/// A turn of the event loop in which nothing is due.
fn wheel_idle(count: u64) {
    let mut wheel: Wheel<u32> = Wheel::new(512, 2_000_000);
    wheel.insert(Time::ZERO, Time::from_nanos(1_000_000), 1);
    for _ in 0..count {
        wheel.advance(black_box(Time::from_nanos(1_000)), |item| _ = black_box(item));
    }
}

/// One item in, and out again when its time has come, with a hundred in the wheel.
fn wheel(count: u64) {
    let mut wheel: Wheel<u32> = Wheel::new(512, 2_000_000);
    for step in 0..count {
        let now = Time::from_nanos(step * 1_000);
        wheel.insert(now, black_box(Time::from_nanos((step + 100) * 1_000)), step as u32);
        wheel.advance(now, |item| _ = black_box(item));
    }
}
