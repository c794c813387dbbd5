//! The calls that the demo makes, in phases.
//!
//! Lines are stored under their numbers, from 1. The whole text is stored under [`WHOLE_KEY`], in
//! as few values as the message limit allows: one, for most texts.

use std::fmt;
use std::ops::Range;

use petasos_base::Rng;

use super::text::Text;
use petasos_cli::failure::Failure;
use petasos_cli::service::Query;
use petasos_cli::size::in_words;

/// One call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// The request.
    pub ask: Ask,
    /// The bytes of the text that are stored or read.
    pub bytes: Range<usize>,
}

/// A request to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// Store the bytes under this key.
    Put(u64),
    /// Return the bytes.
    Query(Query),
}

impl fmt::Display for Ask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ask::Put(key) => write!(f, "storing {}", Key(*key)),
            Ask::Query(Query::Get { key }) => Key(*key).fmt(f),
            Ask::Query(Query::Scan { first, count }) => {
                write!(f, "the run of {count} lines from {first} on")
            }
            Ask::Query(Query::Read { offset, len, .. }) => {
                write!(f, "the piece of {len} bytes at {offset}")
            }
        }
    }
}

/// A key, for error messages.
struct Key(u64);

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            WHOLE_KEY.. => f.write_str("the whole text"),
            line => write!(f, "line {line}"),
        }
    }
}

/// How the report shows a phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Show {
    /// In the table only.
    Table,
    /// In the table and in the chart of rates.
    Rate,
    /// In the chart of rates, and as a latency curve.
    Latency,
    /// As a point in the chart of bandwidth over piece size, in bytes.
    Bandwidth(usize),
}

/// Calls of one kind.
#[derive(Debug)]
pub struct Phase {
    /// A short name.
    pub name: String,
    /// The calls, in order.
    pub calls: Vec<Call>,
    /// The number of outstanding calls.
    pub window: usize,
    /// How the report shows the phase.
    pub show: Show,
}

/// All phases, in order.
#[derive(Debug)]
pub struct Plan {
    phases: Vec<Phase>,
    server_memory_bytes: usize,
}

impl Plan {
    /// The plan for `text`.
    ///
    /// # Errors
    /// If a line is too long for one message.
    pub fn new(text: &Text) -> Result<Plan, Failure> {
        let (lines, bytes) = (text.lines(), text.bytes().len());
        let longest = lines.iter().map(ExactSizeIterator::len).max().unwrap_or(0);
        if longest > VALUE_BYTES_MAX {
            let (has, max) = (in_words(longest as u64), in_words(VALUE_BYTES_MAX as u64));
            let what = format!("the text has a line of {has}, and a value has at most {max}");
            return Err(Failure::with_advice(what, "use a text with shorter lines"));
        }
        let mut rng = Rng::new(SEED);
        let mut phases = vec![
            Phase::new("put lines", puts(lines), WINDOW, Show::Rate),
            Phase::new("get lines", some_gets(lines), 1, Show::Latency),
            Phase::new("get lines", gets(lines), WINDOW, Show::Latency),
            Phase::new("get runs of lines", runs(lines, &mut rng), WINDOW_RUNS, Show::Rate),
            Phase::new("put the whole text", whole(bytes, Ask::Put), 1, Show::Table),
        ];
        for size in PIECES.into_iter().filter(|size| *size <= bytes) {
            let name = format!("get pieces of {}", in_words(size as u64));
            for window in [1, WINDOW_PIECES] {
                let calls = pieces(bytes, size, &mut rng);
                phases.push(Phase::new(&name, calls, window, Show::Bandwidth(size)));
            }
        }
        let get = |key| Ask::Query(Query::Get { key });
        let times = (REPEAT_BYTES / bytes).clamp(1, 32);
        let calls = core::iter::repeat_with(|| whole(bytes, get)).take(times).flatten().collect();
        let size = bytes.min(VALUE_BYTES_MAX);
        phases.push(Phase::new("get the whole text", calls, 1, Show::Bandwidth(size)));
        let server_memory_bytes = 2 * bytes + lines.len() * LINE_BYTES_MORE + SERVER_BYTES_SPARE;
        Ok(Plan { phases, server_memory_bytes })
    }

    /// The phases, in order.
    pub fn phases(&self) -> &[Phase] {
        &self.phases
    }

    /// The memory that a server needs for storing everything.
    pub fn server_memory_bytes(&self) -> usize {
        self.server_memory_bytes
    }
}

impl Phase {
    fn new(name: &str, calls: Vec<Call>, window: usize, show: Show) -> Phase {
        Phase { name: name.into(), calls, window, show }
    }
}

fn key_of(line_index: usize) -> u64 {
    line_index as u64 + 1
}

fn puts(lines: &[Range<usize>]) -> Vec<Call> {
    let put = |(index, bytes): (usize, &Range<usize>)| Call {
        ask: Ask::Put(key_of(index)),
        bytes: bytes.clone(),
    };
    lines.iter().enumerate().map(put).collect()
}

fn get_line(lines: &[Range<usize>], index: usize) -> Call {
    let ask = Ask::Query(Query::Get { key: key_of(index) });
    Call { ask, bytes: lines[index].clone() }
}

fn gets(lines: &[Range<usize>]) -> Vec<Call> {
    (0..lines.len()).map(|index| get_line(lines, index)).collect()
}

/// Lines that are spread evenly over the text, for phases that would take too long with all lines.
fn some_gets(lines: &[Range<usize>]) -> Vec<Call> {
    let mean_bytes = lines.last().map_or(1, |last| last.end) / lines.len();
    let affordable = (REPEAT_BYTES / mean_bytes.max(1)).max(1);
    let count = lines.len().clamp(SINGLE_MIN, SINGLE_MAX).min(affordable);
    (0..count).map(|step| get_line(lines, step * lines.len() / count)).collect()
}

/// Runs of 2 to 1000 lines, their lengths evenly spread over the orders of magnitude.
fn runs(lines: &[Range<usize>], rng: &mut Rng) -> Vec<Call> {
    let mut calls = Vec::new();
    let mut start = 0;
    while start < lines.len() {
        let bits = 1 + rng.below(9);
        let wanted = ((1 << bits) + rng.below(1 << bits) as usize).min(lines.len() - start);
        let fits = |end: usize| lines[end - 1].end - lines[start].start <= VALUE_BYTES_MAX;
        let end = (start + 1..=start + wanted).rev().find(|end| fits(*end));
        let end = end.expect("one line fits a message");
        let query = Query::Scan { first: key_of(start), count: (end - start) as u32 };
        let bytes = lines[start].start..lines[end - 1].end;
        calls.push(Call { ask: Ask::Query(query), bytes });
        start = end;
    }
    calls
}

/// The whole text, in as few values as possible.
fn whole(bytes: usize, ask: impl Fn(u64) -> Ask) -> Vec<Call> {
    let starts = (0..bytes).step_by(VALUE_BYTES_MAX);
    let call = |start: usize| Call {
        ask: ask(WHOLE_KEY + (start / VALUE_BYTES_MAX) as u64),
        bytes: start..bytes.min(start + VALUE_BYTES_MAX),
    };
    starts.map(call).collect()
}

/// The whole text in pieces of `size` bytes. A short text is read several times, cut at different
/// positions.
fn pieces(bytes: usize, size: usize, rng: &mut Rng) -> Vec<Call> {
    let mut calls = Vec::new();
    for _ in 0..(REPEAT_BYTES / bytes).clamp(1, 32) {
        let mut start = 0;
        let mut end = 1 + rng.below(size as u64) as usize;
        while start < bytes {
            // A piece lies within one of the values that contain the text.
            let value = start / VALUE_BYTES_MAX;
            end = end.min(bytes).min((value + 1) * VALUE_BYTES_MAX);
            let (key, offset) = (WHOLE_KEY + value as u64, (start % VALUE_BYTES_MAX) as u64);
            let query = Query::Read { key, offset, len: (end - start) as u32 };
            calls.push(Call { ask: Ask::Query(query), bytes: start..end });
            (start, end) = (end, end + size);
        }
    }
    calls
}

/// The first key of the whole text, far above all line numbers.
const WHOLE_KEY: u64 = 1 << 63;
/// The longest value, in bytes. Together with its key it fits into the default message limit of 64
/// MiB.
const VALUE_BYTES_MAX: usize = (64 << 20) - 4096;
/// Sizes of pieces, in bytes.
const PIECES: [usize; 5] = [4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20];
/// The number of outstanding calls: 8 sessions with 8 slots each.
pub const WINDOW: usize = 64;
const WINDOW_RUNS: usize = 16;
const WINDOW_PIECES: usize = 8;
/// Calls one at a time.
const SINGLE_MIN: usize = 1000;
const SINGLE_MAX: usize = 20_000;
/// Short texts are read several times, so that the figures are meaningful.
const REPEAT_BYTES: usize = 32 << 20;
/// The memory that a line needs in the server beyond its bytes.
const LINE_BYTES_MORE: usize = 64;
const SERVER_BYTES_SPARE: usize = 1 << 20;
/// A fixed seed: the plan for a text is always the same.
const SEED: u64 = 7;

#[cfg(test)]
mod tests {
    use super::*;

    /// How often the phase `name` uses each byte.
    fn coverage(plan: &Plan, name: &str, window: usize, bytes: usize) -> Vec<usize> {
        let mut counts = vec![0; bytes];
        let phase = plan.phases().iter().find(|phase| phase.name == name && phase.window == window);
        let phase = phase.unwrap();
        for call in &phase.calls {
            counts[call.bytes.clone()].iter_mut().for_each(|count| *count += 1);
        }
        counts
    }

    #[test]
    fn every_reading_phase_covers_every_byte() {
        let text = Text::carried().unwrap();
        let (plan, bytes) = (Plan::new(&text).unwrap(), text.bytes().len());
        let once = [("put lines", 64), ("get lines", 64), ("get runs of lines", 16)];
        for (name, window) in once.into_iter().chain([("put the whole text", 1)]) {
            let counts = coverage(&plan, name, window, bytes);
            assert!(counts.iter().all(|count| *count == 1), "{name}");
        }
        let pieces = [("get pieces of 4 KiB", 1), ("get pieces of 4 KiB", 8)];
        let large = [("get pieces of 1 MiB", 8), ("get the whole text", 1)];
        for (name, window) in pieces.into_iter().chain(large) {
            let counts = coverage(&plan, name, window, bytes);
            assert!(counts.iter().all(|count| *count == counts[0] && *count > 0), "{name}");
        }
    }

    #[test]
    fn one_short_line_is_a_plan_without_pieces() {
        let path = std::env::temp_dir().join(format!("petasos-plan-{}", std::process::id()));
        std::fs::write(&path, "x").unwrap();
        let text = Text::read(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let plan = Plan::new(&text).unwrap();
        assert_eq!(plan.phases().len(), 6);
        assert!(plan.phases().iter().all(|phase| !phase.calls.is_empty()));
    }

    #[test]
    fn a_text_beyond_the_message_limit_takes_several_values() {
        let bytes = VALUE_BYTES_MAX + 5;
        let calls = whole(bytes, Ask::Put);
        assert_eq!(calls.len(), 2);
        assert_eq!(calls[1].bytes, VALUE_BYTES_MAX..bytes);
        let pieces = pieces(bytes, 1 << 20, &mut Rng::new(1));
        let spans = |call: &Call| {
            call.bytes.start / VALUE_BYTES_MAX != (call.bytes.end - 1) / VALUE_BYTES_MAX
        };
        assert!(!pieces.iter().any(spans));
        assert_eq!(pieces.iter().map(|call| call.bytes.len()).sum::<usize>(), bytes);
    }
}
