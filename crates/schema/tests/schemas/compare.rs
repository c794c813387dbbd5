//! Which changes keep two schemas talking.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use petasos_schema::{Compatibility, Difference, Schema};
use proptest::prelude::*;

use crate::common::random::descriptor_set;
use crate::common::{id, load, schema};

const AROUND: &str = "message Empty {} message Point { int32 x = 1; int32 y = 2; } \
    message Named { string name = 1; Point at = 2; } message Other { string x = 1; } \
    enum E { Z = 0; } enum F { Y = 0; X = 5; } message Choice { oneof o { string key = 1; \
    Point value = 2; } }";

fn with(body: &str) -> Schema {
    schema(&format!("message M {{ {body} }} {AROUND}"))
}

/// Compares `M` with the bodies `first` and `second`; both directions must agree.
fn compare(first: &str, second: &str) -> Compatibility {
    let (first, second) = (with(first), with(second));
    let (here, there) = (id(&first, "M"), id(&second, "M"));
    let forth = first.compare_messages(here, &second, there);
    let back = second.compare_messages(there, &first, here);
    match (&forth, &back) {
        (Compatibility::Incompatible(forth), Compatibility::Incompatible(back)) => {
            assert_eq!(forth.numbers, back.numbers);
        }
        _ => assert_eq!(forth, back),
    }
    forth
}

fn mismatch(first: &str, second: &str) -> String {
    match compare(first, second) {
        Compatibility::Incompatible(mismatch) => mismatch.to_string(),
        other => panic!("{first} and {second} are {other:?}"),
    }
}

#[test]
fn equal_is_what_has_equal_hashes() {
    assert_eq!(compare("int32 a = 1;", "int32 b = 1;"), Compatibility::Equal);
    assert_eq!(compare("E a = 1;", "F a = 1;"), Compatibility::Equal);
}

#[test]
fn fields_come_and_go() {
    assert_eq!(compare("", "int32 a = 1; Point p = 2;"), Compatibility::Compatible);
    assert_eq!(compare("int32 a = 1;", "string b = 2;"), Compatibility::Compatible);
}

#[test]
fn kinds_change_within_their_groups_only() {
    let groups: [&[&str]; 10] = [
        &["int32", "uint32", "int64", "uint64", "bool", "E", "F"],
        &["sint32", "sint64"],
        &["fixed32", "sfixed32"],
        &["fixed64", "sfixed64"],
        &["float"],
        &["double"],
        &["string", "bytes"],
        &["Point"],
        &["repeated int32", "repeated bool", "repeated uint64 "],
        &["map<int32, string>", "map<int64, bytes>"],
    ];
    for (at, group) in groups.iter().enumerate() {
        for (other_at, other) in groups.iter().enumerate() {
            for (one, two) in group.iter().flat_map(|one| other.iter().map(move |two| (one, two))) {
                let found = compare(&format!("{one} a = 1;"), &format!("{two} a = 1;"));
                let is_fine = !matches!(found, Compatibility::Incompatible(_));
                assert_eq!(is_fine, at == other_at, "{one} and {two}: {found:?}");
            }
        }
    }
}

#[test]
fn presence_and_repetition_change_where_readers_cope() {
    for (first, second) in [
        ("int32 a = 1;", "optional int32 a = 1;"),
        ("string a = 1;", "repeated string a = 1;"),
        ("optional bytes a = 1;", "repeated string a = 1;"),
        ("Point a = 1;", "repeated Point a = 1;"),
        ("repeated int32 a = 1;", "repeated int32 a = 1 [packed = false];"),
        ("int32 a = 1;", "repeated int32 a = 1 [packed = false];"),
        ("repeated int64 a = 1;", "repeated int32 a = 1;"),
    ] {
        assert_eq!(compare(first, second), Compatibility::Compatible, "{first} and {second}");
    }
    assert_eq!(
        mismatch("int32 a = 1;", "repeated int32 a = 1;"),
        "M.a (field 1): int32 here, packed int32 there"
    );
    assert_eq!(
        mismatch("repeated double a = 1;", "optional double b = 1;"),
        "M.a (field 1): packed double here, double there"
    );
    assert_eq!(
        mismatch("Point a = 1;", "bytes a = 1;"),
        "M.a (field 1): message Point here, bytes there"
    );
    assert_eq!(
        mismatch("repeated E a = 1 [packed = false];", "repeated string a = 1;"),
        "M.a (field 1): repeated enum E here, repeated string there"
    );
}

#[test]
fn maps_are_their_entries() {
    for (first, second) in [
        ("map<string, Point> a = 1;", "repeated Named a = 1;"),
        ("map<int32, int32> a = 1;", "repeated Point a = 1;"),
        ("map<bool, E> a = 1;", "repeated Point a = 1;"),
    ] {
        assert_eq!(compare(first, second), Compatibility::Compatible, "{first} and {second}");
    }
    assert_eq!(
        mismatch("map<string, int32> a = 1;", "repeated Named a = 1;"),
        "M.a (field 1): map<string, int32> here, repeated message Named there"
    );
    for (map, other) in [
        ("map<int32, Point> a = 1;", "repeated Named a = 1;"),
        ("map<string, Point> a = 1;", "Named a = 1;"),
        ("map<string, Point> a = 1;", "repeated Choice a = 1;"),
        ("map<string, Point> a = 1;", "repeated Other a = 1;"),
        ("map<string, Point> a = 1;", "repeated string a = 1;"),
        ("map<string, Point> a = 1;", "map<int32, Point> a = 1;"),
        ("map<string, int32> a = 1;", "map<string, string> a = 1;"),
    ] {
        assert!(mismatch(map, other).starts_with("M.a (field 1): "), "{map} and {other}");
    }
    assert_eq!(
        mismatch("map<string, Other> a = 1;", "repeated Named a = 1;"),
        "M.a.x (field 1.1): string here, int32 there"
    );
    assert_eq!(
        mismatch("repeated Named a = 1;", "map<string, Other> a = 1;"),
        "M.a.x (field 1.1): int32 here, string there"
    );
}

#[test]
fn oneofs_do_not_grow_over_what_is_sent_together() {
    for (first, second) in [
        ("int32 a = 1;", "oneof o { int32 a = 1; }"),
        ("int32 a = 1;", "oneof o { int32 a = 1; string b = 2; }"),
        (
            "oneof o { int32 a = 1; int32 b = 2; }",
            "oneof p { int32 a = 1; int32 b = 2; bool c = 3; }",
        ),
        ("oneof o { int32 a = 1; int32 b = 2; }", "int32 b = 2;"),
        ("string a = 1;", "oneof o { bytes a = 1; }"),
    ] {
        assert_eq!(compare(first, second), Compatibility::Compatible, "{first} and {second}");
    }
    assert_eq!(
        mismatch("int32 a = 1; int32 b = 2;", "oneof o { int32 a = 1; int32 b = 2; }"),
        "M.b (field 2): in one oneof with field 1 only there"
    );
    assert_eq!(
        mismatch("oneof o { int32 a = 1; int32 b = 2; }", "int32 a = 1; oneof o { int32 b = 2; }"),
        "M.b (field 2): in one oneof with field 1 only here"
    );
    assert_eq!(
        mismatch(
            "oneof o { int32 a = 1; int32 d = 4; } oneof p { int32 b = 2; int32 c = 3; }",
            "oneof o { int32 a = 1; int32 c = 3; } oneof p { int32 b = 2; int32 d = 4; }",
        ),
        "M.c (field 3): in one oneof with field 2 only here"
    );
    assert_eq!(
        mismatch("int32 a = 1;", "repeated int32 a = 1;"),
        mismatch("oneof o { int32 a = 1; }", "repeated int32 a = 1;"),
    );
}

#[test]
fn the_first_mismatch_is_the_first_by_number_depth_first() {
    let deep = |inner: &str, after: &str| {
        format!("message A {{ message B {{ {inner} }} B b = 7; }} {after} A a = 3;")
    };
    let first = deep("int32 x = 2; int32 y = 1;", "string z = 4;");
    let second = deep("string x = 2; bool y = 1;", "int32 z = 4;");
    assert_eq!(mismatch(&first, &second), "M.a.b.x (field 3.7.2): int32 here, string there");
    let second = deep("string x = 2;", "int32 z = 4; string w = 2;");
    let first = deep("int32 x = 2;", "string z = 4; bool w = 2;");
    assert_eq!(mismatch(&first, &second), "M.w (field 2): bool here, string there");
    // Types before a oneof that differs, nested ones too, and types after it.
    let plain = "Named n = 1; int32 a = 2; int32 b = 3; int32 c = 4;";
    let oneof = "Other n = 1; oneof o { int32 a = 2; int32 b = 3; } string c = 4;";
    let nested = "message Named { int32 name = 1; }";
    assert_eq!(
        mismatch(plain, &format!("{nested} {}", oneof.replace("Other", "Named"))),
        "M.n.name (field 1.1): string here, int32 there"
    );
    let without = oneof.replace("Other n = 1;", "");
    assert_eq!(mismatch(plain, &without), "M.b (field 3): in one oneof with field 2 only there");
}

#[test]
fn recursion_ends() {
    let list =
        |extra: &str| format!("M next = 1; repeated M all = 2; map<int32, M> by = 3; {extra}");
    assert_eq!(compare(&list(""), &list("int32 a = 4;")), Compatibility::Compatible);
    assert_eq!(
        mismatch(&list("int32 a = 4;"), &list("string a = 4;")),
        "M.a (field 4): int32 here, string there"
    );
}

#[test]
fn a_long_chain_is_no_trouble() {
    let chain = |last: &str| {
        let links = (0..5000).map(|at| format!("message C{at} {{ C{} c = 1; }}", at + 1));
        schema(&(links.collect::<String>() + &format!("message C5000 {{ {last} a = 1; }}")))
    };
    let (first, second) = (chain("int32"), chain("string"));
    let found = first.compare_messages(id(&first, "C0"), &second, id(&second, "C0"));
    let Compatibility::Incompatible(mismatch) = found else { panic!("{found:?}") };
    assert_eq!(mismatch.numbers.len(), 5001);
}

#[test]
fn a_comparison_that_would_take_too_long_is_given_up() {
    // Rings whose lengths have no common divisor: every message of one meets every one of the
    // other, 380 * 381 pairs.
    let ring = |length: usize, last: &str| {
        let links = (0..length).map(|at| {
            let (to, last) = ((at + 1) % length, if at == 0 { last } else { "" });
            format!("message R{at} {{ R{to} c = 1; {last} }}")
        });
        schema(&links.collect::<String>())
    };
    let (first, second) = (ring(380, "int32 a = 2;"), ring(381, "bool a = 2;"));
    let found = first.compare_messages(id(&first, "R0"), &second, id(&second, "R0"));
    let Compatibility::Incompatible(mismatch) = found else { panic!("{found:?}") };
    let words = mismatch.to_string();
    assert!(words.ends_with(": too many pairs of messages to compare"), "{words}");
}

#[test]
fn a_method_is_compared_by_itself_and_within_a_bound() {
    let ring = |length: usize, more: &str| {
        let links = (0..length).map(|at| {
            let (to, last) = ((at + 1) % length, if at == 0 { "int32 a = 2;" } else { "" });
            format!("message R{at} {{ R{to} c = 1; {last} }}")
        });
        let methods = format!("rpc A(R0) returns (R1); {more}");
        schema(&format!("service S {{ {methods} }} {}", links.collect::<String>()))
    };
    let compared = |one: &Schema, other: &Schema, pairs_max| {
        let [service, there] = [one, other].map(|schema| schema.service_by_name("S").unwrap().0);
        one.compare_methods((service, 0), other, (there, 0), pairs_max)
    };
    let (one, other) = (ring(30, ""), ring(31, "rpc B(R0) returns (stream R0);"));
    assert_eq!(compared(&one, &ring(30, "rpc C(R1) returns (R2);"), 1), Compatibility::Equal);
    assert_eq!(compared(&one, &other, 1 << 20), Compatibility::Compatible);
    let Compatibility::Incompatible(mismatch) = compared(&one, &other, 100) else {
        panic!("they have more than 900 pairs");
    };
    assert_eq!(mismatch.difference, Difference::TooManyPairs);
}

fn compare_services(first: &str, second: &str) -> Compatibility {
    let [first, second] = [first, second]
        .map(|methods| schema(&format!("package p; service S {{ {methods} }} {AROUND}")));
    let id = |schema: &Schema| schema.service_by_name("p.S").unwrap().0;
    first.compare_services(id(&first), &second, id(&second))
}

#[test]
fn services_are_compared_by_the_methods_that_both_have() {
    let base = "rpc F(Point) returns (Named);";
    assert_eq!(compare_services(base, base), Compatibility::Equal);
    let more = format!("{base} rpc G(Empty) returns (Empty);");
    for other in ["", &more] {
        assert_eq!(compare_services(base, other), Compatibility::Compatible, "{other}");
    }
    assert_eq!(
        compare_services(base, "rpc F(Empty) returns (Empty);"),
        Compatibility::Compatible,
        "no fields in common"
    );
    let words = |other| match compare_services(base, other) {
        Compatibility::Incompatible(mismatch) => mismatch.to_string(),
        found => panic!("{found:?}"),
    };
    assert_eq!(
        words("rpc F(stream Point) returns (stream Named);"),
        "p.S.F: a stream of requests on one side only"
    );
    assert_eq!(
        words("rpc F(Point) returns (stream Named);"),
        "p.S.F: a stream of responses on one side only"
    );
    assert_eq!(
        words("rpc F(Other) returns (Point);"),
        "p.S.F: p.Point.x (field 1): int32 here, string there"
    );
    assert_eq!(
        words("rpc F(Point) returns (Point);"),
        "p.S.F: p.Named.name (field 1): string here, int32 there"
    );
}

proptest! {
    #![proptest_config(petasos_cases::kept())]

    #[test]
    fn random_schemas_agree_with_themselves_and_symmetrically(
        set in descriptor_set(),
        other in descriptor_set(),
    ) {
        let (first, second) = (load(&set).unwrap(), load(&other).unwrap());
        for (id, message) in first.messages() {
            prop_assert_eq!(first.compare_messages(id, &first, id), Compatibility::Equal);
            let Some((there, _)) = second.message_by_name(message.full_name()) else { continue };
            let forth = first.compare_messages(id, &second, there);
            let back = second.compare_messages(there, &first, id);
            match (forth, back) {
                (Compatibility::Incompatible(forth), Compatibility::Incompatible(back)) => {
                    prop_assert_eq!(forth.numbers, back.numbers);
                }
                (forth, back) => prop_assert_eq!(forth, back),
            }
        }
    }

    #[test]
    fn a_field_that_is_taken_away_is_compatible(
        set in descriptor_set(),
        at in any::<prop::sample::Index>(),
    ) {
        let schema = load(&set).unwrap();
        let mut less = set;
        let message = at.get_mut(&mut less.file[0].message_type);
        let Some(field) = message.field.pop() else { return Ok(()) };
        prop_assume!(field.oneof_index.is_none());
        message.nested_type.retain(|nested| {
            let is_entry = nested.options.as_ref().is_some_and(|options| options.map_entry());
            !is_entry || !field.type_name().ends_with(nested.name())
        });
        let name = format!("random.test.{}", message.name());
        let less = load(&less).unwrap();
        let found = schema.compare_messages(id(&schema, &name), &less, id(&less, &name));
        prop_assert_eq!(found, Compatibility::Compatible);
    }
}
