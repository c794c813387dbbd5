//! Queries answered by looking at each entry: what the engine is tested against.

use crate::corpus::Corpus;
use crate::query::{Clause, Need, Piece, Query, What};
use crate::words::words;

/// The words of all entries.
pub struct Scan {
    entries: Vec<Vec<Option<String>>>,
}

/// The entries that match.
pub fn matching(corpus: &Corpus, query: &Query) -> Vec<usize> {
    Scan::of(corpus).matching(query)
}

impl Scan {
    pub fn of(corpus: &Corpus) -> Scan {
        let entry = |entry| words(&corpus.text(entry)).collect();
        Scan { entries: (0..corpus.len()).map(entry).collect() }
    }

    /// The entries that match.
    pub fn matching(&self, query: &Query) -> Vec<usize> {
        let matching = self.entries.iter().enumerate().filter(|(_, words)| matches(words, query));
        matching.map(|(entry, _)| entry).collect()
    }
}

fn matches(words: &[Option<String>], query: &Query) -> bool {
    let has = |clause: &Clause| has(words, &clause.what);
    let of = |need| query.clauses().iter().filter(move |clause| clause.need == need);
    let demands = of(Need::Demanded).count() > 0;
    of(Need::Demanded).all(has)
        && !of(Need::Forbidden).any(has)
        && (demands || of(Need::Wanted).any(has))
}

fn has(words: &[Option<String>], what: &What) -> bool {
    let places = |wanted: &str| {
        let is_it = |word: &Option<String>| word.as_deref() == Some(wanted);
        let places = words.iter().enumerate().filter(move |(_, word)| is_it(word));
        places.map(|(place, _)| place as i64).collect::<Vec<_>>()
    };
    match what {
        What::Word(word) => !places(word).is_empty(),
        What::Phrase(phrase) => words.windows(phrase.len()).any(|words| {
            words.iter().zip(phrase).all(|(word, wanted)| word.as_ref() == Some(wanted))
        }),
        What::Near(first, second, distance) => {
            let seconds = places(second);
            let is_near = |at: &i64| {
                seconds.iter().any(|second| (at + 1 - second).abs() <= i64::from(*distance))
            };
            places(first).iter().any(is_near)
        }
        What::Wild(pieces) => words.iter().flatten().any(|word| {
            let letters: Vec<char> = word.chars().collect();
            fits(&letters, pieces)
        }),
    }
}

/// Whether letters are what a wildcard stands for.
fn fits(letters: &[char], pieces: &[Piece]) -> bool {
    match (pieces, letters) {
        ([], letters) => letters.is_empty(),
        ([Piece::AnyLetters, rest @ ..], letters) => {
            (0..=letters.len()).any(|from| fits(&letters[from..], rest))
        }
        ([Piece::AnyLetter, pieces @ ..], [_, letters @ ..]) => fits(letters, pieces),
        ([Piece::Letter(letter), pieces @ ..], [first, letters @ ..]) => {
            letter == first && fits(letters, pieces)
        }
        (_, []) => false,
    }
}
