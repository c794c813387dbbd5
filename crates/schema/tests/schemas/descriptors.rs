//! Descriptors from anywhere: every rule, every limit, and any bytes.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use petasos_schema::{Cardinality, Kind, Limits, LoadError, Options, Schema};
use proptest::collection::vec;
use proptest::prelude::*;
use prost_reflect::DescriptorPool;
use prost_reflect::prost::Message as _;
use prost_reflect::prost_types::field_descriptor_proto::{Label, Type};
use prost_reflect::prost_types::{DescriptorProto, FieldDescriptorProto, FileDescriptorSet};

use crate::common::random::descriptor_set;
use crate::common::{descriptors, load};

/// The set of some declarations, changed by hand: compilers would not let its faults pass.
fn changed(declarations: &str, change: impl FnOnce(&mut FileDescriptorSet)) -> String {
    let mut set = FileDescriptorSet::decode(&*descriptors(declarations)).unwrap();
    change(&mut set);
    load(&set).unwrap_err().to_string()
}

/// The same, for the first message.
fn message(declarations: &str, change: impl FnOnce(&mut DescriptorProto)) -> String {
    changed(declarations, |set| change(&mut set.file[0].message_type[0]))
}

/// The same, for the first field of the first message.
fn field(declarations: &str, change: impl FnOnce(&mut FieldDescriptorProto)) -> String {
    message(declarations, |message| change(&mut message.field[0]))
}

/// `test.proto` at the column of what `declarations` has in place of `@`, after the syntax.
fn at(before: &str, message: &str) -> String {
    format!("test.proto:1:{}: {message}", "syntax = \"proto3\"; ".len() + before.len() + 1)
}

const M: &str = "message M { int32 a = 1; int32 b = 2; }";

#[test]
fn names_must_be_identifiers() {
    let expected = |name| {
        format!("`{name}` is not an identifier: use letters, digits and `_`, no digit first")
    };
    assert_eq!(message(M, |m| m.name = Some("1M".into())), at("", &expected("1M")));
    assert_eq!(message(M, |m| m.name = None), at("", &expected("")));
    assert_eq!(field(M, |f| f.name = Some("a.b".into())), at("message M { ", &expected("a.b")));
    let package = changed(M, |set| set.file[0].package = Some("a..b".into()));
    assert_eq!(package, format!("test.proto: {}", expected("")));
    let oneof = "message M { oneof o { int32 a = 1; } }";
    let found = message(oneof, |m| m.oneof_decl[0].name = Some("ö".into()));
    assert_eq!(found, at("message M { ", &expected("ö")));
    let value = changed("enum E { Z = 0; }", |set| {
        set.file[0].enum_type[0].value[0].name = Some("-".into());
    });
    assert_eq!(value, at("enum E { ", &expected("-")));
    let method = changed("message M {} service S { rpc F(M) returns (M); }", |set| {
        set.file[0].service[0].method[0].name = Some("F!".into());
    });
    assert_eq!(method, at("message M {} service S { ", &expected("F!")));
}

#[test]
fn names_are_short() {
    let long = "n".repeat(256);
    let start = "n".repeat(32);
    let expected = format!("the full name `{start}...` is longer than 255 bytes: shorten it");
    assert_eq!(message(M, |m| m.name = Some(long.clone())), at("", &expected));
    let package = changed(M, |set| set.file[0].package = Some("n".repeat(254)));
    assert_eq!(package, at("", &expected));
    assert_eq!(field(M, |f| f.name = Some(long)), at("message M { ", &expected));
}

#[test]
fn names_are_unique() {
    let two = "message M { int32 a = 1; int32 b = 2; oneof o { int32 c = 3; } } message N {}";
    let found = changed(two, |set| set.file[0].message_type[1].name = Some("M".into()));
    let column = "message M { int32 a = 1; int32 b = 2; oneof o { int32 c = 3; } } ";
    assert_eq!(found, at(column, "`M` is declared twice: rename one"));
    let twice = |name| format!("`{name}` is used twice in this declaration: rename one");
    let found = message(two, |m| m.field[1].name = Some("a".into()));
    assert_eq!(found, at("message M { int32 a = 1; ", &twice("a")));
    let found = message(two, |m| m.oneof_decl[0].name = Some("b".into()));
    assert_eq!(found, at("message M { int32 a = 1; int32 b = 2; ", &twice("b")));
    let found = message(two, |m| m.field[1].json_name = Some("a".into()));
    let expected = "two fields are called `a` in JSON: rename one or give it another json_name";
    assert_eq!(found, at("message M { int32 a = 1; ", expected));
    let found = changed("enum E { Z = 0; O = 1; }", |set| {
        set.file[0].enum_type[0].value[1].name = Some("Z".into());
    });
    assert_eq!(found, at("enum E { Z = 0; ", &twice("Z")));
    let methods = "message M {} service S { rpc F(M) returns (M); rpc G(M) returns (M); }";
    let found = changed(methods, |set| {
        set.file[0].service[0].method[1].name = Some("F".into());
    });
    assert_eq!(found, at("message M {} service S { rpc F(M) returns (M); ", &twice("F")));
}

#[test]
fn numbers_are_unique_and_in_range() {
    let found = message(M, |m| m.field[1].number = Some(1));
    let expected = "`a` and `b` have the number 1: give one another";
    assert_eq!(found, at("message M { int32 a = 1; ", expected));
    for number in [0, -1, 1 << 29, 19000, 19999] {
        let expected =
            format!("field `a` has the number {number}: use 1 to 536870911 without 19000 to 19999");
        assert_eq!(field(M, |f| f.number = Some(number)), at("message M { ", &expected));
    }
}

#[test]
fn oneofs_are_whole() {
    let one = "message M { oneof o { int32 a = 1; } }";
    let in_oneof = "message M { oneof o { ";
    let found = message(one, |m| m.field[0].oneof_index = None);
    assert_eq!(found, at("message M { ", "oneof `o` has no fields: remove it or add one"));
    for index in [1, -1] {
        let found = field(one, |f| f.oneof_index = Some(index));
        assert_eq!(found, at(in_oneof, "field `a` is in a oneof that does not exist"));
    }
    let found = field(one, |f| f.label = Some(Label::Repeated.into()));
    let expected = "field `a` is both in a oneof and repeated or optional: choose one";
    assert_eq!(found, at(in_oneof, expected));
    // One field makes the oneof synthetic, so that the other's is none.
    let two = "message M { oneof o { int32 a = 1; int32 b = 2; } }";
    let found = field(two, |f| f.proto3_optional = Some(true));
    let before = "message M { oneof o { int32 a = 1; ";
    assert_eq!(found, at(before, "field `b` is in a oneof that does not exist"));
}

#[test]
fn only_numbers_are_packed() {
    let expected = "field `a` is packed, but only repeated numbers, bools and enums can be";
    let strings = "message M { repeated int32 a = 1 [packed = true]; }";
    let found = field(strings, |f| f.r#type = Some(Type::String.into()));
    assert_eq!(found, at("message M { ", expected));
    let found = field(strings, |f| f.label = Some(Label::Optional.into()));
    assert_eq!(found, at("message M { ", expected));
}

#[test]
fn map_entries_are_the_maps_own() {
    let map = "message M { map<int32, int32> a = 1; }";
    let malformed = at(
        "message M { ",
        "field `a` uses a map entry that is malformed or not its own: write `map<K, V>`",
    );
    let entry = |change: fn(&mut DescriptorProto)| message(map, |m| change(&mut m.nested_type[0]));
    assert_eq!(entry(|e| drop(e.field.pop())), malformed);
    assert_eq!(entry(|e| e.field[0].number = Some(3)), malformed);
    assert_eq!(entry(|e| e.field[1].label = Some(Label::Repeated.into())), malformed);
    assert_eq!(entry(|e| e.field[1].oneof_index = Some(0)), malformed);
    assert_eq!(field(map, |f| f.label = Some(Label::Optional.into())), malformed);
    let own = |e: &mut DescriptorProto| {
        e.field[1].r#type = Some(Type::Message.into());
        e.field[1].type_name = Some(".M.AEntry".into());
    };
    assert_eq!(message(map, |m| own(&mut m.nested_type[0])), malformed);
    let two = "message M { map<int32, int32> a = 1; } message N { map<int32, int32> a = 1; }";
    let found = field(two, |f| f.type_name = Some(".N.AEntry".into()));
    assert_eq!(found, malformed);
    let expected = "map `a` has keys that are not integers, bools or strings";
    let found = entry(|e| e.field[0].r#type = Some(Type::Double.into()));
    assert_eq!(found, at("message M { ", expected));
}

#[test]
fn proto3_has_no_defaults_required_fields_or_groups() {
    let found = field(M, |f| f.default_value = Some("1".into()));
    let expected = "field `a` has a default value, which proto3 does not know: remove it";
    assert_eq!(found, at("message M { ", expected));
    let found = field(M, |f| f.label = Some(Label::Required.into()));
    let expected = "field `a` is required, which proto3 does not know: remove that word";
    assert_eq!(found, at("message M { ", expected));
    let services = "message M { int32 a = 1; } service S { rpc F(M) returns (M); }";
    let found = field(services, |f| f.r#type = Some(Type::Group.into()));
    assert_eq!(found, at("message M { ", "field `a` is a group: use a message field"));
}

#[test]
fn types_are_declared_and_of_the_right_sort() {
    let nested = "message M { N n = 1; E e = 2; } message N {} enum E { Z = 0; }";
    let found = field(nested, |f| f.type_name = Some(".Nowhere".into()));
    let unresolved =
        |name| format!("`{name}` is not declared in these files: import its file, name it in full");
    assert_eq!(found, at("message M { ", &unresolved(".Nowhere")));
    let found = field(nested, |f| f.type_name = Some("N".into()));
    assert_eq!(found, at("message M { ", &unresolved("N")), "relative names are for compilers");
    let wrong = |name| format!("`{name}` is of the wrong kind here");
    let found = field(nested, |f| f.type_name = Some(".E".into()));
    assert_eq!(found, at("message M { ", &wrong(".E")));
    let unknown = at("message M { ", "field `n` has no type that protobuf knows");
    assert_eq!(field(nested, |f| f.type_name = None), unknown);
    assert_eq!(field(nested, |f| f.r#type = Some(19)), unknown);
    let service = "message M {} enum E { Z = 0; } service S { rpc F(M) returns (M); }";
    let method = |name: &str| {
        changed(service, |set| {
            set.file[0].service[0].method[0].output_type = Some(name.into());
        })
    };
    let before = "message M {} enum E { Z = 0; } service S { rpc F(M) returns (";
    assert_eq!(method(".X"), at(before, &unresolved(".X")));
    let before = "message M {} enum E { Z = 0; } service S { ";
    assert_eq!(method(".E"), at(before, &wrong(".E")));
    assert_eq!(method(".S"), at(before, &wrong(".S")));
}

#[test]
fn a_type_that_is_not_stated_is_found_by_name() {
    let text = "message M { N n = 1; } message N {}";
    let mut set = FileDescriptorSet::decode(&*descriptors(text)).unwrap();
    set.file[0].message_type[0].field[0].r#type = None;
    assert_eq!(load(&set).unwrap(), crate::common::schema(text));
}

#[test]
fn a_scalar_refers_to_nothing_whatever_it_names() {
    let text = "message M { map<int32, int32> a = 1; int32 b = 2; }";
    let mut set = FileDescriptorSet::decode(&*descriptors(text)).unwrap();
    set.file[0].message_type[0].field[1].type_name = Some(".M.AEntry".into());
    assert_eq!(load(&set).unwrap(), crate::common::schema(text));
}

#[test]
fn enums_begin_with_zero_and_syntaxes_are_known() {
    let found = changed("enum E { Z = 0; O = 1; }", |set| {
        set.file[0].enum_type[0].value.reverse();
    });
    let expected = "enum `E` does not begin with zero: proto3 wants a first value of 0";
    assert_eq!(found, at("", expected));
    let found = changed(M, |set| set.file[0].syntax = Some("proto4".into()));
    let expected = "test.proto:1:1: the syntax `proto4` is not known: write `syntax = \"proto3\"`";
    assert_eq!(found, expected);
}

#[test]
fn without_source_information_the_file_is_named() {
    let found = changed(M, |set| {
        set.file[0].source_code_info = None;
        set.file[0].message_type[0].field[0].number = Some(0);
    });
    assert!(found.starts_with("test.proto: field `a` has the number 0"), "{found}");
}

fn with_limits(text: &str, limits: Limits) -> Result<Schema, LoadError> {
    Schema::from_descriptors(&descriptors(text), &Options { limits, ..Options::default() })
}

#[test]
fn limits_hold() {
    let text = "message A { message B { message C { A a = 1; B b = 2; } C c = 1; } B b = 1; }";
    let generous = Limits::default();
    assert!(with_limits(text, generous).is_ok());
    let words = |limits| with_limits(text, limits).unwrap_err().to_string();
    let advice = "raise the limit if this is meant";
    assert_eq!(
        words(Limits { bytes_max: 100, ..generous }),
        format!("the descriptors have more than 100 bytes: {advice}")
    );
    assert_eq!(
        words(Limits { elements_max: 10, ..generous }),
        format!("the descriptors have more than 10 elements: {advice}")
    );
    assert_eq!(
        words(Limits { depth_max: 2, ..generous }),
        format!("the descriptors have more than 2 levels of nested messages: {advice}")
    );
    // Three messages, four references among them.
    assert!(with_limits(text, Limits { cycle_steps_max: 12, ..generous }).is_ok());
    assert_eq!(
        words(Limits { cycle_steps_max: 11, ..generous }),
        format!("the descriptors have more than 11 steps for one cycle: {advice}")
    );
}

#[test]
fn long_chains_and_rings_are_no_trouble() {
    let chain = |last: &str| {
        let links = (0..3000).map(|at| format!("message M{at} {{ M{} m = 1; }}", at + 1));
        links.collect::<String>() + last
    };
    let schema = crate::common::schema(&chain("message M3000 {}"));
    assert!(schema.messages().all(|(_, message)| message.cycle().is_none()));
    let ring = descriptors(&chain("message M3000 { M0 m = 1; }"));
    let error = Schema::from_descriptors(&ring, &Options::default()).unwrap_err();
    assert!(matches!(error, LoadError::TooLarge { what: "steps for one cycle", .. }), "{error}");
}

#[test]
fn bytes_that_are_no_descriptors_are_explained() {
    for (bytes, what) in [
        (&b"\x0a\x05\x0a"[..], "a field past the end at byte 2"),
        (b"\x0a", "a number without an end at byte 1"),
        (b"\x0f", "a field of no known form at byte 1"),
        (b"\x0a\x03\x0a\x01\xff", "text that is not UTF-8 at byte 4"),
        (b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "a number without an end at byte 1"),
    ] {
        let error = Schema::from_descriptors(bytes, &Options::default()).unwrap_err();
        assert_eq!(error.to_string(), format!("not an encoded FileDescriptorSet: {what}"));
    }
}

#[test]
fn unknown_fields_of_every_form_are_skipped() {
    let mut bytes =
        b"\x78\x01\x7d\x01\x02\x03\x04\x79\x01\x02\x03\x04\x05\x06\x07\x08\x7a\x00".to_vec();
    // A group with a group, a number, a text and fixed numbers in it.
    bytes.extend(b"\x7b\x7b\x08\x01\x12\x01x\x7d\x01\x02\x03\x04\x7c");
    bytes.extend(b"\x09\x01\x02\x03\x04\x05\x06\x07\x08\x7c");
    bytes.extend(descriptors(M));
    assert_eq!(Schema::from_descriptors(&bytes, &Options::default()), Ok(crate::common::schema(M)));
    let open = Schema::from_descriptors(b"\x7b\x7b\x7c", &Options::default());
    assert!(matches!(open, Err(LoadError::Malformed { offset: 3, .. })), "{open:?}");
}

/// A kind as `prost-reflect` has it.
fn is_same_kind(schema: &Schema, kind: Kind, oracle: prost_reflect::Kind) -> bool {
    match (kind, oracle) {
        (Kind::Message(id), prost_reflect::Kind::Message(other)) => {
            schema.message(id).full_name() == other.full_name()
        }
        (Kind::Enum(id), prost_reflect::Kind::Enum(other)) => {
            schema.enumeration(id).full_name() == other.full_name()
        }
        (kind, other) => format!("{kind:?}").to_lowercase() == format!("{other:?}").to_lowercase(),
    }
}

fn is_same_field(
    schema: &Schema,
    ours: &petasos_schema::Field,
    oracle: &prost_reflect::FieldDescriptor,
) {
    assert_eq!((ours.name(), ours.json_name()), (oracle.name(), oracle.json_name()));
    assert_eq!(ours.number(), oracle.number());
    let expected = match oracle.kind() {
        prost_reflect::Kind::Message(entry) if oracle.is_map() => {
            let Cardinality::Map { key } = ours.cardinality() else { panic!("{ours:?}") };
            assert!(is_same_kind(schema, key, entry.map_entry_key_field().kind()));
            entry.map_entry_value_field().kind()
        }
        kind => {
            match ours.cardinality() {
                Cardinality::Repeated { packed } => assert_eq!(packed, oracle.is_packed()),
                Cardinality::Map { .. } => panic!("{ours:?}"),
                cardinality => {
                    assert_eq!(cardinality != Cardinality::Implicit, oracle.supports_presence());
                    let oneof = oracle.containing_oneof().filter(|o| !o.is_synthetic());
                    assert_eq!(ours.oneof().is_some(), oneof.is_some());
                }
            }
            kind
        }
    };
    assert_eq!(oracle.is_list(), matches!(ours.cardinality(), Cardinality::Repeated { .. }));
    assert!(is_same_kind(schema, ours.kind(), expected));
}

fn is_same_schema(schema: &Schema, pool: &DescriptorPool) {
    let messages: Vec<_> = pool.all_messages().filter(|message| !message.is_map_entry()).collect();
    assert_eq!(schema.messages().len(), messages.len());
    for oracle in messages {
        let (_, ours) = schema.message_by_name(oracle.full_name()).unwrap();
        assert_eq!(ours.fields().len(), oracle.fields().len());
        for (ours, oracle) in ours.fields().iter().zip(oracle.fields()) {
            is_same_field(schema, ours, &oracle);
        }
        let synthetic = oracle.oneofs().filter(|oneof| oneof.is_synthetic()).count();
        assert_eq!(ours.oneofs().len(), oracle.oneofs().len() - synthetic);
        for (index, oneof) in oracle.oneofs().filter(|o| !o.is_synthetic()).enumerate() {
            let field = ours.field(oneof.fields().next().unwrap().number()).unwrap();
            let ours_of = ours.oneof(field.oneof().unwrap());
            assert_eq!(ours_of.name(), oneof.name(), "oneof {index}");
        }
    }
    for oracle in pool.services() {
        let (_, ours) = schema.service_by_name(oracle.full_name()).unwrap();
        for oracle in oracle.methods() {
            let ours = ours.method_by_name(oracle.name()).unwrap();
            assert_eq!(schema.message(ours.input()).full_name(), oracle.input().full_name());
            assert_eq!(schema.message(ours.output()).full_name(), oracle.output().full_name());
            assert_eq!(ours.client_streaming(), oracle.is_client_streaming());
            assert_eq!(ours.server_streaming(), oracle.is_server_streaming());
        }
    }
}

#[test]
fn a_fixture_is_read_as_by_prost_reflect() {
    let mut compiler = protox::Compiler::new([crate::common::PROTOS]).unwrap();
    compiler.include_imports(true).open_file("everything.proto").unwrap();
    let set = compiler.encode_file_descriptor_set();
    let schema = Schema::from_descriptors(&set, &Options::default()).unwrap();
    is_same_schema(&schema, &DescriptorPool::decode(&*set).unwrap());
}

proptest! {
    #![proptest_config(petasos_cases::kept())]

    #[test]
    fn random_schemas_are_read_as_by_prost_reflect(set in descriptor_set()) {
        let schema = load(&set).unwrap();
        is_same_schema(&schema, &DescriptorPool::from_file_descriptor_set(set).unwrap());
    }

    #[test]
    fn any_bytes_give_a_schema_or_an_error(bytes in vec(any::<u8>(), 0..200)) {
        let _ = Schema::from_descriptors(&bytes, &Options::default());
    }

    #[test]
    fn damaged_descriptors_give_a_schema_or_an_error(
        set in descriptor_set(),
        damage in vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
    ) {
        let mut bytes = set.encode_to_vec();
        for (at, byte) in damage {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Ok(schema) = Schema::from_descriptors(&bytes, &Options::default()) {
            let limits = Limits::default();
            let decoded = Schema::decode(&schema.encode(), &limits);
            prop_assert_eq!(decoded, Ok(schema.without_sources()));
        }
    }
}
