//! Recordings: queries with their answers, and how long these took, in a file with a line of JSON
//! each. A server can answer from one, as late as it took then, without the work (see `worker`).

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::answer::Answer;

/// A line is no longer.
const LINE_BYTES_MAX: u64 = 1 << 20;
/// A file has no more lines.
const RECORDS_MAX: usize = 1_000_000;

/// A query that was answered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    pub query: String,
    pub kind: String,
    /// How long one thread took, in nanoseconds.
    pub took_ns: u64,
    pub answer: Answer,
}

/// Answers by their queries.
pub type Recording = HashMap<String, Record>;

/// A recording cannot be read. Whoever made the file can help.
#[derive(Debug, thiserror::Error)]
#[error("{}: {what}", path.display())]
pub struct RecordingError {
    pub path: PathBuf,
    what: String,
}

impl RecordingError {
    fn of(path: &Path, what: impl ToString) -> RecordingError {
        RecordingError { path: path.to_owned(), what: what.to_string() }
    }
}

/// Writes a recording.
///
/// # Errors
/// The system's.
pub fn write(path: &Path, records: &[Record]) -> Result<(), RecordingError> {
    let written = File::create(path).and_then(|file| write_to(BufWriter::new(file), records));
    written.map_err(|error| RecordingError::of(path, error))
}

fn write_to(mut file: impl Write, records: &[Record]) -> io::Result<()> {
    for record in records {
        serde_json::to_writer(&mut file, record)?;
        file.write_all(b"\n")?;
    }
    file.flush()
}

/// Reads a recording.
///
/// # Errors
/// If the file cannot be read, is no recording, or is longer than one may be.
pub fn read(path: &Path) -> Result<Recording, RecordingError> {
    let file = File::open(path).map_err(|error| RecordingError::of(path, error))?;
    read_from(BufReader::new(file)).map_err(|what| RecordingError::of(path, what))
}

fn read_from(mut file: impl BufRead) -> Result<Recording, String> {
    let (mut recording, mut line) = (Recording::new(), String::new());
    for number in 1.. {
        line.clear();
        let read = (&mut file).take(LINE_BYTES_MAX).read_line(&mut line);
        if read.map_err(|error| error.to_string())? == 0 {
            break;
        }
        let record: Result<Record, _> = serde_json::from_str(&line);
        let record = record.map_err(|error| format!("line {number} is no record: {error}"))?;
        recording.insert(record.query.clone(), record);
        if recording.len() > RECORDS_MAX {
            return Err(format!("more than {RECORDS_MAX} records"));
        }
    }
    if recording.is_empty() { Err("no record".to_owned()) } else { Ok(recording) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::Hit;

    fn record(query: &str) -> Record {
        let hit = Hit {
            entry: 7,
            dictionary: "wn".into(),
            headword: "bee\t\"".into(),
            score: 1.1,
            excerpt: "é\n".into(),
        };
        let answer = Answer { total: u64::MAX, hits: vec![hit] };
        Record { query: query.into(), kind: "term".into(), took_ns: 5, answer }
    }

    #[test]
    fn what_is_written_is_read() {
        let mut file = Vec::new();
        write_to(&mut file, &[record("a"), record("b")]).expect("memory takes it");
        let recording = read_from(&*file).expect("it is a recording");
        assert_eq!((recording.len(), &recording["b"]), (2, &record("b")));
    }

    #[test]
    fn what_is_no_recording_is_refused() {
        let error = |file: &[u8]| read_from(file).expect_err("it is none");
        assert_eq!(error(b""), "no record");
        assert!(error(b"{}\n").starts_with("line 1 is no record: "));
        let mut cut = Vec::new();
        write_to(&mut cut, &[record("a")]).expect("memory takes it");
        assert!(error(&cut[..cut.len() / 2]).starts_with("line 1 is no record: "));
        assert!(error(&[0xff, b'\n']).contains("UTF-8"));
        // A line without an end is read in parts of a bounded length.
        assert!(error(&vec![b' '; 3 << 20]).starts_with("line 1 is no record: "));
        let missing = read(Path::new("/nonexistent/file")).expect_err("it is not there");
        assert!(missing.to_string().starts_with("/nonexistent/file: "), "{missing}");
    }
}
