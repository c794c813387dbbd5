//! Queries in the engine's own terms.

use tantivy::query::{
    BooleanQuery, Occur, PhraseQuery, Query as TantivyQuery, RegexQuery, TermQuery,
};
use tantivy::schema::{Field, IndexRecordOption};
use tantivy::{Result, Term};

use crate::query::{Clause, Need, Piece, Query, What};

/// Translates a query about a field.
///
/// # Errors
/// The engine's.
pub fn translate(query: &Query, body: Field) -> Result<Box<dyn TantivyQuery>> {
    let clause = |Clause { need, what }: &Clause| Ok((occur(*need), of_what(what, body)?));
    let clauses: Vec<_> = query.clauses().iter().map(clause).collect::<Result<_>>()?;
    Ok(Box::new(BooleanQuery::new(clauses)))
}

fn occur(need: Need) -> Occur {
    match need {
        Need::Wanted => Occur::Should,
        Need::Demanded => Occur::Must,
        Need::Forbidden => Occur::MustNot,
    }
}

fn of_what(what: &What, body: Field) -> Result<Box<dyn TantivyQuery>> {
    let term = |word: &String| Term::from_field_text(body, word);
    Ok(match what {
        What::Word(word) => Box::new(TermQuery::new(term(word), IndexRecordOption::WithFreqs)),
        What::Phrase(words) => Box::new(PhraseQuery::new(words.iter().map(term).collect())),
        What::Near(first, second, distance) => {
            let mut phrase = PhraseQuery::new(vec![term(first), term(second)]);
            phrase.set_slop(*distance);
            Box::new(phrase)
        }
        What::Wild(pieces) => Box::new(RegexQuery::from_pattern(&pattern(pieces), body)?),
    })
}

/// A regular expression; letters and digits mean themselves there.
fn pattern(pieces: &[Piece]) -> String {
    let mut pattern = String::new();
    for piece in pieces {
        match piece {
            Piece::Letter(letter) => pattern.push(*letter),
            Piece::AnyLetter => pattern.push('.'),
            Piece::AnyLetters => pattern.push_str(".*"),
        }
    }
    pattern
}
