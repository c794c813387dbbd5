//! The corpus: entries of dictionaries as Debian's packages of the DICT project install them.
//!
//! # Invariants
//! - Files are untrusted: whatever they contain, loading ends in entries or an error, in time and
//!   memory that are linear in limits that are known beforehand.
//! - Entries of a dictionary are in the order of its text, and have a text each, none of which
//!   overlap. So their numbers depend on the files only.

mod error;
mod gzip;
mod index;

use std::borrow::Cow;
use std::ops::Range;
use std::path::{Path, PathBuf};

pub use error::{CorpusError, Fault};

/// Where Debian has dictionaries.
pub const FOLDER: &str = "/usr/share/dictd";
/// The dictionaries that are searched unless others are asked for.
pub const DICTIONARIES: [&str; 3] = ["gcide", "wn", "jargon"];
/// The most bytes of a dictionary's text.
const TEXT_BYTES_MAX: usize = 256 << 20;
/// The most bytes of a dictionary's index.
const INDEX_BYTES_MAX: usize = 64 << 20;

/// Dictionaries in memory.
#[derive(Debug, Default)]
pub struct Corpus {
    dictionaries: Vec<Dictionary>,
    entries: Vec<Entry>,
}

#[derive(Debug)]
struct Dictionary {
    name: String,
    text: Vec<u8>,
}

#[derive(Debug, PartialEq, Eq)]
struct Entry {
    dictionary: usize,
    headword: Box<str>,
    text: Range<usize>,
}

impl Corpus {
    /// Loads dictionaries, each of which is a file `NAME.dict.dz` and a file `NAME.index`.
    ///
    /// # Errors
    /// If one is not there, or is no dictionary.
    pub fn load(folder: &Path, names: &[String]) -> Result<Corpus, CorpusError> {
        let mut corpus = Corpus::default();
        for name in names {
            let file = |kind: &str| folder.join(format!("{name}.{kind}"));
            let (text_at, index_at) = (file("dict.dz"), file("index"));
            let of = |path: &PathBuf| {
                let (path, name) = (path.clone(), name.clone());
                move |fault| CorpusError { dictionary: name, path, fault }
            };
            let text = gzip::read(&text_at, TEXT_BYTES_MAX).map_err(of(&text_at))?;
            let index = error::read(&index_at, INDEX_BYTES_MAX).map_err(of(&index_at))?;
            corpus.add(name, text, &index).map_err(of(&index_at))?;
        }
        Ok(corpus)
    }

    /// Adds a dictionary.
    ///
    /// # Errors
    /// If the index is none of this text.
    pub fn add(&mut self, name: &str, text: Vec<u8>, index: &[u8]) -> Result<(), Fault> {
        let places = index::parse(index, text.len())?;
        let dictionary = self.dictionaries.len();
        self.dictionaries.push(Dictionary { name: name.to_owned(), text });
        let entry =
            |(headword, text): (&str, _)| Entry { dictionary, headword: headword.into(), text };
        self.entries.extend(places.into_iter().map(entry));
        Ok(())
    }

    /// How many entries there are; they have numbers from 0.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// The word that an entry is found by.
    pub fn headword(&self, entry: usize) -> &str {
        &self.entries[entry].headword
    }

    /// The name of an entry's dictionary.
    pub fn dictionary(&self, entry: usize) -> &str {
        &self.dictionaries[self.entries[entry].dictionary].name
    }

    /// An entry's text. Bytes that are no UTF-8, of which gcide has some, are replaced.
    pub fn text(&self, entry: usize) -> Cow<'_, str> {
        let Entry { dictionary, text, .. } = &self.entries[entry];
        String::from_utf8_lossy(&self.dictionaries[*dictionary].text[text.clone()])
    }

    /// The first so many characters of an entry's text, in one line.
    pub fn excerpt(&self, entry: usize, chars_max: usize) -> String {
        let text = self.text(entry);
        let words = text.split_whitespace().flat_map(|word| [" ", word]).skip(1);
        words.flat_map(str::chars).take(chars_max).collect()
    }
}

#[cfg(test)]
mod tests;
