//! How common words are in all indices together, by which scores are the same in each.

use std::cell::RefCell;

use tantivy::query::Bm25StatisticsProvider;
use tantivy::schema::Field;
use tantivy::{Result, Searcher, Term};

/// What does not depend on a word.
#[derive(Clone, Copy, Debug)]
pub struct Statistics {
    documents: u64,
    words: u64,
}

/// The statistics of these indices, for one query.
pub struct OfParts<'a> {
    all: Statistics,
    parts: &'a [Searcher],
    /// Each index asks for each word, and all have to be looked at for one.
    counted: RefCell<Vec<(Term, u64)>>,
}

impl Statistics {
    /// Adds up.
    ///
    /// # Errors
    /// The engine's.
    pub fn of_all(parts: &[Searcher], body: Field) -> Result<Statistics> {
        let mut all = Statistics { documents: 0, words: 0 };
        for part in parts {
            all.documents += part.num_docs();
            all.words += part.total_num_tokens(body)?;
        }
        Ok(all)
    }

    /// The same with the indices, for what depends on words.
    pub fn of(self, parts: &[Searcher]) -> OfParts<'_> {
        OfParts { all: self, parts, counted: RefCell::default() }
    }
}

impl Bm25StatisticsProvider for OfParts<'_> {
    fn total_num_tokens(&self, _body: Field) -> Result<u64> {
        Ok(self.all.words)
    }

    fn total_num_docs(&self) -> Result<u64> {
        Ok(self.all.documents)
    }

    fn doc_freq(&self, term: &Term) -> Result<u64> {
        let known =
            self.counted.borrow().iter().find(|(it, _)| it == term).map(|(_, count)| *count);
        if let Some(count) = known {
            return Ok(count);
        }
        let count = self.parts.iter().map(|part| part.doc_freq(term)).sum::<Result<u64>>()?;
        self.counted.borrow_mut().push((term.clone(), count));
        Ok(count)
    }
}
