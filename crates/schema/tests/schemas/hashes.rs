//! What the hash covers and what it does not.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::collections::HashSet;

use petasos_schema::{Hash, Schema};

use crate::common::{fixture, id, schema};

/// The hash of `M`.
fn hash(declarations: &str) -> Hash {
    let schema = schema(declarations);
    schema.message(id(&schema, "M")).hash()
}

#[test]
fn hashes_are_the_same_on_every_machine() {
    // These may change only together with the numbers in hash.rs that name the rules' version:
    // programs that were built before and after would not recognise each other's schemas.
    assert_eq!(hash("message M {}").to_string(), EMPTY);
    let schema = fixture("everything.proto");
    let of = |name| schema.message(id(&schema, name)).hash().to_string();
    assert_eq!(of("test.everything.Everything"), EVERYTHING);
    assert_eq!(of("test.everything.Tree"), TREE);
    let (_, store) = schema.service_by_name("test.everything.Store").unwrap();
    assert_eq!(store.hash().to_string(), STORE);
    assert_eq!(schema.hash().to_string(), SCHEMA);
    assert_eq!(Schema::default().hash().to_string(), NOTHING);
}

const EMPTY: &str = "71447dea839caa9d14a967f22172743a";
const EVERYTHING: &str = "c97967a7c917ccd8757e77b00b13dfc5";
const TREE: &str = "48dbfb74a9a2a0a8b6e287ba68fed0b9";
const STORE: &str = "58921c6c31629dfbce5c199be41c2cb1";
const SCHEMA: &str = "79cc5d9e7b38216fad1d2992ed0cd1d0";
const NOTHING: &str = "a29d24c4208142cf5935d3ed9a3d950b";

#[test]
fn hashes_travel_as_bytes() {
    let hash = hash("message M {}");
    assert_eq!(Hash::from_bytes(hash.to_bytes()), hash);
    assert_eq!(format!("{hash:?}"), format!("Hash({EMPTY})"));
}

#[test]
fn names_comments_and_order_do_not_matter_to_a_message() {
    let base = hash(
        "message M { N n = 1; oneof o { int32 a = 2; string b = 3; } E e = 4; } \
        message N { bytes data = 1; } enum E { Z = 0; }",
    );
    for same in [
        "enum E { Z = 0; } message N { bytes data = 1; } message M { E e = 4; N n = 1; \
         oneof o { string b = 3; int32 a = 2; } }",
        "message M { X x = 1 [json_name = \"y\"]; oneof p { int32 c = 2; string d = 3; } F f = 4; \
         message X { bytes bulk = 1; } } enum F { Y = 0; W = 7; }",
        "/* Here. */ message M { // There.\n N n = 1; oneof o { int32 a = 2; string b = 3; } \
         E e = 4; reserved 17; } message N { bytes data = 1; } enum E { Z = 0; } message Other {}",
        "message M { optional N n = 1; oneof o { int32 a = 2; string b = 3; } E e = 4; } \
         message N { bytes data = 1; } enum E { Z = 0; }",
    ] {
        assert_eq!(hash(same), base, "{same}");
    }
}

#[test]
fn all_that_decides_a_layout_matters() {
    let kinds = [
        "double", "float", "int32", "int64", "uint32", "uint64", "sint32", "sint64", "fixed32",
        "fixed64", "sfixed32", "sfixed64", "bool", "string", "bytes", "N", "E",
    ];
    let mut bodies: Vec<String> = kinds.iter().map(|kind| format!("{kind} a = 1;")).collect();
    bodies.extend(kinds.iter().map(|kind| format!("repeated {kind} a = 1;")));
    bodies.extend(kinds[2..14].iter().map(|key| format!("map<{key}, int32> a = 1;")));
    bodies.extend(kinds.map(|kind| format!("map<string, {kind}> a = 1;")));
    bodies.retain(|body| body != "map<string, int32> a = 1;");
    for body in [
        "",
        "int32 a = 2;",
        "optional int32 a = 1;",
        "repeated int32 a = 1 [packed = false];",
        "map<string, int32> a = 1;",
        "oneof o { int32 a = 1; }",
        "int32 a = 1; int32 b = 2;",
        "oneof o { int32 a = 1; } int32 b = 2;",
        "int32 a = 1; oneof o { int32 b = 2; }",
        "oneof o { int32 a = 1; int32 b = 2; }",
        "oneof o { int32 a = 1; } oneof p { int32 b = 2; }",
        "oneof o { int32 a = 1; int32 c = 3; } oneof p { int32 b = 2; int32 d = 4; }",
        "oneof o { int32 a = 1; int32 d = 4; } oneof p { int32 b = 2; int32 c = 3; }",
        "Empty a = 1;",
        "M a = 1;",
        "Indirect a = 1;",
        "repeated M a = 1;",
        "map<string, M> a = 1;",
    ] {
        bodies.push(body.to_owned());
    }
    let hashes = bodies.iter().map(|body| {
        hash(&format!(
            "message M {{ {body} }} message N {{ int32 n = 1; }} enum E {{ Z = 0; }} \
             message Empty {{}} message Indirect {{ M m = 1; }}"
        ))
    });
    let distinct: HashSet<Hash> = hashes.collect();
    // `M` in `M` and `M` in `Indirect` in `M` are the same without end: every field is a pointer.
    assert_eq!(distinct.len(), bodies.len() - 1);
}

#[test]
fn a_change_anywhere_below_shows_at_the_top() {
    let chain = |leaf: &str| {
        format!("message M {{ A a = 1; }} message A {{ B b = 1; }} message B {{ {leaf} }}")
    };
    assert_ne!(hash(&chain("int32 a = 1;")), hash(&chain("int64 a = 1;")));
    let ring = |leaf: &str| {
        format!("message M {{ A a = 1; }} message A {{ B b = 1; }} message B {{ M m = 1; {leaf} }}")
    };
    assert_ne!(hash(&ring("int32 a = 2;")), hash(&ring("int64 a = 2;")));
    assert_ne!(hash(&ring("")), hash(&chain("")));
}

#[test]
fn cycles_are_told_apart_by_their_shape() {
    let shapes = [
        "message M { M a = 1; }",
        "message M { M a = 1; M b = 2; }",
        "message M { N a = 1; } message N { N a = 1; }",
        "message M { N a = 1; } message N { M a = 1; int32 b = 2; }",
        "message M { N a = 1; int32 b = 2; } message N { M a = 1; }",
        "message M { N a = 1; } message N { O a = 1; } message O { M a = 1; int32 b = 2; }",
        "message M { N a = 1; } message N { O a = 1; int32 b = 2; } message O { M a = 1; }",
        "message M { N a = 1; } message N { O a = 1; } message O { M a = 1; int64 b = 2; }",
    ];
    let hashes: HashSet<Hash> = shapes.map(hash).into();
    assert_eq!(hashes.len(), shapes.len());
    // However it is written, what cannot be told apart by a layout is the same.
    let twice = "message M { N a = 1; } message N { M a = 1; }";
    assert_eq!(hash(twice), hash("message M { Z a = 1; } message Z { M a = 1; }"));
    let schema = schema(twice);
    let [m, n] = ["M", "N"].map(|name| schema.message(id(&schema, name)).hash());
    assert_eq!(m, n, "each contains the other and nothing else");
    assert_eq!(m, hash(shapes[0]), "as does this one");
}

#[test]
fn a_service_is_its_name_and_its_methods() {
    let service = |text: &str| {
        let schema = schema(&format!("{text} message M {{ int32 a = 1; }} message N {{}}"));
        let (_, service) = schema.services().next().unwrap();
        service.hash()
    };
    let base = service("service S { rpc F(M) returns (N); rpc G(N) returns (M); }");
    assert_eq!(base, service("service S { rpc G(N) returns (M); rpc F(M) returns (N); }"));
    assert_eq!(
        base,
        service(
            "// Serves.\nservice S { rpc F(M) returns (N) { option idempotency_level = IDEMPOTENT; \
             } rpc G(N) returns (M); }"
        ),
        "retries are the caller's affair"
    );
    let others = [
        "service T { rpc F(M) returns (N); rpc G(N) returns (M); }",
        "package p; service S { rpc F(M) returns (N); rpc G(N) returns (M); }",
        "service S { rpc F(M) returns (N); rpc H(N) returns (M); }",
        "service S { rpc F(M) returns (N); }",
        "service S { rpc F(N) returns (N); rpc G(N) returns (M); }",
        "service S { rpc F(M) returns (M); rpc G(N) returns (M); }",
        "service S { rpc F(stream M) returns (N); rpc G(N) returns (M); }",
        "service S { rpc F(M) returns (stream N); rpc G(N) returns (M); }",
    ];
    let mut hashes: HashSet<Hash> = others.map(service).into();
    hashes.insert(base);
    assert_eq!(hashes.len(), others.len() + 1);
}

#[test]
fn a_schema_is_its_messages_and_services_by_name() {
    let base = schema("message M { int32 a = 1; } message N {}").hash();
    assert_eq!(base, schema("message N {} message M { int32 b = 1; }").hash());
    assert_ne!(base, schema("message M { int32 a = 1; } message O {}").hash());
    assert_ne!(base, schema("message M { int64 a = 1; } message N {}").hash());
    let served = schema("message M { int32 a = 1; } message N {} service S {}");
    assert_ne!(base, served.hash());
}
