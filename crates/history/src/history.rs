//! A whole history: calls with their outcomes, from one file or several.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::io::{self, BufRead, Read};

use crate::line::{CallId, Header, LINE_BYTES_MAX, Line, LineError, ModelKind, Said};
use crate::op::{Op, Reply, Seen};

/// The most calls of a history.
pub const CALLS_MAX: usize = 10_000_000;

/// Where something was read: the file, counted from 0 as they were given, and its line from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place {
    /// Which file.
    pub file: usize,
    /// Which line.
    pub line: u64,
}

/// How a call ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was done, and answered at this time.
    Ok(u64, Box<Reply>),
    /// It had no effect, for certain.
    NotDone,
    /// Nobody knows.
    Unknown,
}

/// A call, with all that is known of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// Who made it, and its number there.
    pub id: CallId,
    /// When it began, in nanoseconds.
    pub called_at: u64,
    /// What was called.
    pub op: Op,
    /// How it ended.
    pub outcome: Outcome,
    /// What it saw before, with the times.
    pub seen: Vec<(u64, Place, Seen)>,
    /// Where its call is.
    pub place: Place,
    /// Where its end is, if it has one.
    pub end_place: Option<Place>,
}

/// Recorded calls, in the order in which they were read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// What the files' headers say.
    pub header: Header,
    /// The calls.
    pub calls: Vec<Call>,
}

/// Why a file is no history.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// It cannot be read.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// A line is wrong.
    #[error("line {line}: {flaw}")]
    Line {
        /// Which, from 1.
        line: u64,
        /// What is wrong.
        flaw: Flaw,
    },
}

/// What is wrong with a line.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Flaw {
    /// It is none by itself.
    #[error("{0}")]
    Line(#[from] LineError),
    /// It has too many bytes.
    #[error("it is longer than {LINE_BYTES_MAX} bytes")]
    TooLong,
    /// There are too many calls.
    #[error("there are more than {CALLS_MAX} calls")]
    TooMany,
    /// A header is not where it belongs.
    #[error("a header comes before all calls of a file")]
    LateHeader,
    /// Files contradict each other.
    #[error("the header says something else than that of an earlier file")]
    OtherHeader,
    /// Two calls have the same numbers.
    #[error("{0} was called before; processes need different numbers, in all files")]
    CalledTwice(CallId),
    /// The end of a call that has not begun.
    #[error("{0} was not called before")]
    NotCalled(CallId),
    /// The second end of a call.
    #[error("{0} has ended before")]
    Ended(CallId),
    /// It ended before it began.
    #[error("{0} was called later than that")]
    TimeGoesBack(CallId),
    /// Only watches see something before they end.
    #[error("{0} is no watch")]
    NoWatch(CallId),
}

impl fmt::Display for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "call {} of process {}", self.id, self.process)
    }
}

/// Reads files, one after the other, into one history.
#[derive(Debug, Default)]
pub struct Reader {
    history: History,
    open: HashMap<CallId, usize>,
    files: usize,
}

impl Reader {
    /// Without any file.
    pub fn new() -> Reader {
        Reader::default()
    }

    /// Reads one more file. Lines may be empty. If the last one has no end, and is cut where its
    /// writer was killed, it does not count.
    ///
    /// # Errors
    /// If it cannot be read, or is no history. What was read is of no use then.
    pub fn read(&mut self, input: impl BufRead) -> Result<(), ReadError> {
        let file = self.files;
        self.files += 1;
        let (mut input, mut text) = (input, Vec::new());
        let mut is_begun = false;
        for line in 1.. {
            text.clear();
            let most = LINE_BYTES_MAX as u64 + 2;
            if input.by_ref().take(most).read_until(b'\n', &mut text)? == 0 {
                break;
            }
            let is_whole = text.ends_with(b"\n");
            let at = |flaw| ReadError::Line { line, flaw };
            let trimmed = text.trim_ascii();
            if text.len() - usize::from(is_whole) > LINE_BYTES_MAX {
                return Err(at(Flaw::TooLong));
            }
            if trimmed.is_empty() {
                continue;
            }
            let parsed = match Line::parse(trimmed) {
                Err(LineError::Json(error)) if error.is_eof() && !is_whole => break,
                parsed => parsed.map_err(|error| at(error.into()))?,
            };
            self.add(parsed, Place { file, line }, is_begun).map_err(at)?;
            is_begun = true;
        }
        Ok(())
    }

    /// What all files say together.
    pub fn finish(self) -> History {
        self.history
    }

    fn add(&mut self, line: Line, place: Place, is_begun: bool) -> Result<(), Flaw> {
        let (id, at, said) = match line {
            Line::Header(_) if is_begun => return Err(Flaw::LateHeader),
            Line::Header(header) => return self.header(header),
            Line::Call(id, at, said) => (id, at, said),
        };
        if let Said::Call(op) = said {
            return self.begin(id, at, op, place);
        }
        let index = *self.open.get(&id).ok_or(Flaw::NotCalled(id))?;
        let call = &mut self.history.calls[index];
        if call.end_place.is_some() {
            return Err(Flaw::Ended(id));
        }
        let latest = call.seen.last().map_or(call.called_at, |(at, ..)| *at);
        if at < latest {
            return Err(Flaw::TimeGoesBack(id));
        }
        call.outcome = match said {
            Said::Seen(_) if !matches!(call.op, Op::Watch { .. }) => return Err(Flaw::NoWatch(id)),
            Said::Seen(seen) => {
                call.seen.push((at, place, seen));
                return Ok(());
            }
            Said::Ok(reply) => Outcome::Ok(at, reply),
            Said::NotDone => Outcome::NotDone,
            Said::Unknown | Said::Call(_) => Outcome::Unknown,
        };
        call.end_place = Some(place);
        Ok(())
    }

    fn header(&mut self, header: Header) -> Result<(), Flaw> {
        let all = &mut self.history.header;
        let fits =
            |ours: Option<u64>, theirs: Option<u64>| ours.zip(theirs).is_none_or(|(a, b)| a == b);
        let kind = |model: Option<ModelKind>| model.map(|model| model as u64);
        if !fits(kind(all.model), kind(header.model)) || !fits(all.revision, header.revision) {
            return Err(Flaw::OtherHeader);
        }
        all.model = all.model.or(header.model);
        all.revision = all.revision.or(header.revision);
        Ok(())
    }

    fn begin(&mut self, id: CallId, at: u64, op: Op, place: Place) -> Result<(), Flaw> {
        let calls = &mut self.history.calls;
        if calls.len() >= CALLS_MAX {
            return Err(Flaw::TooMany);
        }
        match self.open.entry(id) {
            Entry::Occupied(_) => return Err(Flaw::CalledTwice(id)),
            Entry::Vacant(entry) => entry.insert(calls.len()),
        };
        let (outcome, seen, end_place) = (Outcome::Unknown, Vec::new(), None);
        calls.push(Call { id, called_at: at, op, outcome, seen, place, end_place });
        Ok(())
    }
}

/// Reads one file.
///
/// # Errors
/// If it cannot be read, or is no history.
pub fn read(input: impl BufRead) -> Result<History, ReadError> {
    let mut reader = Reader::new();
    reader.read(input)?;
    Ok(reader.finish())
}
