//! What a schema made from .proto files looks like.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use petasos_schema::{Cardinality, Idempotency, Kind, Options, Schema};

use crate::common::{PROTOS, fixture, id, schema};

fn everything() -> Schema {
    fixture("everything.proto")
}

const NAME: &str = "test.everything.Everything";

#[test]
fn scalar_kinds_are_told_apart_and_have_implicit_presence() {
    let schema = everything();
    let (_, message) = schema.message_by_name(NAME).unwrap();
    let kinds = [
        Kind::Double,
        Kind::Float,
        Kind::Int32,
        Kind::Int64,
        Kind::Uint32,
        Kind::Uint64,
        Kind::Sint32,
        Kind::Sint64,
        Kind::Fixed32,
        Kind::Fixed64,
        Kind::Sfixed32,
        Kind::Sfixed64,
        Kind::Bool,
        Kind::String,
        Kind::Bytes,
    ];
    for (number, kind) in (1..).zip(kinds) {
        let field = message.field(number).unwrap();
        assert_eq!((field.kind(), field.cardinality()), (kind, Cardinality::Implicit));
    }
}

#[test]
fn fields_are_sorted_by_number_and_found() {
    let schema = everything();
    let (_, message) = schema.message_by_name(NAME).unwrap();
    assert!(message.fields().is_sorted_by_key(|field| field.number()));
    assert_eq!(message.fields().len(), 30);
    assert_eq!(message.field_by_name("an_int32").unwrap().number(), 3);
    assert_eq!(message.field_by_name("an_int32").unwrap().json_name(), "anInt32");
    assert_eq!(message.field(28).unwrap().json_name(), "other");
    assert!(message.field(19).is_none());
    assert!(message.field_by_name("nothing").is_none());
}

#[test]
fn cardinalities_keep_what_matters() {
    let schema = everything();
    let (_, message) = schema.message_by_name(NAME).unwrap();
    let (inner, colour) =
        (id(&schema, "test.everything.Everything.Inner"), Kind::Enum(colour(&schema)));
    let of = |number| {
        let field = message.field(number).unwrap();
        (field.cardinality(), field.kind())
    };
    let inner = Kind::Message(inner);
    assert_eq!(of(16), (Cardinality::Implicit, colour));
    assert_eq!(of(17), (Cardinality::Optional, inner));
    assert_eq!(of(20), (Cardinality::Optional, Kind::Int32));
    assert_eq!(of(21), (Cardinality::Optional, inner));
    assert_eq!(of(22), (Cardinality::Repeated { packed: true }, Kind::Int32));
    assert_eq!(of(23), (Cardinality::Repeated { packed: false }, Kind::Int32));
    assert_eq!(of(24), (Cardinality::Repeated { packed: false }, Kind::String));
    assert_eq!(of(25), (Cardinality::Repeated { packed: false }, inner));
    assert_eq!(of(26), (Cardinality::Map { key: Kind::String }, inner));
    assert_eq!(of(27), (Cardinality::Map { key: Kind::Sfixed64 }, colour));
}

fn colour(schema: &Schema) -> petasos_schema::EnumId {
    schema.enum_by_name("test.everything.Colour").unwrap().0
}

#[test]
fn oneofs_are_sorted_by_their_first_field() {
    let schema = everything();
    let (_, message) = schema.message_by_name(NAME).unwrap();
    let names: Vec<_> = message.oneofs().iter().map(|oneof| oneof.name()).collect();
    assert_eq!(names, ["first", "second"], "optional fields make none");
    let second = message.field(31).unwrap().oneof().unwrap();
    assert_eq!(message.oneof(second).comment(), " One of two.\n");
    let numbers: Vec<_> = message.oneof_fields(second).map(|field| field.number()).collect();
    assert_eq!(numbers, [31, 32]);
    assert_eq!(message.field(1).unwrap().oneof(), None);
}

#[test]
fn names_have_packages_and_files() {
    let schema = everything();
    let (_, inner) = schema.message_by_name("test.everything.Everything.Inner").unwrap();
    assert_eq!(inner.package(), "test.everything");
    assert_eq!(inner.local_name(), "Everything.Inner");
    assert_eq!(inner.full_name(), "test.everything.Everything.Inner");
    assert_eq!(inner.file(), Some("everything.proto"));
    let (_, timestamp) = schema.message_by_name("google.protobuf.Timestamp").unwrap();
    assert_eq!(timestamp.file(), Some("google/protobuf/timestamp.proto"));
    let names: Vec<_> = schema.messages().map(|(_, message)| message.full_name()).collect();
    assert!(names.is_sorted());
    assert_eq!(names.len(), 5, "no map entries, and of the imports what is used: {names:?}");
    let unpackaged = self::schema("message M { message N {} }");
    let (_, nested) = unpackaged.message_by_name("M.N").unwrap();
    assert_eq!((nested.package(), nested.local_name()), ("", "M.N"));
}

#[test]
fn comments_are_carried() {
    let schema = everything();
    let (_, message) = schema.message_by_name(NAME).unwrap();
    assert_eq!(message.comment(), " Holds one of each.\n");
    assert_eq!(message.field(1).unwrap().comment(), " The first\n field.\n");
    assert_eq!(message.field(2).unwrap().comment(), "");
    let (_, inner) = schema.message_by_name("test.everything.Everything.Inner").unwrap();
    assert_eq!(inner.comment(), " Nested.\n");
    let colour = schema.enumeration(colour(&schema));
    assert_eq!(colour.value(0).unwrap().comment(), " No colour.\n");
    let (_, store) = schema.service_by_name("test.everything.Store").unwrap();
    assert_eq!(store.comment(), " Serves.\n");
    assert_eq!(store.method_by_name("Put").unwrap().comment(), " Puts.\n");
}

#[test]
fn comments_are_found_past_the_127th_element() {
    let fields = |range: std::ops::Range<u32>| {
        range.map(|n| format!("int32 f{n} = {n};\n")).collect::<String>()
    };
    let text = format!("message M {{\n{}// Late.\n{}}}", fields(1..300), fields(300..302));
    let schema = schema(&text);
    let (_, message) = schema.message_by_name("M").unwrap();
    assert_eq!(message.field(300).unwrap().comment(), " Late.\n");
    assert_eq!(message.field(301).unwrap().comment(), "");
}

#[test]
fn enums_are_sorted_and_aliases_keep_their_order() {
    let schema = everything();
    let colour = schema.enumeration(colour(&schema));
    let values: Vec<_> = colour.values().iter().map(|v| (v.number(), v.name())).collect();
    assert_eq!(values, [(-1, "BLUE"), (0, "NONE"), (2, "RED"), (2, "CRIMSON")]);
    assert_eq!(colour.value(2).unwrap().name(), "RED");
    assert!(colour.value(1).is_none());
    assert_eq!(colour.value_by_name("CRIMSON").unwrap().number(), 2);
    assert!(schema.enum_by_name("test.everything.Everything.Inner.Depth").is_some());
}

#[test]
fn methods_have_directions_and_levels() {
    let schema = everything();
    let (service_id, store) = schema.service_by_name("test.everything.Store").unwrap();
    assert_eq!(schema.service(service_id), store);
    let facts = store.methods().iter().map(|method| {
        let streams = (method.client_streaming(), method.server_streaming());
        (method.name(), streams, method.idempotency())
    });
    let expected = [
        ("Chat", (true, true), Idempotency::Unknown),
        ("Collect", (true, false), Idempotency::Unknown),
        ("Get", (false, false), Idempotency::NoSideEffects),
        ("Put", (false, false), Idempotency::Idempotent),
        ("Watch", (false, true), Idempotency::Unknown),
    ];
    assert_eq!(facts.collect::<Vec<_>>(), expected);
    let put = store.method_by_name("Put").unwrap();
    assert_eq!(put.input(), id(&schema, NAME));
    assert_eq!(put.output(), id(&schema, "test.everything.Tree"));
}

#[test]
fn cycles_are_known() {
    let schema = everything();
    let tree = schema.message(id(&schema, "test.everything.Tree"));
    let leaf = schema.message(id(&schema, "test.everything.Leaf"));
    assert!(tree.cycle().is_some());
    assert_eq!(tree.cycle(), leaf.cycle(), "through a map");
    let all = id(&schema, NAME);
    assert_ne!(schema.message(all).cycle(), tree.cycle());
    let recursive = schema.message(all).fields().iter().filter(|f| schema.is_recursive(all, f));
    assert_eq!(recursive.map(|field| field.name()).collect::<Vec<_>>(), ["again"]);
    let inner = id(&schema, "test.everything.Everything.Inner");
    assert_eq!(schema.message(inner).cycle(), None, "leads to a cycle, but is in none");
    assert!(!schema.is_recursive(inner, schema.message(inner).field(1).unwrap()));
}

#[test]
fn the_order_of_declaration_cannot_be_told() {
    let one = schema(
        "message A { oneof x { int32 b = 2; } int32 a = 1; oneof y { int32 c = 3; } } enum E { \
         ZERO = 0; ONE = 1; TWO = 2; } message B {} \
         service S { rpc F(A) returns (B); rpc G(B) returns (A); }",
    );
    let other = schema(
        "service S { rpc G(B) returns (A); rpc F(A) returns (B); } message B {} enum E { ZERO = 0; \
         TWO = 2; ONE = 1; } message A { oneof y { int32 c = 3; } oneof x { int32 b = 2; } \
         int32 a = 1; }",
    );
    assert_eq!(one, other);
}

#[test]
fn sources_can_be_kept_and_dropped() {
    let set = crate::common::descriptors("// About M.\nmessage M { // On a.\n int32 a = 1; }");
    let options = Options { keep_descriptors: true, ..Options::default() };
    let schema = Schema::from_descriptors(&set, &options).unwrap();
    assert_eq!(schema.descriptors(), Some(&*set));
    assert_eq!(self::schema("message M {}").descriptors(), None);
    let everything = everything();
    let bare = everything.clone().without_sources();
    assert_eq!(bare.hash(), everything.hash());
    let (_, message) = bare.message_by_name(NAME).unwrap();
    assert_eq!((message.file(), message.comment()), (None, ""));
    assert_eq!(Schema::decode(&everything.encode(), &Default::default()).unwrap(), bare);
}

#[test]
fn compiling_names_every_file_that_was_read() {
    let compiled =
        petasos_schema::compile(["annotated.proto"], [PROTOS], &Options::default()).unwrap();
    let mut files: Vec<_> = compiled.paths.iter().filter_map(|path| path.file_name()).collect();
    files.sort();
    assert_eq!(files, ["annotated.proto", "annotations.proto", "http.proto", "options.proto"]);
}

#[test]
fn fifty_messages_are_no_trouble() {
    let mut text = String::new();
    for at in 0..50 {
        let (next, far) = ((at + 1) % 50, (at * 7) % 50);
        text += &format!(
            "message M{at} {{ string name = 1; repeated M{next} next = 2; map<int32, M{far}> far \
             = 3; oneof pick {{ bytes data = {}; int64 number = {}; }} }}",
            at + 4,
            at + 104,
        );
    }
    let schema = schema(&text);
    assert_eq!(schema.messages().len(), 50);
    let cycles: std::collections::HashSet<_> = schema.messages().map(|(_, m)| m.cycle()).collect();
    assert_eq!(cycles.len(), 1, "all in one cycle");
    let hashes: std::collections::HashSet<_> = schema.messages().map(|(_, m)| m.hash()).collect();
    assert_eq!(hashes.len(), 50);
    assert_eq!(Schema::decode(&schema.encode(), &Default::default()), Ok(schema.without_sources()));
}
