use petasos_engine::*;

use super::support::*;
use crate::MetadataChange;

const CHANGES: &str = r#"{"rules": [
    {"methods": ["pkg.Service/*"], "on": ["requests", "ends"], "changes": [
        {"set": {"key": "x-zone", "value": "a"}},
        {"append": {"key": "x-hop", "value": "p"}},
        {"remove": {"key": "x-secret"}},
        {"rename": {"key": "x-old", "to": "x-new"}},
        {"rename": {"key": "x-old-bin", "to": "x-new-bin"}}]},
    {"on": ["heads"], "changes": [{"append": {"key": "x-head", "value": "1"}}]}]}"#;

fn metadata(entries: &[(&str, &str)]) -> Metadata {
    let mut metadata = Metadata::new();
    for (key, value) in entries {
        metadata.append_bytes(key.as_bytes(), value.as_bytes()).unwrap();
    }
    metadata
}

fn request(rig: &mut Rig, call: Call, entries: &[(&str, &str)]) -> (CallId, Metadata) {
    let id = rig.datapath.begin(call).unwrap();
    let mut item = Submission::new(ItemKind::Request, Direction::Outbound, 10);
    item.metadata = metadata(entries);
    rig.datapath.submit(id, item, Time::ZERO).unwrap();
    rig.run();
    (id, rig.out().pop().expect("it passes").metadata)
}

#[test]
fn entries_are_set_appended_removed_and_renamed() {
    let mut rig = Rig::new(&MetadataChange, CHANGES);
    let entries = [
        ("x-zone", "b"),
        ("x-zone", "c"),
        ("x-hop", "o"),
        ("x-secret", "s"),
        ("x-old", "1"),
        ("x-old", "2"),
        ("x-old-bin", "\u{e9}"),
    ];
    let (_, changed) = request(&mut rig, call(), &entries);
    let expected = [
        ("x-hop", "o"),
        ("x-zone", "a"),
        ("x-hop", "p"),
        ("x-new", "1"),
        ("x-new", "2"),
        ("x-new-bin", "\u{e9}"),
    ];
    assert_eq!(changed, metadata(&expected));
    let (_, same) = request(&mut rig, of_method(5), &entries);
    assert_eq!(same, metadata(&entries), "of another service");
}

#[test]
fn heads_and_ends_are_changed_also_of_calls_whose_request_was_not_seen() {
    let mut rig = Rig::new(&MetadataChange, CHANGES);
    let id = rig.datapath.begin(stream()).unwrap();
    rig.submit(id, ItemKind::Head, 0);
    rig.submit(id, ItemKind::End, 0);
    rig.run();
    let back: Vec<_> = rig.back().into_iter().map(|item| item.metadata).collect();
    assert_eq!(back[0], metadata(&[("x-head", "1")]));
    assert_eq!(back[1], metadata(&[("x-zone", "a"), ("x-hop", "p")]));
    rig.upgrade(CHANGES);
    assert_eq!(rig.report()["changed"], 2);
}

#[test]
fn many_entries_are_no_problem() {
    let mut rig = Rig::new(&MetadataChange, CHANGES);
    let entries = vec![("x-old", "1"); 100_000];
    assert_eq!(request(&mut rig, call(), &entries).1.len(), 100_002);
}

#[test]
fn states_and_configurations() {
    let policy = goes_on_from(&MetadataChange, CHANGES, r#"{"changed": 8}"#);
    assert_eq!(policy.report()["changed"], 8);
    let rule =
        |change: &str| format!(r#"{{"rules": [{{"on": ["requests"], "changes": [{change}]}}]}}"#);
    for (configuration, expected) in [
        (r#"{"rules": []}"#.to_owned(), "`rules` must have 1 to 64 entries"),
        (rule(""), "`rules.changes` must have 1 to 64 entries"),
        (rule(r#"{"set": {"key": "X", "value": "a"}}"#), "key `X`, value `a`: a key must be"),
        (rule(r#"{"set": {"key": "grpc-x", "value": "a"}}"#), "grpc- are reserved"),
        (rule(r#"{"append": {"key": "a-bin", "value": "a"}}"#), "keys of binary values end in"),
        (rule(r#"{"append": {"key": "a", "value": "\n"}}"#), "a value must be printable"),
        (rule(r#"{"rename": {"key": "a", "to": "b-bin"}}"#), "`a` to `b-bin`: keys of binary"),
        (rule(r#"{"rename": {"key": "a", "to": ""}}"#), "a key must be"),
        (rule(r#"{"drop": {"key": "a"}}"#), "unknown variant `drop`"),
    ] {
        are_wrong(&MetadataChange, &[(&configuration, expected)]);
    }
}
