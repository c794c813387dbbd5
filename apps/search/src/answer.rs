//! Answers, whatever carries them: messages of Petasos, or JSON.

use petasos::Msg;
use serde::{Deserialize, Serialize};

use crate::engine::{Engine, EngineError};
use crate::messages::Results;
use crate::query::{Query, QueryError};

/// How many hits an answer has if nobody says so.
pub const HITS: u32 = 10;
/// The most hits of an answer.
pub const HITS_MAX: u32 = 100;
/// Characters of an entry that a hit shows.
const EXCERPT_CHARS: usize = 80;

/// What a query is answered.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// How many entries match.
    pub total: u64,
    /// The best of them, best first.
    pub hits: Vec<Hit>,
}

/// An entry that matches.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Hit {
    pub entry: u32,
    pub dictionary: String,
    pub headword: String,
    pub score: f32,
    pub excerpt: String,
}

/// Why a query is not answered.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The caller's fault: a retry does not help.
    #[error("{0}")]
    Query(#[from] QueryError),
    /// The caller's fault, too: only what was recorded is answered.
    #[error("the query was not recorded")]
    NotRecorded,
    /// This program's fault.
    #[error("{0}")]
    Engine(#[from] EngineError),
}

impl Answer {
    /// Searches. Of `limit`, 0 is [`HITS`], and it is at most [`HITS_MAX`].
    ///
    /// # Errors
    /// See [`Refusal`].
    pub fn find(engine: &Engine, text: &str, limit: u32) -> Result<Answer, Refusal> {
        let query: Query = text.parse()?;
        let found = engine.find(&query, limited(limit))?;
        let corpus = engine.corpus();
        let hit = |&(entry, score): &(usize, f32)| Hit {
            entry: entry as u32,
            dictionary: corpus.dictionary(entry).to_owned(),
            headword: corpus.headword(entry).to_owned(),
            score,
            excerpt: corpus.excerpt(entry, EXCERPT_CHARS),
        };
        Ok(Answer { total: found.total, hits: found.best.iter().map(hit).collect() })
    }

    /// The same with no more hits than `limit`, as of [`Answer::find`].
    pub fn with_at_most(&self, limit: u32) -> Answer {
        let hits = self.hits.iter().take(limited(limit)).cloned();
        Answer { total: self.total, hits: hits.collect() }
    }

    /// As a message.
    pub fn message(&self) -> Msg<Results> {
        let mut results = Results::new();
        let mut edit = results.edit();
        edit.set_total(self.total);
        for hit in &self.hits {
            edit.hits_mut()
                .add()
                .set_entry(hit.entry)
                .set_dictionary(&hit.dictionary)
                .set_headword(&hit.headword)
                .set_score(hit.score)
                .set_excerpt(&hit.excerpt);
        }
        results
    }

    /// What a message says.
    pub fn of(results: &Results) -> Answer {
        let hit = |hit: &crate::messages::Hit| Hit {
            entry: hit.entry(),
            dictionary: hit.dictionary().to_owned(),
            headword: hit.headword().to_owned(),
            score: hit.score(),
            excerpt: hit.excerpt().to_owned(),
        };
        Answer { total: results.total(), hits: results.hits().iter().map(hit).collect() }
    }
}

fn limited(limit: u32) -> usize {
    if limit == 0 { HITS as usize } else { limit.min(HITS_MAX) as usize }
}
