//! Descriptors by file: made from schemas, and found by what is in them.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use petasos_schema::{Files, Limits, LoadError, Options, Schema};
use proptest::prelude::*;
use prost_reflect::DescriptorPool;

use crate::common::{descriptors, fixture, schema};

/// The schema of the files, which another library must accept, too.
fn again(files: &Files) -> Schema {
    let set = files.to_set();
    DescriptorPool::decode(&*set).unwrap();
    assert_eq!(files.missing_import(), None);
    Schema::from_descriptors(&set, &Options::default()).unwrap()
}

fn names(files: &Files) -> Vec<&str> {
    files.files().map(|file| file.name()).collect()
}

#[test]
fn a_schema_survives_its_files() {
    for name in ["everything.proto", "hello.proto"] {
        let known = fixture(name);
        let files = Files::of_schemas([&known]);
        assert!(names(&files).contains(&name), "{files:?}");
        assert_eq!(again(&files).encode(), known.encode());
        let forgotten = Schema::decode(&known.encode(), &Limits::default()).unwrap();
        let files = Files::of_schemas([&forgotten]);
        assert_eq!(again(&files).encode(), known.encode());
    }
}

#[test]
fn files_that_are_forgotten_are_named_after_packages() {
    let known = fixture("everything.proto");
    let files = Files::of_schemas([&known.without_sources()]);
    assert_eq!(names(&files), ["google/protobuf/timestamp.proto", "test/everything.proto"]);
    let file = files.file("test/everything.proto").unwrap();
    assert_eq!(file.imports().collect::<Vec<_>>(), ["google/protobuf/timestamp.proto"]);
    assert_eq!(files.services().collect::<Vec<_>>(), ["test.everything.Store"]);
}

#[test]
fn several_schemas_share_files() {
    let first = schema("package a; message M { N n = 1; } message N {}").without_sources();
    let second = schema("package a; message N {} message O { N n = 1; }").without_sources();
    let files = Files::of_schemas([&first, &second]);
    assert_eq!(names(&files), ["a.proto"]);
    let both = schema("package a; message M { N n = 1; } message N {} message O { N n = 1; }");
    assert_eq!(again(&files).encode(), both.encode());
}

#[test]
fn everything_with_a_name_is_found() {
    let files = Files::of_schemas([&fixture("everything.proto").without_sources()]);
    let of = |symbol| files.file_of_symbol(symbol).map(|file| file.name());
    for symbol in [
        "test.everything.Everything",
        "test.everything.Everything.Inner.Depth",
        "test.everything.Everything.a_double",
        "test.everything.Everything.second",
        "test.everything.CRIMSON",
        "test.everything.Store",
        "test.everything.Store.Chat",
    ] {
        assert_eq!(of(symbol), Some("test/everything.proto"), "{symbol}");
    }
    assert_eq!(of("google.protobuf.Timestamp"), Some("google/protobuf/timestamp.proto"));
    assert_eq!(of("test.everything.Nothing"), None);
    assert_eq!(of(".test.everything.Store"), None);
    let file = files.file("test/everything.proto").unwrap();
    let whole: Vec<&str> = files.with_imports(file).iter().map(|file| file.name()).collect();
    assert_eq!(whole, ["test/everything.proto", "google/protobuf/timestamp.proto"]);
}

/// Files in which messages are extended, as only proto2 can.
fn extended() -> Files {
    let mut resolver = protox::file::ChainFileResolver::new();
    resolver.add(Extended);
    resolver.add(protox::file::GoogleFileResolver::new());
    let mut compiler = protox::Compiler::with_file_resolver(resolver);
    compiler.include_imports(true).open_file("extended.proto").unwrap();
    let mut files = Files::default();
    files.add_set(&compiler.encode_file_descriptor_set(), &Limits::default()).unwrap();
    files
}

const EXTENDED: &str = "syntax = \"proto2\"; package e;
    import \"google/protobuf/descriptor.proto\";
    message M { extensions 100 to 200; }
    message N { extend M { optional int32 inside = 150; } }
    extend M { optional int32 outside = 101; }
    extend google.protobuf.FieldOptions { optional bool mark = 5000; }";

struct Extended;

impl protox::file::FileResolver for Extended {
    fn resolve_path(&self, _path: &std::path::Path) -> Option<String> {
        None
    }

    fn open_file(&self, name: &str) -> Result<protox::file::File, protox::Error> {
        match name {
            "extended.proto" => Ok(protox::file::File::from_source(name, EXTENDED)?),
            _ => Err(protox::Error::file_not_found(name)),
        }
    }
}

#[test]
fn extensions_are_found_by_message_and_number() {
    let files = extended();
    assert_eq!(files.extension_numbers("e.M"), Some(vec![101, 150]));
    assert_eq!(files.extension_numbers("e.N"), Some(vec![]));
    assert_eq!(files.extension_numbers("e.O"), None);
    assert_eq!(files.extension_numbers("google.protobuf.FieldOptions"), Some(vec![5000]));
    let of = |message, number| files.file_of_extension(message, number).map(|file| file.name());
    assert_eq!(of("e.M", 150), Some("extended.proto"));
    assert_eq!((of("e.M", 102), of("e.O", 1)), (None, None));
    assert_eq!(files.file_of_symbol("e.N.inside").unwrap().name(), "extended.proto");
    assert_eq!(files.file_of_symbol("e.outside").unwrap().name(), "extended.proto");
}

/// Two packages that refer to each other, which their files do not.
#[test]
fn packages_in_a_circle_are_divided() {
    let files = [
        ("a1.proto", "package a; message Leaf {}"),
        ("b.proto", "package b; import \"a1.proto\"; message Middle { a.Leaf leaf = 1; }"),
        (
            "a2.proto",
            "package a; import \"b.proto\"; message Top { b.Middle middle = 1; Top t = 2; }",
        ),
    ];
    let folder = std::env::temp_dir().join(format!("petasos-files-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    for (name, text) in files {
        std::fs::write(folder.join(name), format!("syntax = \"proto3\"; {text}")).unwrap();
    }
    let options = Options::default();
    let compiled = petasos_schema::compile(["a2.proto"], [&folder], &options);
    std::fs::remove_dir_all(&folder).unwrap();
    let known = compiled.unwrap().schema.without_sources();
    let files = Files::of_schemas([&known]);
    assert_eq!(names(&files), ["a.2.proto", "a.proto", "b.1.proto"]);
    assert_eq!(again(&files).encode(), known.encode());
}

#[test]
fn known_files_are_not_replaced() {
    let mut files = Files::default();
    files.add_set(&descriptors("message M {}"), &Limits::default()).unwrap();
    files.add_set(&descriptors("message N {}"), &Limits::default()).unwrap();
    assert!(files.file_of_symbol("M").is_some() && files.file_of_symbol("N").is_none());
    let missing = Files::of_schemas([&schema("message M {}")]);
    assert_eq!(missing.missing_import(), None);
}

#[test]
fn limits_hold() {
    let few = Limits { elements_max: 2, ..Limits::default() };
    let mut files = Files::default();
    let too_large = files.add_set(&descriptors("message M { int32 a = 1; int32 b = 2; }"), &few);
    assert_eq!(too_large, Err(LoadError::TooLarge { what: "elements", max: 2 }));
    let short = Limits { bytes_max: 2, ..Limits::default() };
    assert!(files.add(&[0; 3], &short).is_err());
    let mut nested = Vec::new();
    for _ in 0..40 {
        nested = [&[0x1a, nested.len() as u8][..], &nested].concat();
    }
    let file = [&[0x22, nested.len() as u8][..], &nested].concat();
    assert!(files.add(&file, &Limits::default()).is_err());
    assert_eq!(files.files().len(), 0);
}

proptest! {
    #![proptest_config(petasos_cases::kept())]

    #[test]
    fn any_schema_survives_its_files(set in crate::common::random::descriptor_set()) {
        let set = prost_reflect::prost::Message::encode_to_vec(&set);
        if let Ok(known) = Schema::from_descriptors(&set, &Options::default()) {
            let files = Files::of_schemas([&known]);
            prop_assert_eq!(again(&files).encode(), known.encode());
        }
    }

    #[test]
    fn any_bytes_are_files_or_not(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
        let _ = Files::default().add(&bytes, &Limits::default());
        let _ = Files::default().add_set(&bytes, &Limits::default());
    }
}
