//! One line on standard error that shows how far a long piece of work has come.
//!
//! On a terminal the line is redrawn at most ten times a second; elsewhere (in a log) only its
//! start and its end are written. Failing to draw is not an error, since the work matters and not
//! the line.

use std::io::{self, IsTerminal, Write};

use petasos_base::{Clock, Time};
use unicode_width::UnicodeWidthStr;

use crate::table::printable;

/// The progress of one piece of work. Dropped without [`Progress::finish`], it ends the line, so
/// that an error message starts on its own.
pub struct Progress<W: Write = io::Stderr> {
    out: W,
    live: bool,
    clock: Clock,
    label: String,
    total: u64,
    redraw_at: Time,
    drawn_width: usize,
    finished: bool,
}

impl Progress {
    /// Starts a line on standard error for `total` steps (0 when the number is unknown).
    pub fn new(label: &str, total: u64) -> Progress {
        let out = io::stderr();
        let live = out.is_terminal();
        Progress::on(out, live, Clock::system(), label, total)
    }
}

impl<W: Write> Progress<W> {
    fn on(out: W, live: bool, clock: Clock, label: &str, total: u64) -> Progress<W> {
        let label = printable(label);
        let mut progress = Progress {
            out,
            live,
            clock,
            label,
            total,
            redraw_at: Time::ZERO,
            drawn_width: 0,
            finished: false,
        };
        if progress.live {
            progress.set(0);
        } else {
            let line = format!("{} ...\n", progress.label);
            progress.write(&line);
        }
        progress
    }

    /// Shows that `done` steps of the total are done. Cheap enough to call after each step.
    pub fn set(&mut self, done: u64) {
        if !self.live {
            return;
        }
        let now = self.clock.now();
        if now < self.redraw_at {
            return;
        }
        self.redraw_at = now.plus_nanos(REDRAW_NANOS);
        let line = self.line(done);
        self.redraw(&line);
    }

    /// Ends the line with the outcome of the work.
    pub fn finish(mut self, outcome: &str) {
        let line = format!("{}: {}", self.label, printable(outcome));
        if self.live {
            self.redraw(&line);
            self.write("\n");
        } else {
            self.write(&format!("{line}\n"));
        }
        self.finished = true;
    }

    fn line(&self, done: u64) -> String {
        if self.total == 0 {
            return format!("{} {done}", self.label);
        }
        let fraction = (done as f64 / self.total as f64).clamp(0.0, 1.0);
        let full = (fraction * BAR_CELLS as f64) as usize;
        let bar = "━".repeat(full) + &"╌".repeat(BAR_CELLS - full);
        format!("{} {bar} {:3.0} %", self.label, fraction * 100.0)
    }

    /// Writes `line` over what was drawn before.
    fn redraw(&mut self, line: &str) {
        let width = line.width();
        let padding = " ".repeat(self.drawn_width.saturating_sub(width));
        self.write(&format!("\r{line}{padding}"));
        self.drawn_width = width;
    }

    fn write(&mut self, text: &str) {
        // See the module's documentation: a line that cannot be drawn must not stop the work.
        let _ = self.out.write_all(text.as_bytes()).and_then(|()| self.out.flush());
    }
}

impl<W: Write> Drop for Progress<W> {
    fn drop(&mut self) {
        if self.live && !self.finished {
            self.write("\n");
        }
    }
}

const REDRAW_NANOS: u64 = 100_000_000;
const BAR_CELLS: usize = 30;

#[cfg(test)]
mod tests {
    use petasos_base::VirtualClock;

    use super::*;

    fn run(live: bool, work: impl FnOnce(Progress<&mut Vec<u8>>, &VirtualClock)) -> String {
        let mut written = Vec::new();
        let clock = VirtualClock::default();
        work(Progress::on(&mut written, live, Clock::Virtual(clock.clone()), "load", 4), &clock);
        String::from_utf8(written).expect("only text is written")
    }

    #[test]
    fn a_log_gets_the_start_and_the_end() {
        let text = run(false, |mut progress, _| {
            (0..4).for_each(|done| progress.set(done));
            progress.finish("4 lines");
        });
        assert_eq!(text, "load ...\nload: 4 lines\n");
    }

    #[test]
    fn a_terminal_is_redrawn_at_a_bounded_rate() {
        let text = run(true, |mut progress, clock| {
            progress.set(1);
            clock.set(Time::from_nanos(REDRAW_NANOS));
            progress.set(2);
            progress.set(3);
            progress.finish("done");
        });
        assert_eq!(text.matches('\r').count(), 3, "start, one redraw, end: {text:?}");
        assert!(text.contains(" 50 %") && text.trim_end().ends_with("load: done"), "{text:?}");
    }

    #[test]
    fn a_shorter_line_covers_the_longer_one_before() {
        let text = run(true, |progress, _| progress.finish("ok"));
        let lines: Vec<&str> =
            text.trim_start_matches('\r').trim_end_matches('\n').split('\r').collect();
        assert_eq!(lines[0].width(), lines[1].width(), "{text:?}");
    }

    #[test]
    fn an_abandoned_line_is_ended() {
        let text = run(true, |progress, _| drop(progress));
        assert!(text.ends_with('\n'), "{text:?}");
    }

    #[test]
    fn more_done_than_there_was_to_do_is_all() {
        let text = run(true, |mut progress, clock| {
            clock.set(Time::from_nanos(REDRAW_NANOS));
            progress.set(9);
        });
        assert!(text.contains("100 %"), "{text:?}");
    }
}
