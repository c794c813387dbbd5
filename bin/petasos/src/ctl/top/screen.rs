//! The terminal: its other screen, keys without a line's end, and a frame at a time.
//!
//! Whatever ends the program by unwinding or by SIGTERM leaves the terminal as it was.

use std::fmt::Write as _;
use std::io::{self, IsTerminal as _, Write as _};
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::time::Duration;

use petasos_base::sync::{AtomicBool, Ordering};
use petasos_cli::admin::{Frame, Order};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};

/// How long it waits for a key.
const KEY: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
/// How long it waits until it tries again to reach a service that has gone.
const AGAIN: Duration = Duration::from_secs(1);
const KEYS: &str =
    "sort: r calls/s  f failed/s  u under way  5 p50  9 p99  b bytes  n name   q quit";

/// A terminal that shows frames.
pub struct Screen {
    before: Termios,
    /// The program is to end.
    is_left: Arc<AtomicBool>,
}

impl Screen {
    /// Takes the terminal.
    ///
    /// # Errors
    /// There is none, or the system refuses.
    pub fn open() -> io::Result<Screen> {
        if !io::stdin().is_terminal() || !io::stdout().is_terminal() {
            return Err(io::Error::other("standard input and output are none"));
        }
        let is_left = Arc::new(AtomicBool::new(false));
        for signal in [signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP] {
            signal_hook::flag::register(signal, is_left.clone())?;
        }
        let stdin = io::stdin();
        let before = tcgetattr(&stdin)?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(&stdin, OptionalActions::Flush, &raw)?;
        let screen = Screen { before, is_left };
        // The other screen, without a cursor.
        write("\x1b[?1049h\x1b[?25l");
        Ok(screen)
    }

    /// Whether the program is to end.
    pub fn is_left(&self) -> bool {
        self.is_left.load(Ordering::Relaxed)
    }

    /// The key that is pressed now, if one is. Those that send several characters are none.
    pub fn key(&self) -> Option<char> {
        let stdin = io::stdin();
        let mut fds = [PollFd::new(&stdin, PollFlags::IN)];
        if poll(&mut fds, Some(&KEY)).ok()? == 0 {
            return None;
        }
        let mut bytes = [0; 16];
        match rustix::io::read(stdin.as_fd(), &mut bytes) {
            Ok(1) => Some(char::from(bytes[0])),
            // Nobody types any more.
            Ok(0) => Some('q'),
            _ => None,
        }
    }

    /// Shows a frame, as much as there is room for.
    pub fn draw(&self, frame: &Frame, order: Order, note: &str) {
        // A terminal that does not know its size says 0.
        let size = tcgetwinsize(io::stdout()).ok().filter(|it| it.ws_row > 0 && it.ws_col > 0);
        let (rows, columns) = size.map_or((24, 80), |size| (size.ws_row, size.ws_col));
        write(&drawn(frame, (order, note), (rows.into(), columns.into())));
    }

    /// Says why there is nothing new, and waits.
    pub fn wait(&self, frame: &Frame, order: Order, note: &str) {
        self.draw(frame, order, note);
        std::thread::sleep(AGAIN);
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        write("\x1b[?25h\x1b[?1049l");
        // There is nobody to tell that it fails.
        let _ = tcsetattr(io::stdin(), OptionalActions::Flush, &self.before);
    }
}

/// A terminal that takes nothing more is found when its keys are read.
fn write(text: &str) {
    let mut out = io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// What draws a frame into so many rows and columns. The engines get a third of the rows.
fn drawn(frame: &Frame, (order, note): (Order, &str), (rows, columns): (usize, usize)) -> String {
    // Lines that are too long are cut, so that each row stays a line.
    let [calls, engines] = frame.tables_within(usize::MAX);
    let engine_rows = engines.lines().count().min(rows / 3);
    let call_rows = rows.saturating_sub(engine_rows + 4);
    let order = format!("{order:?}").to_lowercase();
    let mut lines = vec![format!("petasos top (by {order}): {} {note}", frame.summary())];
    lines.push(String::new());
    lines.extend(calls.lines().take(call_rows).map(str::to_owned));
    lines.push(String::new());
    lines.extend(engines.lines().take(engine_rows).map(str::to_owned));
    lines.truncate(rows.saturating_sub(1));
    lines.push(KEYS.to_owned());
    let mut text = "\x1b[H".to_owned();
    for (index, line) in lines.iter().enumerate() {
        let end = if index + 1 < lines.len() { "\r\n" } else { "\x1b[J" };
        let line: String = line.chars().filter(|c| !c.is_control()).take(columns).collect();
        write!(text, "{line}\x1b[K{end}").expect("strings take everything");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_fits_into_the_terminal() {
        let empty = petasos_admin::StatsResponse::new();
        let frame = Frame::between(&empty, &empty);
        for (rows, columns) in [(1, 1), (5, 20), (24, 80), (60, 300)] {
            let text = drawn(&frame, (Order::Rate, "a note\x1b[2J"), (rows, columns));
            assert!(text.split("\r\n").count() <= rows, "{rows}");
            assert!(!text.contains("\x1b[2J"), "notes do not control the terminal");
            let widest = text.split("\r\n").map(|line| line.replace("\x1b[H", ""));
            let widest = widest.map(|line| line.replace("\x1b[K", "").replace("\x1b[J", ""));
            assert!(widest.map(|line| line.chars().count()).max() <= Some(columns));
        }
    }
}
