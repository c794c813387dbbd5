//! Dictionaries of `apps/search`, as whoever has made or damaged their files may write them: the
//! lines of an index, and a compressed text.
//!
//! An index is refused, or its entries lie within the text, in its order, and none overlap. A text
//! is unpacked whole, and no further than the limit, or refused.

use self::error::Fault;
use crate::{Input, Seed};

// The modules of the application, which is a package of its own: they are beside each other there,
// too.
#[allow(missing_docs, reason = "the application's documentation has it")]
#[allow(dead_code, reason = "the application uses the rest")]
#[path = "../../apps/search/src/corpus/error.rs"]
pub mod error;
#[allow(missing_docs, reason = "the application's documentation has it")]
#[allow(dead_code, reason = "the application uses the rest")]
#[path = "../../apps/search/src/corpus/gzip.rs"]
pub mod gzip;
#[allow(missing_docs, reason = "the application's documentation has it")]
#[path = "../../apps/search/src/corpus/index.rs"]
pub mod index;

/// The longest text that is unpacked.
const TEXT_BYTES_MAX: usize = 1 << 16;

/// A byte that says what it is, then for an index the length of its text, then the file.
pub fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    match input.bool() {
        true => text(input.rest()),
        false => lines(usize::from(input.u16()), input.rest()),
    }
}

fn text(file: &[u8]) {
    match gzip::unpack(file, TEXT_BYTES_MAX) {
        Ok(text) => {
            assert!(text.len() <= TEXT_BYTES_MAX);
            // The limit is exact.
            assert!(gzip::unpack(file, text.len()).is_ok_and(|again| again == text));
            if let Some(less) = text.len().checked_sub(1) {
                assert!(matches!(gzip::unpack(file, less), Err(Fault::TooLong(_))));
            }
        }
        Err(Fault::Read(_) | Fault::TooLong(TEXT_BYTES_MAX)) => {}
        Err(other) => panic!("{other}"),
    }
}

fn lines(text_bytes: usize, file: &[u8]) {
    let entries = match index::parse(file, text_bytes) {
        Ok(entries) => entries,
        Err(fault) => {
            assert!(!fault.to_string().is_empty());
            return;
        }
    };
    assert!(!entries.is_empty() && entries.len() <= file.len() / 4);
    let mut end = 0;
    for (headword, place) in entries {
        assert!(!headword.is_empty() && place.start >= end && place.start < place.end);
        end = place.end;
    }
    assert!(end <= text_bytes);
}

/// An index with all that it may have, what is wrong with others, and texts.
pub fn seeds() -> Vec<Seed> {
    let index = |bytes: u8, lines: &str| [&[0, bytes, 0][..], lines.as_bytes()].concat();
    let text = |file: &[u8]| [&[1][..], file].concat();
    let long = packed(&[b'a'; 5000]);
    vec![
        ("index", index(11, "00-database-info\tA\tC\nbee\tG\tD\nant\tC\tE\nemmet\tC\tE\tEmmet\n")),
        ("overlap", index(6, "a\tA\tD\nb\tC\tB\n")),
        ("beyond", index(6, "a\t////////\t////////\n")),
        ("text", text(&packed(b"an entry\nanother one\n"))),
        ("two", text(&[&packed(b"one")[..], &packed(b"two")].concat())),
        ("cut", text(&long[..long.len() / 2])),
    ]
}

fn packed(text: &[u8]) -> Vec<u8> {
    use std::io::Write;
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(text).expect("memory takes it");
    encoder.finish().expect("memory takes it")
}
