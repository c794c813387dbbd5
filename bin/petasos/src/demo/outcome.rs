//! The results of the demo: as a table, as a report with figures, and as JSON.

use std::net::SocketAddr;

use petasos_report::{
    Axis, Bar, Column, Figure, Histogram, Machine, Report, Series, Table, Tone, duration_us,
    significant, with_si_prefix,
};

use super::plan::Show;
use petasos_cli::size::in_words;

/// The results of a phase that succeeded.
#[derive(Debug)]
pub struct Measured {
    /// The name of the phase.
    pub name: String,
    /// How to show the results.
    pub show: Show,
    /// The number of outstanding calls.
    pub window: usize,
    /// The number of calls.
    pub calls: u64,
    /// The bytes of the text that were transferred in either direction.
    pub bytes: u64,
    /// The duration.
    pub seconds: f64,
    /// The latency of each call, from making it until its answer arrived.
    pub latency: Histogram,
}

impl Measured {
    fn calls_per_s(&self) -> f64 {
        self.calls as f64 / self.seconds
    }

    fn gbit_per_s(&self) -> f64 {
        self.bytes as f64 * 8.0 / self.seconds / 1e9
    }

    fn p50_us(&self) -> f64 {
        self.latency.quantile_us(0.5).unwrap_or(f64::NAN)
    }

    fn row(&self) -> [String; 9] {
        let at = |quantile| self.latency.quantile_us(quantile).map_or("–".into(), significant);
        [
            self.name.clone(),
            self.window.to_string(),
            self.calls.to_string(),
            in_words(self.bytes),
            at(0.5),
            at(0.99),
            at(0.999),
            with_si_prefix(self.calls_per_s()),
            significant(self.gbit_per_s()),
        ]
    }
}

/// The results of all phases, which have succeeded.
#[derive(Debug)]
pub struct Outcome {
    text: String,
    server: SocketAddr,
    phases: Vec<Measured>,
    machine: Machine,
}

impl Outcome {
    /// The outcome of `phases` with `text` at `server`.
    pub fn new(text: String, server: SocketAddr, phases: Vec<Measured>) -> Outcome {
        Outcome { text, server, phases, machine: Machine::read() }
    }

    /// The table.
    pub fn table(&self) -> Table {
        let mut table = Table::new([
            Column::text("Phase"),
            Column::number("Window", ""),
            Column::number("Calls", ""),
            Column::number("Data", ""),
            Column::number("p50", "µs"),
            Column::number("p99", "µs"),
            Column::number("p99.9", "µs"),
            Column::number("Calls/s", ""),
            Column::number("Gbit/s", ""),
        ]);
        self.phases.iter().for_each(|phase| table.push(phase.row()));
        table
    }

    /// The summary in one sentence.
    pub fn verdict(&self) -> String {
        let stored = |phase: &&Measured| phase.name.starts_with("put");
        let sum = |phases: Vec<&Measured>| phases.iter().map(|phase| phase.bytes).sum::<u64>();
        let (put, got): (Vec<_>, Vec<_>) = self.phases.iter().partition(stored);
        format!(
            "every byte was right: {} stored, {} read back in {} calls and compared",
            in_words(sum(put)),
            in_words(sum(got.clone())),
            got.iter().map(|phase| phase.calls).sum::<u64>(),
        )
    }

    /// The report.
    pub fn report(&self, command: &str) -> Report {
        let subtitle = format!("{}, stored in another process and read back", self.text);
        let mut report = Report::new("Two processes, every byte checked", subtitle)
            .command(command)
            .machine(self.machine.clone());
        if let Some(single) = self.phases.iter().find(|phase| phase.window == 1) {
            let note = format!("{}, one at a time, median", single.name);
            report = report.highlight("Round trip", duration_us(single.p50_us()), note);
        }
        if let Some(best) = self.best(|phase| phase.calls_per_s()) {
            let value = format!("{}/s", with_si_prefix(best.calls_per_s()));
            let note = format!("{}, {} outstanding", best.name, best.window);
            report = report.highlight("Rate", value, note);
        }
        if let Some(best) = self.best(|phase| phase.gbit_per_s()) {
            let value = format!("{} Gbit/s", significant(best.gbit_per_s()));
            report = report.highlight("Bandwidth", value, best.name.clone());
        }
        report
            .paragraph(format!("In this run, {}.", self.verdict()))
            .figure(self.latencies())
            .figure(self.rates())
            .figure(self.bandwidths())
            .table("All phases", self.table())
    }

    fn best(&self, by: impl Fn(&Measured) -> f64) -> Option<&Measured> {
        self.phases.iter().max_by(|left, right| by(left).total_cmp(&by(right)))
    }

    fn latencies(&self) -> Figure {
        let tones = [Tone::Primary, Tone::Secondary, Tone::Tertiary];
        let shown = self.phases.iter().filter(|phase| phase.show == Show::Latency);
        let series = shown.zip(tones).map(|(phase, tone)| {
            let name = format!("{} outstanding", phase.window);
            (name, tone, phase.latency.clone())
        });
        Figure::percentiles("Time to get one line", series.collect::<Vec<_>>()).caption(
            "From the call until its answer has been checked. With many calls outstanding, each \
             waits for those before it: the rate rises, and so does the time.",
        )
    }

    fn rates(&self) -> Figure {
        let is_shown = |phase: &&Measured| matches!(phase.show, Show::Rate | Show::Latency);
        let shown = self.phases.iter().filter(is_shown);
        let bars = shown.map(|phase| {
            let tone = if phase.window == 1 { Tone::Secondary } else { Tone::Primary };
            let name = match phase.window {
                1 => format!("{}, one at a time", phase.name),
                window => format!("{}, {window}", phase.name),
            };
            Bar::new(name, phase.calls_per_s(), tone)
        });
        let axis = Axis::linear("Completed calls", "1/s");
        Figure::bars("Rate of each phase", axis, bars.collect()).caption(
            "One client and one server process, one thread each; the number is how many calls are \
             outstanding. Calls of nearly equal length travel in trains, many to a system call; \
             calls that are all equal are faster still: petasos bench rate.",
        )
    }

    fn bandwidths(&self) -> Figure {
        let points = |piped: bool| {
            let shown = self.phases.iter().filter(move |phase| (phase.window > 1) == piped);
            shown.filter_map(|phase| match phase.show {
                Show::Bandwidth(size) => Some((size as f64, phase.gbit_per_s())),
                _ => None,
            })
        };
        let piped = Series::new("8 outstanding", Tone::Primary, points(true));
        let single = Series::new("One at a time", Tone::Secondary, points(false));
        let (x, y) = (Axis::log("Size of a piece", "B"), Axis::linear("Data", "Gbit/s"));
        Figure::lines("Bandwidth by size", x, y, vec![piped, single])
            .caption("The text read in pieces, up to the whole of it as one value; checked bytes.")
    }

    /// The figures for programs.
    pub fn to_json(&self, command: &str) -> String {
        let phase = |phase: &Measured| {
            serde_json::json!({
                "name": phase.name,
                "window": phase.window,
                "calls": phase.calls,
                "bytes": phase.bytes,
                "seconds": phase.seconds,
                "ops_per_s": phase.calls_per_s(),
                "gbit_per_s": phase.gbit_per_s(),
                "latency": phase.latency.latency(),
            })
        };
        let object = serde_json::json!({
            "experiment": "demo",
            "parameters": { "text": self.text, "server": self.server.to_string() },
            "command": command,
            "machine": self.machine,
            "verified": true,
            "phases": self.phases.iter().map(phase).collect::<Vec<_>>(),
        });
        serde_json::to_string_pretty(&object).expect("keys are strings") + "\n"
    }
}

#[cfg(test)]
mod tests {
    use petasos_report::Style;

    use super::*;

    fn phase(name: &str, (window, calls, bytes): (usize, u64, u64), nanos: [u64; 2]) -> Measured {
        let mut latency = Histogram::new();
        latency.record_many_ns(nanos[0], 95);
        latency.record_many_ns(nanos[1], 5);
        let seconds = nanos[0] as f64 * calls as f64 / 1e9;
        Measured { name: name.into(), show: Show::Table, window, calls, bytes, seconds, latency }
    }

    #[test]
    fn the_table_fits_a_terminal_of_80_columns() {
        let phases = vec![
            phase("put lines", (64, 30_492, 1_418_350), [1_640, 2_329_000]),
            phase("get runs of lines", (16, 181, 1_418_350), [802_000, 3_475_000]),
            phase("get pieces of 64 KiB", (8, 519, 32_611_000), [227_000, 2_523_000]),
        ];
        let table = Outcome::new("a text".into(), ([127, 0, 0, 1], 1).into(), phases).table();
        let text = table.render_within(Style::Boxed, 80);
        assert!(text.lines().all(|line| line.chars().count() <= 80), "\n{text}");
        assert!(text.contains("\nget pieces of 64 KiB│"), "no name is broken:\n{text}");
        assert!(text.contains("│ [µs]│ [µs]│"), "units are in the second line:\n{text}");
        assert!(table.render(Style::Plain).contains(" p99.9 [µs] "), "a pipe has no width");
    }
}
