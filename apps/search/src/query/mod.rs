//! Queries: what people write, and what it means.
//!
//! ```text
//! query  = clause { blank clause }            at most 16 clauses, 256 bytes
//! clause = [ "+" | "-" ] ( word | wild | phrase )
//! wild   = a word with `*` (any letters) or `?` (one letter), after two letters at least
//! phrase = `"` word { blank word } `"` [ "~" number ]
//! ```
//!
//! An entry matches if it has all that `+` demands and nothing that `-` forbids; if nothing is
//! demanded, it has at least one of the others. `"a b"~N` is b at most N words from directly after
//! a, on either side. A word with other signs in it (`ad-hoc`) is a phrase of its parts.

mod draw;
mod parse;

pub use draw::{Drawn, draw};
pub use parse::QueryError;

/// A query that can be run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Query {
    clauses: Vec<Clause>,
}

/// A part of a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clause {
    pub need: Need,
    pub what: What,
}

/// What a clause says of entries that have what it names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// They may match.
    Wanted,
    /// Others do not match.
    Demanded,
    /// They do not match.
    Forbidden,
}

/// What an entry may have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    Word(String),
    /// Words that begin alike, and so on.
    Wild(Vec<Piece>),
    /// At least two words, one directly after another.
    Phrase(Vec<String>),
    /// Two words, the second so many places from directly after the first at most.
    Near(String, String, u32),
}

/// A part of a wildcard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece {
    Letter(char),
    AnyLetter,
    AnyLetters,
}

impl Query {
    /// The clauses, of which there is one, and one that is not forbidden.
    pub fn clauses(&self) -> &[Clause] {
        &self.clauses
    }
}

#[cfg(test)]
mod tests;
