//! Queries that are drawn from the corpus: words as often as they are found in it, but for the
//! commonest, and pairs of words that are near each other somewhere.
//!
//! They are the kinds of Lucene's nightly benchmark, of which R2P2's evaluation took its queries:
//! terms, Boolean combinations, proximity, and wildcards.

use std::collections::{BTreeMap, BTreeSet};

use petasos_base::Rng;

use crate::corpus::Corpus;
use crate::words::words;

/// A query, and of which kind it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drawn {
    pub kind: &'static str,
    pub text: String,
}

/// Words that are looked at for one query; then it is one of another kind.
const ATTEMPTS: usize = 64;
/// Words of fewer letters are not asked for.
const LETTERS_MIN: usize = 3;
/// Nor are those that are in more than a tenth of so many entries: nobody would, as they say little
/// (in gcide, each entry ends with the dictionary's name).
const SAMPLED_ENTRIES: usize = 1000;
const COMMON_ENTRIES: usize = SAMPLED_ENTRIES / 10;
/// Letters of a word that a wildcard keeps.
const KEPT_LETTERS: usize = 3;
/// The words of proximity are at most so many places apart.
const DISTANCE_MAX: u64 = 4;

/// Draws so many queries; none if no entry has words. The same seed draws the same.
pub fn draw(corpus: &Corpus, count: usize, seed: u64) -> Vec<Drawn> {
    let mut drawing =
        Drawing { corpus, rng: Rng::new(seed), split: BTreeMap::new(), common: BTreeSet::new() };
    drawing.common = drawing.sample();
    let queries = (0..count).map_while(|_| drawing.query());
    queries.collect()
}

struct Drawing<'a> {
    corpus: &'a Corpus,
    rng: Rng,
    /// The words of entries that were looked at.
    split: BTreeMap<usize, Vec<Option<String>>>,
    /// Words that are not asked for.
    common: BTreeSet<String>,
}

impl Drawing<'_> {
    fn query(&mut self) -> Option<Drawn> {
        let drawn = match self.rng.below(10) {
            0..4 => None,
            4..7 => self.boolean().map(|text| Drawn { kind: "boolean", text }),
            7 => self.phrase().map(|text| Drawn { kind: "phrase", text }),
            8 => self.near().map(|text| Drawn { kind: "proximity", text }),
            _ => self.wild().map(|text| Drawn { kind: "wildcard", text }),
        };
        drawn.or_else(|| self.word().map(|text| Drawn { kind: "term", text }))
    }

    /// The words of too many entries.
    fn sample(&mut self) -> BTreeSet<String> {
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for _ in 0..SAMPLED_ENTRIES {
            let own: BTreeSet<String> = self.entry().iter().flatten().cloned().collect();
            own.into_iter().for_each(|word| *counts.entry(word).or_default() += 1);
        }
        let common = counts.into_iter().filter(|(_, count)| *count > COMMON_ENTRIES);
        common.map(|(word, _)| word).collect()
    }

    /// An entry's words.
    fn entry(&mut self) -> &[Option<String>] {
        let entry = self.rng.below(self.corpus.len() as u64) as usize;
        let corpus = self.corpus;
        self.split.entry(entry).or_insert_with(|| words(&corpus.text(entry)).collect())
    }

    /// Some words of an entry, so far from each other at most, in their order.
    fn places(&mut self, distances: &[u64]) -> Option<Vec<String>> {
        for _ in 0..ATTEMPTS {
            let steps: Vec<_> =
                distances.iter().map(|most| 1 + self.rng.below(*most) as usize).collect();
            let from = self.rng.next_u64() as usize;
            let entry = self.entry();
            let last = entry.len().checked_sub(1 + steps.iter().sum::<usize>());
            let Some(from) = last.map(|last| from % (last + 1)) else { continue };
            let at = steps.iter().scan(from, |at, step| {
                *at += step;
                Some(*at)
            });
            let found = core::iter::once(from).chain(at).map(|at| entry[at].clone());
            let found: Vec<Option<String>> = found.collect();
            let is_asked =
                |word: &String| word.chars().count() >= LETTERS_MIN && !self.common.contains(word);
            let found = found.into_iter().map(|word| word.filter(is_asked));
            if let Some(found) = found.collect() {
                return Some(found);
            }
        }
        None
    }

    fn word(&mut self) -> Option<String> {
        Some(self.places(&[])?.remove(0))
    }

    /// Of two or three words: any of them, all of them, or some without another.
    fn boolean(&mut self) -> Option<String> {
        let (first, second) = (self.word()?, self.word()?);
        let third = if self.rng.chance(0.5) { self.word() } else { None };
        let [before, between, last] = match self.rng.below(3) {
            0 => ["", " ", " "],
            1 => ["+", " +", " +"],
            _ => ["", " ", " -"],
        };
        let third = third.map(|third| format!("{last}{third}")).unwrap_or_default();
        Some(format!("{before}{first}{between}{second}{third}"))
    }

    fn phrase(&mut self) -> Option<String> {
        let distances: &[u64] = if self.rng.chance(0.5) { &[1] } else { &[1, 1] };
        Some(format!("\"{}\"", self.places(distances)?.join(" ")))
    }

    fn near(&mut self) -> Option<String> {
        let found = self.places(&[DISTANCE_MAX])?;
        Some(format!("\"{}\"~{DISTANCE_MAX}", found.join(" ")))
    }

    /// A word's beginning, or the word without a letter.
    fn wild(&mut self) -> Option<String> {
        let word = self.word()?;
        let letters: Vec<char> = word.chars().collect();
        let mut kept: String = letters[..KEPT_LETTERS].iter().collect();
        if letters.len() > KEPT_LETTERS && self.rng.chance(0.5) {
            kept.push('?');
            kept.extend(&letters[KEPT_LETTERS + 1..]);
        } else {
            kept.push('*');
        }
        Some(kept)
    }
}
