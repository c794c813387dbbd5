//! The terminal: its other screen, keys without a line's end, and a frame at a time.
//!
//! Whatever ends the program by unwinding or by SIGTERM leaves the terminal as it was.

use std::fmt::Write as _;
use std::io::{self, IsTerminal as _, Write as _};
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::time::Duration;

use petasos_base::sync::{AtomicBool, Ordering};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};

/// How long it waits for a key.
const KEY: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
/// How long it waits until it tries again to reach a service that has gone.
const AGAIN: Duration = Duration::from_secs(1);

/// What is shown.
pub struct Picture {
    /// The first line.
    pub head: String,
    /// The second gets a third of the rows.
    pub tables: [String; 2],
    /// The last line.
    pub keys: &'static str,
}

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

    /// Shows a picture, as much as there is room for.
    pub fn draw(&self, picture: &Picture) {
        // A terminal that does not know its size says 0.
        let size = tcgetwinsize(io::stdout()).ok().filter(|it| it.ws_row > 0 && it.ws_col > 0);
        let (rows, columns) = size.map_or((24, 80), |size| (size.ws_row, size.ws_col));
        write(&drawn(picture, (rows.into(), columns.into())));
    }

    /// Says why there is nothing new, and waits.
    pub fn wait(&self, picture: &Picture) {
        self.draw(picture);
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

/// What draws a picture into so many rows and columns.
fn drawn(picture: &Picture, (rows, columns): (usize, usize)) -> String {
    let [first, second] = &picture.tables;
    let second_rows = second.lines().count().min(rows / 3);
    let first_rows = rows.saturating_sub(second_rows + 4);
    let mut lines = vec![picture.head.clone(), String::new()];
    lines.extend(first.lines().take(first_rows).map(str::to_owned));
    lines.push(String::new());
    lines.extend(second.lines().take(second_rows).map(str::to_owned));
    lines.truncate(rows.saturating_sub(1));
    lines.push(picture.keys.to_owned());
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
        let table = "A  B\n".repeat(40);
        let picture = Picture {
            head: "a note\x1b[2J".to_owned(),
            tables: [table.clone(), table],
            keys: "q quit",
        };
        for (rows, columns) in [(1, 1), (5, 20), (24, 80), (60, 300)] {
            let text = drawn(&picture, (rows, columns));
            assert!(text.split("\r\n").count() <= rows, "{rows}");
            assert!(!text.contains("\x1b[2J"), "notes do not control the terminal");
            let widest = text.split("\r\n").map(|line| line.replace("\x1b[H", ""));
            let widest = widest.map(|line| line.replace("\x1b[K", "").replace("\x1b[J", ""));
            assert!(widest.map(|line| line.chars().count()).max() <= Some(columns));
        }
    }
}
