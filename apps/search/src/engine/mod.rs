//! The search engine: disjoint indices in memory, each of which has every n-th entry, and which
//! answer together as one would.
//!
//! # Invariants
//! - An entry is in one index. Index *i* of *n* has the entries *i*, *i* + *n*, and so on, in this
//!   order, in one segment: so the number of a document says which entry it is.
//! - Scores are those of one index of everything: the statistics of all indices together are used
//!   in each (see `statistics`).

mod build;
mod statistics;
mod translate;

use tantivy::Searcher;
use tantivy::collector::{Count, TopDocs};
use tantivy::schema::Field;

use crate::corpus::Corpus;
use crate::query::Query;
use statistics::Statistics;

/// Indices, and what they are of.
pub struct Engine {
    corpus: Corpus,
    body: Field,
    parts: Vec<Searcher>,
    statistics: Statistics,
}

/// What was found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Found {
    /// How many entries match.
    pub total: u64,
    /// Entries and their scores, the best first.
    pub best: Vec<(usize, f32)>,
}

/// The search engine has failed. Nobody's fault but this program's.
#[derive(Clone, Debug, thiserror::Error)]
#[error("the search engine: {0}")]
pub struct EngineError(#[from] tantivy::TantivyError);

impl Engine {
    /// What is searched.
    pub fn corpus(&self) -> &Corpus {
        &self.corpus
    }

    /// Asks all indices, one after another, and merges what they find.
    ///
    /// # Errors
    /// The engine's.
    pub fn find(&self, query: &Query, limit: usize) -> Result<Found, EngineError> {
        let query = translate::translate(query, self.body)?;
        let mut found = Found::default();
        // None are wanted, but the collector wants at least one.
        let collector = (TopDocs::with_limit(limit.max(1)).order_by_score(), Count);
        let statistics = self.statistics.of(&self.parts);
        for (part, searcher) in self.parts.iter().enumerate() {
            let (best, count) =
                searcher.search_with_statistics_provider(&*query, &collector, &statistics)?;
            found.total += count as u64;
            let entry = |doc: u32| doc as usize * self.parts.len() + part;
            found.best.extend(best.iter().map(|(score, at)| (entry(at.doc_id), *score)));
        }
        found.best.sort_by(|(a, a_score), (b, b_score)| b_score.total_cmp(a_score).then(a.cmp(b)));
        found.best.truncate(limit);
        Ok(found)
    }
}

#[cfg(test)]
mod tests;
