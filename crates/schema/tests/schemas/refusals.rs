//! What is refused, with the exact words, and what is not.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use petasos_schema::{LoadError, Options, Schema};
use prost_reflect::prost_types::{
    DescriptorProto, FileDescriptorProto, FileDescriptorSet, MethodDescriptorProto,
    ServiceDescriptorProto,
};

use crate::common::{PROTOS, load, schema};

fn compile(files: &[&str]) -> Result<Schema, String> {
    let compiled = petasos_schema::compile(files, [PROTOS], &Options::default());
    compiled.map(|compiled| compiled.schema).map_err(|error| error.to_string())
}

fn refusal(file: &str) -> String {
    compile(&[file]).unwrap_err()
}

#[test]
fn a_proto2_field_is_refused_where_it_is_used() {
    assert_eq!(
        refusal("uses_proto2.proto"),
        "uses_proto2.proto:9:3: `legacy.Rule` is declared with proto2 in `options.proto`: services \
         need proto3 messages"
    );
}

#[test]
fn a_proto2_response_is_refused_where_it_is_used() {
    assert_eq!(
        refusal("serves_proto2.proto"),
        "serves_proto2.proto:10:35: `legacy.Rule` is declared with proto2 in `options.proto`: \
         services need proto3 messages"
    );
}

#[test]
fn a_proto2_message_that_is_asked_for_is_refused_where_it_is_declared() {
    assert_eq!(
        refusal("options.proto"),
        "options.proto:11:9: `legacy.Rule` is declared with proto2 in `options.proto`: services \
         need proto3 messages"
    );
}

#[test]
fn editions_are_refused_where_they_are_declared() {
    let expected = "edition.proto:2:1: editions are not supported: write `syntax = \"proto3\"`";
    assert_eq!(refusal("edition.proto"), expected);
    assert_eq!(refusal("imports_edition.proto"), expected);
}

#[test]
fn custom_options_may_come_from_proto2() {
    let schema = compile(&["annotated.proto"]).unwrap();
    let names: Vec<_> = schema.messages().map(|(_, message)| message.full_name()).collect();
    assert_eq!(names, ["annotated.Item"], "nothing of the options' files");
    assert_eq!(schema.services().len(), 1);
}

#[test]
fn a_proto2_file_may_have_services_of_proto3_messages() {
    let schema = compile(&["proto2_service.proto"]).unwrap();
    assert!(schema.service_by_name("old.Greeter").is_some());
    assert!(schema.service_by_name("hello.Greeter").is_none(), "only imported");
}

#[test]
fn without_named_files_what_cannot_be_had_is_left_out() {
    let compiler = |name: &str| {
        let mut compiler = protox::Compiler::new([PROTOS]).unwrap();
        compiler.include_imports(true).include_source_info(true);
        compiler.open_file(name).unwrap().encode_file_descriptor_set()
    };
    let set = compiler("annotated.proto");
    let schema = Schema::from_descriptors(&set, &Options::default()).unwrap();
    let names: Vec<_> = schema.messages().map(|(_, message)| message.full_name()).collect();
    assert_eq!(names, ["annotated.Item", "google.api.HttpRule"]);
    assert!(schema.enums().next().is_none(), "neither legacy.Mode nor those of descriptor.proto");
    // A service is never left out.
    let set = compiler("uses_proto2.proto");
    let error = Schema::from_descriptors(&set, &Options::default()).unwrap_err();
    assert!(matches!(error, LoadError::Refused { .. }), "{error}");
}

#[test]
fn messages_that_lead_to_proto2_are_left_out_at_any_distance() {
    let text = "import \"google/protobuf/descriptor.proto\"; message Far { Near near = 1; } \
        message Near { map<int32, google.protobuf.FieldOptions> options = 1; } message Fine {}";
    let names: Vec<_> = schema(text).messages().map(|(_, m)| m.full_name().to_owned()).collect();
    assert_eq!(names, ["Fine"]);
}

#[test]
fn an_edition_in_descriptors_is_refused() {
    let message = DescriptorProto { name: Some("M".into()), ..Default::default() };
    let method = MethodDescriptorProto {
        name: Some("Get".into()),
        input_type: Some(".M".into()),
        output_type: Some(".M".into()),
        ..Default::default()
    };
    let service = ServiceDescriptorProto {
        name: Some("S".into()),
        method: vec![method],
        ..Default::default()
    };
    let file = |name: &str, syntax: &str| FileDescriptorProto {
        name: Some(name.into()),
        syntax: Some(syntax.into()),
        ..Default::default()
    };
    let modern = file("modern.proto", "editions");
    let mine =
        FileDescriptorProto { service: vec![service.clone()], ..file("mine.proto", "proto3") };
    let both = FileDescriptorProto {
        message_type: vec![message.clone()],
        service: vec![service],
        ..modern.clone()
    };
    let theirs = FileDescriptorProto { message_type: vec![message], ..modern };
    let error = load(&FileDescriptorSet { file: vec![mine, theirs] }).unwrap_err();
    assert_eq!(
        error.to_string(),
        "mine.proto: `M` is declared with an edition in `modern.proto`: services need `syntax = \
         \"proto3\"`"
    );
    let error = load(&FileDescriptorSet { file: vec![both] }).unwrap_err();
    assert_eq!(
        error.to_string(),
        "modern.proto: `S` is declared with an edition in `modern.proto`: services need `syntax = \
         \"proto3\"`"
    );
}

#[test]
fn a_number_of_an_edition_tells_it_too() {
    // An edition as newer compilers write it, field 14, which prost does not know.
    let mut file = b"\x0a\x07e.proto\x70\xe8\x07".to_vec();
    file.splice(0..0, [0x0a, file.len() as u8]);
    file.extend(b"\x0a\x00");
    let options = Options { files: Some(vec!["e.proto".into()]), ..Options::default() };
    assert_eq!(Schema::from_descriptors(&file, &options), Ok(Schema::default()));
    // With a message in it, it is refused.
    let file = b"\x0a\x11\x0a\x07e.proto\x70\xe8\x07\x22\x03\x0a\x01M".to_vec();
    let error = Schema::from_descriptors(&file, &options).unwrap_err();
    assert!(error.to_string().starts_with("e.proto: `M` is declared with an edition"), "{error}");
}

#[test]
fn files_that_are_broken_are_explained() {
    for (file, expected) in [
        ("garbled.proto", "garbled.proto:4:15: expected '=', but found '1'"),
        ("broken.proto", "broken.proto:4:3: name 'strin' is not defined"),
        ("lost_import.proto", "lost_import.proto:2:1: import 'nowhere.proto' not found"),
        (
            "default_zero.proto",
            "default_zero.proto:4:9: the first value for proto3 enums must be 0",
        ),
    ] {
        assert_eq!(refusal(file), expected);
    }
    assert!(refusal("missing.proto").contains("missing.proto' is not in any include path"));
}

#[test]
fn a_file_that_is_not_in_the_set_is_named() {
    let options = Options { files: Some(vec!["other.proto".into()]), ..Options::default() };
    let error = Schema::from_descriptors(&crate::common::descriptors("message M {}"), &options);
    assert_eq!(
        error.unwrap_err().to_string(),
        "the descriptors have no file `other.proto`: name it as an import would"
    );
}
