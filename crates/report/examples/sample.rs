//! Writes a report with every kind of figure, to look at.
//!
//! `cargo run -p petasos-report --example sample OUT.html`

use std::path::Path;

use petasos_base::Rng;
use petasos_report::{Axis, Bar, Column, Figure, Histogram, Machine, Report, Series, Table, Tone};

fn main() {
    let path = std::env::args().nth(1).unwrap_or_else(|| "sample.html".to_owned());
    let report = Report::new(
        "Latency, rate and bandwidth",
        "Made-up figures that show what a report looks like",
    )
    .command(format!("cargo run -p petasos-report --example sample {path}"))
    .machine(Machine::read())
    .highlight("Median latency", "5.92 µs", "1.04 × the raw socket")
    .highlight("Rate", "6.51 M/s", "0.61 × raw batches, 13 × single datagrams")
    .highlight("Bandwidth", "44.1 Gbit/s", "0.76 × the raw transfer")
    .figure(latency())
    .figure(rates())
    .figure(sizes())
    .figure(windows())
    .figure(gaps())
    .table("Pairs of turns", pairs());
    match report.write(Path::new(&path)) {
        Ok(()) => println!("wrote {path}"),
        Err(error) => eprintln!("{error}"),
    }
}

fn latency() -> Figure {
    let mut rng = Rng::new(1);
    let mut sample = |base_ns: u64, count: u64| {
        let mut histogram = Histogram::new();
        for _ in 0..count {
            let tail = if rng.chance(0.003) { rng.below(40_000) } else { rng.below(600) };
            histogram.record_ns(base_ns + tail);
        }
        histogram
    };
    let series = [
        ("Petasos", Tone::Primary, sample(5600, 200_000)),
        ("Raw socket", Tone::Secondary, sample(5300, 120_000)),
    ];
    Figure::percentiles("Round trip of 32 B", series)
        .caption("One call outstanding, both sides spinning, each on a core of its own.")
}

fn rates() -> Figure {
    let bars = vec![
        Bar::new("Petasos", 6.51e6, Tone::Primary).range(5.2e6, 7.4e6),
        Bar::new("Raw, batches of 32", 10.7e6, Tone::Secondary).range(8.1e6, 11.2e6),
        Bar::new("Raw, one datagram per call", 0.48e6, Tone::Tertiary).range(0.41e6, 0.5e6),
    ];
    Figure::bars("Rate with 64 outstanding", Axis::linear("Completed calls", "RPC/s"), bars)
        .caption("Medians; the whiskers span the turns.")
}

fn sizes() -> Figure {
    let sizes = [32.0, 256.0, 1024.0, 8192.0, 65_536.0, 1_048_576.0, 8_388_608.0];
    let series = |name, tone, overhead: f64, gbit: f64| {
        let goodput = |size: f64| (size, size * 8.0 / (overhead * 1e3 + size * 8.0 / gbit));
        Series::new(name, tone, sizes.map(goodput))
    };
    let series = vec![
        series("Petasos", Tone::Primary, 6.1, 44.0),
        series("Raw", Tone::Secondary, 5.8, 58.0),
    ];
    let (x, y) = (Axis::log("Request size", "B"), Axis::log("Goodput", "Gbit/s"));
    Figure::lines("Goodput by request size", x, y, series)
}

fn windows() -> Figure {
    let line = |name, tone, slope: f64, limit: f64| {
        let rate = |window: u32| (f64::from(window), (f64::from(window) * slope).min(limit));
        Series::new(name, tone, (1..=64).step_by(3).map(rate))
    };
    let series = vec![
        line("Petasos", Tone::Primary, 0.17e6, 6.5e6),
        line("Raw, 16", Tone::Secondary, 0.19e6, 6.2e6),
        line("Raw, 32", Tone::Tertiary, 0.21e6, 10.7e6),
        line("Raw, 64", Tone::Quaternary, 0.18e6, 9.7e6),
        line("Single", Tone::Muted, 0.16e6, 0.48e6),
    ];
    let (x, y) = (Axis::linear("Outstanding calls", ""), Axis::linear("Rate", "1/s"));
    Figure::lines("Rate by window", x, y, series)
}

fn gaps() -> Figure {
    let bars = vec![
        Bar::new("upgrade, WWWWWWWWWW behind sidecars", 1760.0, Tone::Primary).range(900.0, 2400.0),
        Bar::new("managed-local, all of them", 870.0, Tone::Secondary),
        Bar::new("relay", 12.5, Tone::Muted),
    ];
    Figure::bars("Longest gap by change", Axis::linear("Gap", "µs"), bars)
        .caption("Names are cut at thirty characters, and nowhere else.")
}

fn pairs() -> Table {
    let mut table = Table::new([
        Column::number("Pair", ""),
        Column::number("Petasos", "M/s"),
        Column::number("Floor", "M/s"),
        Column::number("Ratio", ""),
    ]);
    for pair in 1..=5u32 {
        let (petasos, floor) = (6.0 + f64::from(pair) / 10.0, 10.2 + f64::from(pair) / 7.0);
        table.push([
            pair.to_string(),
            format!("{petasos:.2}"),
            format!("{floor:.2}"),
            format!("{:.3}", petasos / floor),
        ]);
    }
    table
}
