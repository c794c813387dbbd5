//! The text of the demo: any bytes, split into lines.
//!
//! A line ends after its newline, or at the end of the text. All lines together are the text,
//! whatever its encoding and its line endings.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::path::Path;

use flate2::read::GzDecoder;

use petasos_cli::failure::Failure;
use petasos_cli::size::in_words;

/// A text in memory. Invariant: `lines` are not empty and cover `bytes` without gaps, in order.
#[derive(Debug)]
pub struct Text {
    name: String,
    bytes: Vec<u8>,
    lines: Vec<Range<usize>>,
}

impl Text {
    /// The text that is built into the program; see `assets/README.md`.
    ///
    /// # Errors
    /// If the program was built with a damaged file.
    pub fn carried() -> Result<Text, Failure> {
        let mut bytes = Vec::new();
        let unpacked = GzDecoder::new(JARGON).read_to_end(&mut bytes);
        unpacked.map_err(|error| Failure::new(format!("the carried text is damaged: {error}")))?;
        Text::new("the Jargon File 4.4.7".into(), bytes)
    }

    /// The text in the file at `path`.
    ///
    /// # Errors
    /// If the file cannot be read, is empty, or is too large.
    pub fn read(path: &Path) -> Result<Text, Failure> {
        let name = path.display().to_string();
        let mut bytes = Vec::new();
        let read = File::open(path)
            .and_then(|file| file.take(TEXT_BYTES_MAX as u64 + 1).read_to_end(&mut bytes));
        read.map_err(|error| cannot_read(&name, &error))?;
        Text::new(name, bytes)
    }

    fn new(name: String, bytes: Vec<u8>) -> Result<Text, Failure> {
        if bytes.is_empty() {
            let advice = "the demo needs at least one byte to store";
            return Err(Failure::with_advice(format_args!("{name} is empty"), advice));
        }
        if bytes.len() > TEXT_BYTES_MAX {
            let what = format_args!("{name} has more than {}", in_words(TEXT_BYTES_MAX as u64));
            return Err(Failure::with_advice(what, "both processes keep it in memory: use less"));
        }
        let lines = lines_of(&bytes);
        Ok(Text { name, bytes, lines })
    }

    /// All bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The range of each line.
    pub fn lines(&self) -> &[Range<usize>] {
        &self.lines
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Text { name, bytes, lines } = self;
        let plural = if lines.len() == 1 { "" } else { "s" };
        write!(f, "{name}, {} line{plural}, {} bytes", lines.len(), bytes.len())
    }
}

fn lines_of(bytes: &[u8]) -> Vec<Range<usize>> {
    let mut start = 0;
    let lines = bytes.split_inclusive(|byte| *byte == b'\n').map(|line| {
        let range = start..start + line.len();
        start = range.end;
        range
    });
    lines.collect()
}

fn cannot_read(name: &str, error: &io::Error) -> Failure {
    let advice = match error.kind() {
        io::ErrorKind::NotFound => "check the path given with --file",
        io::ErrorKind::IsADirectory => "name a file, not a folder",
        io::ErrorKind::PermissionDenied => "make it readable, or use another",
        _ => "use another file",
    };
    Failure::with_advice(format_args!("cannot read {name}: {error}"), advice)
}

const JARGON: &[u8] = include_bytes!("../../../../assets/jargon.txt.gz");
/// The limit exists because both processes keep the text in memory, the server twice.
const TEXT_BYTES_MAX: usize = 1 << 30;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_carried_text_is_what_its_description_says() {
        let text = Text::carried().unwrap();
        assert_eq!((text.bytes().len(), text.lines().len()), (1_418_350, 30_492));
    }

    #[test]
    fn lines_cover_every_byte_whatever_they_are() {
        let texts: [&[u8]; 6] =
            [b"one", b"one\n", b"a\r\nb\r\n", b"\n\n\n", b"\xff\xfe\n\x00", b"a\nb"];
        for bytes in texts {
            let text = Text::new("t".into(), bytes.to_vec()).unwrap();
            let joined: Vec<u8> =
                text.lines().iter().flat_map(|l| bytes[l.clone()].to_vec()).collect();
            assert_eq!(joined, bytes);
            assert!(text.lines().iter().all(|line| !line.is_empty()));
        }
    }

    #[test]
    fn nothing_is_no_text() {
        let failure = Text::new("t".into(), Vec::new()).unwrap_err();
        assert!(failure.to_string().starts_with("t is empty; "), "{failure}");
    }
}
