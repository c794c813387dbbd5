//! What the engine finds, beside what a scan of all entries finds.

use std::collections::BTreeSet;
use std::path::Path;

use super::*;
use crate::corpus::{Corpus, FOLDER};
use crate::query::draw;
use crate::scan;

fn corpus_of(texts: &[&str]) -> Corpus {
    let mut corpus = Corpus::default();
    let digit =
        |number: usize| b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"[number] as char;
    for (number, text) in texts.iter().enumerate() {
        let index = format!("{number}\tA\t{}\n", digit(text.len()));
        corpus.add("test", text.as_bytes().to_vec(), index.as_bytes()).expect("it is an index");
    }
    corpus
}

fn entries(found: &Found) -> Vec<usize> {
    let mut entries: Vec<_> = found.best.iter().map(|(entry, _)| *entry).collect();
    entries.sort_unstable();
    entries
}

fn query(text: &str) -> Query {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// The jargon file, which is the shortest of the dictionaries.
fn jargon() -> Option<Corpus> {
    if !Path::new(FOLDER).join("jargon.index").is_file() {
        petasos_skips::skip("dict", "not installed: apt-get install dict-jargon");
        return None;
    }
    Some(Corpus::load(Path::new(FOLDER), &["jargon".into()]).expect("Debian's is a dictionary"))
}

#[test]
fn each_kind_of_clause_finds_what_it_says() {
    let texts = [
        "The queen bee flies.",
        "A bee, and a queen",
        "queen of all the bees",
        "Bee bee",
        "An ant: no bee!",
        "antler",
        "anther",
    ];
    let engine = Engine::build(corpus_of(&texts), 3).expect("it builds");
    let expected: [(&str, &[usize]); 15] = [
        ("bee", &[0, 1, 3, 4]),
        ("queen ant", &[0, 1, 2, 4]),
        ("+queen +bee", &[0, 1]),
        ("+bee queen", &[0, 1, 3, 4]),
        ("bee -queen", &[3, 4]),
        ("queen-bee", &[0]),
        ("\"queen bee\"~2", &[0]),
        ("\"queen bee\"~4", &[0, 1]),
        ("\"bee bee\"", &[3]),
        ("\"of all the bees\"", &[2]),
        ("ant*", &[4, 5, 6]),
        ("ant?er", &[5, 6]),
        ("an*er -antler", &[6]),
        ("+ant* +bee", &[4]),
        ("wasp", &[]),
    ];
    for (text, expected) in expected {
        let found = engine.find(&query(text), 10).expect("it searches");
        assert_eq!(
            (entries(&found), found.total),
            (expected.to_vec(), expected.len() as u64),
            "{text}"
        );
        assert_eq!(scan::matching(engine.corpus(), &query(text)), expected, "a scan: {text}");
    }
    let found = engine.find(&query("bee"), 1).expect("it searches");
    assert_eq!((entries(&found), found.total), (vec![3], 4), "the best is of nothing else");
    assert_eq!(engine.find(&query("bee"), 0).expect("it searches").best, []);
}

#[test]
fn indices_are_disjoint_and_together_have_everything() {
    let Some(corpus) = jargon() else { return };
    let all = corpus.len();
    let engine = Engine::build(corpus, 16).expect("it builds");
    let sizes: Vec<u64> = engine.parts.iter().map(Searcher::num_docs).collect();
    assert_eq!((sizes.len(), sizes.iter().sum::<u64>()), (16, all as u64));
    assert!(sizes.iter().all(|size| size.abs_diff(sizes[0]) <= 1), "{sizes:?}");
    // Each entry is found in its own index, and in no other.
    let mut seen = BTreeSet::new();
    for entry in 0..all {
        let text = engine.corpus().text(entry);
        let Some(Some(word)) = crate::words::words(&text).next() else { continue };
        let found = engine.find(&query(&format!("+{word}")), all).expect("it searches");
        let found = entries(&found);
        assert!(found.windows(2).all(|pair| pair[0] < pair[1]), "{word}: none is found twice");
        assert!(found.binary_search(&entry).is_ok(), "{word} finds {entry}");
        seen.insert(entry);
    }
    assert!(seen.len() + 5 > all, "almost all have words: {} of {all}", seen.len());
}

#[test]
fn drawn_queries_find_what_a_scan_finds_with_any_number_of_indices() {
    let Some(corpus) = jargon() else { return };
    let again = jargon().expect("it was there");
    let all = corpus.len();
    let drawn = draw(&corpus, 300, 7);
    assert_eq!(drawn, draw(&corpus, 300, 7), "a seed draws the same");
    assert_ne!(drawn, draw(&corpus, 300, 8));
    let kinds: BTreeSet<_> = drawn.iter().map(|drawn| drawn.kind).collect();
    assert_eq!(Vec::from_iter(kinds), ["boolean", "phrase", "proximity", "term", "wildcard"]);
    let scan = scan::Scan::of(&corpus);
    let many = Engine::build(corpus, 16).expect("it builds");
    let one = Engine::build(again, 1).expect("it builds");
    for drawn in drawn {
        let query = query(&drawn.text);
        let found = many.find(&query, all).expect("it searches");
        assert_eq!(entries(&found), scan.matching(&query), "{drawn:?}");
        assert_eq!(found.total, found.best.len() as u64, "{drawn:?}");
        // Scores are sums, whose order is not the same everywhere.
        let alone = one.find(&query, all).expect("it searches");
        for ((_, score), (_, other)) in found.best.iter().zip(&alone.best) {
            assert!((score - other).abs() < 1e-3, "{drawn:?}: {score} and {other}");
        }
        let few = many.find(&query, 3).expect("it searches");
        assert_eq!(
            (few.total, &few.best[..]),
            (found.total, &found.best[..found.best.len().min(3)])
        );
    }
}
