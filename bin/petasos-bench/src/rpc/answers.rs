//! Parsing and checking the answers of a measurement's processes. Such a process may be a program
//! in any language (`bench/peers/README.md`).

use std::io::{BufRead, BufReader, Read};
use std::sync::mpsc::{Receiver, channel};

use super::phase::Turn;
use crate::error::BenchError;

/// The longest line of an answer: long enough for a turn's latencies.
const LINE_BYTES_MAX: u64 = 4 << 20;

/// The lines of `output`, until it ends, or a line is too long or not text.
pub fn read_answers(output: impl Read + Send + 'static) -> Receiver<String> {
    let (send, received) = channel();
    std::thread::spawn(move || {
        let mut output = BufReader::new(output);
        while let Some(line) = read_line(&mut output) {
            if send.send(line).is_err() {
                break;
            }
        }
    });
    received
}

fn read_line(output: &mut impl BufRead) -> Option<String> {
    let mut line = String::new();
    output.take(LINE_BYTES_MAX).read_line(&mut line).ok()?;
    line.strip_suffix('\n').map(str::to_owned)
}

/// Parses `ready`, followed by the addresses if the process is a server.
///
/// # Errors
/// If the line is something else.
pub fn ready(line: &str) -> Result<Vec<String>, BenchError> {
    let mut words = line.split_whitespace().map(str::to_owned);
    match words.next().as_deref() {
        Some("ready") => Ok(words.collect()),
        _ => Err("the process did not come up".into()),
    }
}

/// Parses `done`, followed by the results of a turn as JSON.
///
/// # Errors
/// If the line is something else, or contains impossible numbers.
pub fn turn(line: &str) -> Result<Turn, BenchError> {
    let json = line.strip_prefix("done ").ok_or("a process answered out of turn")?;
    let turn: Turn = serde_json::from_str(json)?;
    let are_times = turn.elapsed_s >= 0.0 && turn.cpu_s >= 0.0;
    let is_timed = turn.completed == 0 || turn.elapsed_s > 0.0;
    if are_times && is_timed && turn.latency.count() <= turn.completed {
        return Ok(turn);
    }
    Err("a process answered with impossible numbers".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_program_answers_is_read() {
        assert_eq!(ready("ready").expect("a client"), [""; 0]);
        assert_eq!(ready("ready 127.0.0.1:1 x").expect("a server"), ["127.0.0.1:1", "x"]);
        let done = r#"done {"completed":3,"elapsed_s":0.5,"latency":[[1000,1],[2000,2]]}"#;
        let done = turn(done).expect("it is as the contract says");
        assert_eq!((done.completed, done.latency.count()), (3, 3));
        assert_eq!(turn("done {}").expect("a server's").completed, 0);
    }

    #[test]
    fn what_is_no_answer_is_refused() {
        for line in ["", "steady 127.0.0.1:1", "readying"] {
            assert!(ready(line).is_err(), "{line}");
        }
        let wrong = [
            "",
            "done",
            "done ",
            "done null",
            "done []{",
            "started",
            r#"done {"completed":-1}"#,
            r#"done {"completed":1}"#,
            r#"done {"completed":1,"elapsed_s":-1}"#,
            r#"done {"completed":1,"elapsed_s":1e999}"#,
            r#"done {"completed":1,"elapsed_s":1,"cpu_s":-1}"#,
            r#"done {"completed":1,"elapsed_s":1,"latency":[[1,2]]}"#,
            r#"done {"completed":1,"elapsed_s":1,"latency":[[-1,1]]}"#,
            r#"done {"completed":1,"elapsed_s":1,"latency":[1]}"#,
        ];
        for line in wrong {
            assert!(turn(line).is_err(), "{line}");
        }
    }

    #[test]
    fn lines_without_end_are_not_kept() {
        let lines = |bytes: Vec<u8>| -> Vec<String> {
            read_answers(std::io::Cursor::new(bytes)).into_iter().collect()
        };
        assert_eq!(lines(b"a\nb\nc".to_vec()), ["a", "b"]);
        assert_eq!(lines(b"a\n\xff\nb\n".to_vec()), ["a"]);
        let long = [vec![b'x'; LINE_BYTES_MAX as usize + 1], b"\nb\n".to_vec()].concat();
        assert_eq!(lines(long), [""; 0]);
    }
}
