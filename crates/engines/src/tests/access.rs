use petasos_engine::*;

use super::support::*;
use crate::{Access, RequireSealing};

const BY_FIELD: &str = r#"{"default": "allow", "rules": [
    {"name": "no bob", "action": "deny", "methods": ["pkg.Service/*"],
     "fields": [{"path": "customer.name", "is": {"equals": "bob"}}]},
    {"name": "few", "action": "deny", "fields": [{"path": "n", "is": {"range": {"min": 10}}}]}]}"#;

fn schema() -> TestSchema {
    let fields = vec![("customer.name", FieldKind::Text), ("n", FieldKind::Signed)];
    TestSchema { fields, ..TestSchema::default() }
}

fn rig(configuration: &str) -> Rig {
    let policy = make(&Access, configuration, None).expect("the configuration is right");
    Rig::try_with(&Access, policy, schema()).expect("it is placed")
}

/// Puts a request or a message with fields in.
fn put(rig: &mut Rig, id: CallId, kind: ItemKind, fields: &[(&str, Value<'_>)]) {
    let method = rig.datapath.call(id).expect("it is there").method;
    let item = Submission::new(kind, Direction::Outbound, 10);
    let at = rig.datapath.submit(id, item, rig.now()).expect("it is there");
    let wanted: Vec<_> = rig.schema.wanted.clone();
    for (path, value) in fields {
        for (_, _, field) in wanted.iter().filter(|(of, name, _)| *of == method && name == path) {
            rig.datapath.fields_mut(at).insert(*field, *value);
        }
    }
    rig.run();
}

fn unary(rig: &mut Rig, call: Call, fields: &[(&str, Value<'_>)]) -> Option<String> {
    let id = rig.datapath.begin(call).expect("there is room");
    put(rig, id, ItemKind::Request, fields);
    rig.out();
    rig.back().pop().map(|end| end.status.expect("it failed").message().to_owned())
}

#[test]
fn fields_decide_by_the_first_rule_that_holds() {
    let mut rig = rig(BY_FIELD);
    let bob = ("customer.name", Value::Text("bob"));
    let denied = Some("denied by rule `no bob`".to_owned());
    assert_eq!(unary(&mut rig, call(), &[bob, ("n", Value::Signed(10))]), denied);
    assert_eq!(unary(&mut rig, of_method(5), &[bob]), None, "another service");
    let few = Some("denied by rule `few`".to_owned());
    assert_eq!(unary(&mut rig, of_method(5), &[bob, ("n", Value::Signed(10))]), few);
    assert_eq!(unary(&mut rig, call(), &[("n", Value::Signed(9))]), None);
    assert_eq!(unary(&mut rig, call(), &[]), None, "a field that is not there holds nothing");
    assert_eq!(rig.report()["rules"][0]["decided"], 1);
    assert_eq!(rig.report()["by_default"], 3);
}

#[test]
fn tests_of_values() {
    let cases = [
        (r#"{"one_of": ["alice", "bob"]}"#, "customer.name", Value::Text("bob"), true),
        (r#"{"one_of": ["alice", "bob"]}"#, "customer.name", Value::Text("bo"), false),
        (r#"{"prefix": "bo"}"#, "customer.name", Value::Text("bob"), true),
        (r#"{"prefix": "bo"}"#, "customer.name", Value::Text("b"), false),
        (r#"{"range": {"min": -1, "max": 1.5}}"#, "n", Value::Signed(1), true),
        (r#"{"range": {"min": -1, "max": 1.5}}"#, "n", Value::Signed(2), false),
        (r#"{"range": {"max": 1}}"#, "n", Value::Signed(i64::MIN), true),
        (r#"{"equals": 9223372036854775807}"#, "n", Value::Signed(i64::MAX - 1), false),
        (r#"{"equals": 9223372036854775807}"#, "n", Value::Signed(i64::MAX), true),
    ];
    for (test, path, value, is_denied) in cases {
        let rule = format!(r#"{{"path": "{path}", "is": {test}}}"#);
        let rule = format!(r#"{{"name": "r", "action": "deny", "fields": [{rule}]}}"#);
        let mut rig = rig(&format!(r#"{{"default": "allow", "rules": [{rule}]}}"#));
        assert_eq!(unary(&mut rig, call(), &[(path, value)]).is_some(), is_denied, "{test}");
    }
}

#[test]
fn metadata_identity_and_sealing_decide() {
    let mut rig = rig(r#"{"default": "deny", "rules": [
            {"name": "admins", "action": "allow",
             "metadata": [{"key": "x-role", "is": {"one_of": ["admin", "root"]}}]},
            {"name": "cluster", "action": "allow", "identity": "spiffe://cluster/*"},
            {"name": "sealed", "action": "allow", "sealed": true,
             "metadata": [{"key": "x-a"}]}]}"#);
    let mut passes = |call: Call, entries: &[(&str, &str)]| {
        let id = rig.datapath.begin(call).unwrap();
        let mut item = Submission::new(ItemKind::Request, Direction::Outbound, 10);
        entries.iter().for_each(|(key, value)| item.metadata.append(key, value).unwrap());
        rig.datapath.submit(id, item, Time::ZERO).unwrap();
        rig.run();
        let refused = rig.refused();
        assert!(refused.iter().all(|(code, text)| {
            *code == Code::PermissionDenied && text == "denied by rule `default`"
        }));
        rig.out();
        refused.is_empty()
    };
    let from = |name: &str| Call { identity: Some(name.into()), ..call() };
    assert!(passes(call(), &[("x-role", "guest"), ("x-role", "root")]));
    assert!(!passes(call(), &[("x-role", "guest")]));
    assert!(passes(from("spiffe://cluster/web"), &[]));
    assert!(!passes(from("spiffe://elsewhere/web"), &[]));
    assert!(passes(Call { is_sealed: true, ..call() }, &[("x-a", "")]));
    assert!(!passes(Call { is_sealed: true, ..call() }, &[]));
}

#[test]
fn each_message_of_a_stream_is_decided_also_after_an_upgrade() {
    let configuration = r#"{"default": "allow", "rules": [
        {"name": "guests", "action": "deny", "metadata": [{"key": "x-guest"}],
         "fields": [{"path": "n", "is": {"range": {"min": 10}}}]}]}"#;
    let mut rig = rig(configuration);
    let begin = |rig: &mut Rig, is_guest: bool| {
        let id = rig.datapath.begin(stream()).unwrap();
        let mut item = Submission::new(ItemKind::Request, Direction::Outbound, 10);
        if is_guest {
            item.metadata.append("x-guest", "1").unwrap();
        }
        rig.datapath.submit(id, item, Time::ZERO).unwrap();
        rig.run();
        id
    };
    let (guest, other) = (begin(&mut rig, true), begin(&mut rig, false));
    put(&mut rig, guest, ItemKind::Message, &[("n", Value::Signed(9))]);
    assert_eq!(rig.out().len(), 3);
    rig.upgrade(configuration);
    put(&mut rig, other, ItemKind::Message, &[("n", Value::Signed(10))]);
    put(&mut rig, guest, ItemKind::Message, &[("n", Value::Signed(10))]);
    let kinds: Vec<_> = rig.out().iter().map(|item| (item.call, item.kind)).collect();
    assert_eq!(kinds, [(other, ItemKind::Message), (guest, ItemKind::Cancel)]);
    let end = rig.back().pop().expect("the guest is told");
    assert_eq!(end.status.unwrap().message(), "denied by rule `guests`");
    assert_eq!(rig.report()["rules"][0]["decided"], 1);
}

#[test]
fn a_stream_whose_request_was_not_seen_goes_on() {
    let policy = make(&Access, r#"{"default": "deny"}"#, None).unwrap();
    let mut rig = Rig::new(&Access, r#"{"default": "allow"}"#);
    let id = rig.begin(stream());
    rig.run();
    rig.out();
    rig.datapath.detach(0, &mut rig.schema).unwrap();
    rig.datapath.attach(0, policy, &mut rig.schema).unwrap();
    rig.submit(id, ItemKind::Message, 5);
    rig.run();
    assert_eq!(rig.out().len(), 1);
}

#[test]
fn unsealed_calls_are_refused_where_sealing_is_required() {
    let mut rig = Rig::new(&RequireSealing, "{}");
    assert!(rig.passes(Call { is_sealed: true, ..call() }));
    assert!(!rig.passes(call()));
    assert_eq!(rig.refused()[0].1, "denied by rule `require_sealing`");
    rig.upgrade("{}");
    assert_eq!(rig.report()["rules"][0]["decided"], 1);
    goes_on_from(&RequireSealing, "{}", r#"{"decided": [["require_sealing", 4]]}"#);
    are_wrong(&RequireSealing, &[(r#"{"sealed": true}"#, "unknown field `sealed`")]);
}

#[test]
fn counts_outlive_upgrades_by_the_names_of_rules() {
    let version_1 = r#"{"decided": [["gone", 7], ["no bob", 3]], "by_default": 5}"#;
    let policy = goes_on_from(&Access, BY_FIELD, version_1);
    let mut rig = Rig::try_with(&Access, policy, schema()).unwrap();
    assert_eq!(unary(&mut rig, call(), &[]), None);
    rig.upgrade(BY_FIELD);
    assert_eq!(rig.report()["by_default"], 6);
    assert_eq!(rig.report()["rules"][0]["decided"], 3);
    assert_eq!(rig.report()["rules"][1]["decided"], 0);
}

#[test]
fn fields_that_are_not_there_or_of_another_kind_are_refused_when_it_is_placed() {
    let place = |path: &str, test: &str| {
        let rule = format!(r#"{{"path": "{path}", "is": {test}}}"#);
        let rule = format!(r#"{{"name": "r", "action": "deny", "fields": [{rule}]}}"#);
        let configuration = format!(r#"{{"default": "allow", "rules": [{rule}]}}"#);
        let policy = make(&Access, &configuration, None).unwrap();
        Rig::try_with(&Access, policy, schema()).err().expect("it is refused")
    };
    let unknown = place("colour", r#"{"equals": 1}"#);
    assert!(matches!(unknown, ChangeError::Field(FieldError::Unknown { .. })));
    for (path, test) in [
        ("n", r#"{"equals": "one"}"#),
        ("n", r#"{"prefix": "a"}"#),
        ("customer.name", r#"{"range": {"min": 1}}"#),
        ("customer.name", r#"{"one_of": ["a", 2]}"#),
    ] {
        let kind = place(path, test);
        assert!(matches!(kind, ChangeError::Field(FieldError::Kind { .. })), "{path} {test}");
    }
}

#[test]
fn wrong_rules_are_refused() {
    let rules = |rules: &str| format!(r#"{{"default": "allow", "rules": [{rules}]}}"#);
    let field = |test: &str| {
        rules(&format!(
            r#"{{"name": "r", "action": "deny", "fields": [{{"path": "n", "is": {test}}}]}}"#
        ))
    };
    let many = vec![r#"{"name": "r", "action": "deny"}"#; 65].join(",");
    let twice = [r#"{"name": "r", "action": "deny"}"#; 2].join(",");
    for (configuration, expected) in [
        ("{}".to_owned(), "missing field `default`"),
        (rules(r#"{"action": "deny"}"#), "missing field `name`"),
        (rules(r#"{"name": "", "action": "deny"}"#), "`name` must have 1 to 100 bytes"),
        (rules(r#"{"name": "r", "action": "stop"}"#), "unknown variant `stop`"),
        (rules(r#"{"name": "r", "action": "deny", "methods": ["*.x"]}"#), "pkg.Service/*"),
        (rules(&many), "`rules` must have 1 to 64 entries, and has 65"),
        (rules(&twice), "rule `r`: `name` is the name of an earlier rule, too"),
        (field(r#"{"equals": [1]}"#), "rule `r`: field `n`: `equals` must be a string"),
        (field(r#"{"one_of": []}"#), "at least one"),
        (field(r#"{"range": {}}"#), "`range` must have `min`, `max` or both"),
        (field(r#"{"like": "a"}"#), "unknown variant `like`"),
    ] {
        are_wrong(&Access, &[(&configuration, expected)]);
    }
}
