use std::collections::HashSet;

use super::support::*;
use crate::{find, kinds};

#[test]
fn each_kind_has_an_example_that_is_right() {
    let docs = include_str!("../lib.rs").lines().filter_map(|line| line.strip_prefix("//!"));
    let docs = docs.collect::<Vec<_>>().join("\n");
    let mut shown = HashSet::new();
    for part in docs.split("**`").skip(1) {
        let (name, rest) = part.split_once("`**").expect("the name is in bold");
        let example = rest.split("```json").nth(1).and_then(|rest| rest.split("```").next());
        let kind = find(name).expect("the kind is there");
        let policy = make(kind, example.expect("there is one"), None).expect("it is right");
        // What it leaves behind, its like goes on from.
        let state = policy.state();
        assert!(make(kind, example.expect("there is one"), Some(&state)).is_ok(), "{name}");
        shown.insert(name);
    }
    assert_eq!(shown.len(), kinds().len());
}

#[test]
fn names_are_different_and_others_are_not_found() {
    let names: HashSet<_> = kinds().iter().map(|kind| kind.version().kind).collect();
    assert_eq!(names.len(), kinds().len());
    assert!(names.iter().all(|name| find(name).is_some()));
    assert!(find("nothing").is_none());
}
