//! From the text of a query to what it means. Texts come from callers: they are short, have few
//! clauses, and cannot name all words at once.

use core::str::FromStr;

use super::{Clause, Need, Piece, Query, What};
use crate::words::words;

/// The longest query.
pub const QUERY_BYTES_MAX: usize = 256;
const CLAUSES_MAX: usize = 16;
const PHRASE_WORDS_MAX: usize = 16;
const DISTANCE_MAX: u32 = 100;
/// Letters before the first wildcard.
const WILD_LETTERS_MIN: usize = 2;
/// More would make the search for matching words slow.
const WILDCARDS_MAX: usize = 4;

/// Why a text is no query. The caller's fault; a retry does not help.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum QueryError {
    #[error("a query has at most {QUERY_BYTES_MAX} bytes")]
    TooLong,
    #[error("a query has at most {CLAUSES_MAX} clauses")]
    TooManyClauses,
    #[error("a query has to name what is wanted")]
    NothingWanted,
    #[error("`{0}` has no word, or one that is too long")]
    NoWord(String),
    #[error("a phrase does not end: \" is missing")]
    OpenPhrase,
    #[error("a phrase has no wildcards")]
    WildPhrase,
    #[error("a phrase has at most {PHRASE_WORDS_MAX} words")]
    LongPhrase,
    #[error("`~` is followed by a number up to {DISTANCE_MAX}, after a phrase of two words")]
    Distance,
    #[error(
        "`{0}`: a word with wildcards has letters and digits, at least {WILD_LETTERS_MIN} of them \
         before the first `*` or `?`, of which there are at most {WILDCARDS_MAX}"
    )]
    Wild(String),
}

impl FromStr for Query {
    type Err = QueryError;

    fn from_str(text: &str) -> Result<Query, QueryError> {
        if text.len() > QUERY_BYTES_MAX {
            return Err(QueryError::TooLong);
        }
        let (mut clauses, mut rest) = (Vec::new(), text.trim_start());
        while !rest.is_empty() {
            if clauses.len() == CLAUSES_MAX {
                return Err(QueryError::TooManyClauses);
            }
            let (clause, after) = clause(rest)?;
            clauses.push(clause);
            rest = after.trim_start();
        }
        match clauses.iter().any(|clause| clause.need != Need::Forbidden) {
            true => Ok(Query { clauses }),
            false => Err(QueryError::NothingWanted),
        }
    }
}

/// The first clause, and what follows it.
fn clause(text: &str) -> Result<(Clause, &str), QueryError> {
    let (need, text) = match text.as_bytes()[0] {
        b'+' => (Need::Demanded, &text[1..]),
        b'-' => (Need::Forbidden, &text[1..]),
        _ => (Need::Wanted, text),
    };
    let (what, rest) = match text.strip_prefix('"') {
        Some(phrase) => {
            let (phrase, rest) = phrase.split_once('"').ok_or(QueryError::OpenPhrase)?;
            let (distance, rest) = until_blank(rest);
            (of_phrase(phrase, distance)?, rest)
        }
        None => {
            let (word, rest) = until_blank(text);
            let is_wild = word.contains(['*', '?']);
            (if is_wild { of_wild(word)? } else { of_words(word)? }, rest)
        }
    };
    Ok((Clause { need, what }, rest))
}

fn until_blank(text: &str) -> (&str, &str) {
    text.split_at(text.find(char::is_whitespace).unwrap_or(text.len()))
}

fn of_phrase(phrase: &str, distance: &str) -> Result<What, QueryError> {
    if phrase.contains('*') {
        return Err(QueryError::WildPhrase);
    }
    let what = of_words(phrase)?;
    if distance.is_empty() {
        return Ok(what);
    }
    let distance = distance.strip_prefix('~').and_then(|number| number.parse().ok());
    let distance = distance.filter(|distance| *distance <= DISTANCE_MAX);
    match (what, distance) {
        (What::Phrase(words), Some(distance)) if words.len() == 2 => {
            let [first, second] = words.try_into().expect("there are two");
            Ok(What::Near(first, second, distance))
        }
        _ => Err(QueryError::Distance),
    }
}

/// One word, or several one after another.
fn of_words(text: &str) -> Result<What, QueryError> {
    let found: Option<Vec<_>> = words(text).take(PHRASE_WORDS_MAX + 1).collect();
    let found = found.filter(|found| !found.is_empty());
    let mut found = found.ok_or_else(|| QueryError::NoWord(text.to_owned()))?;
    match found.len() {
        1 => Ok(What::Word(found.remove(0))),
        ..=PHRASE_WORDS_MAX => Ok(What::Phrase(found)),
        _ => Err(QueryError::LongPhrase),
    }
}

fn of_wild(text: &str) -> Result<What, QueryError> {
    let piece = |letter| match letter {
        '*' => Some(Piece::AnyLetters),
        '?' => Some(Piece::AnyLetter),
        letter if letter.is_alphanumeric() => Some(Piece::Letter(letter)),
        _ => None,
    };
    let pieces: Option<Vec<_>> = text.to_lowercase().chars().map(piece).collect();
    let pieces = pieces.ok_or_else(|| QueryError::Wild(text.to_owned()))?;
    let is_letter = |piece: &&Piece| matches!(piece, Piece::Letter(_));
    let first = pieces.iter().take_while(is_letter).count();
    let wildcards = pieces.len() - pieces.iter().filter(is_letter).count();
    match first >= WILD_LETTERS_MIN && wildcards <= WILDCARDS_MAX {
        true => Ok(What::Wild(pieces)),
        false => Err(QueryError::Wild(text.to_owned())),
    }
}
