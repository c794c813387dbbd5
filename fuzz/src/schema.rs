//! Schemas from outside: .proto text, `FileDescriptorSet`s, and the compact form.
//!
//! What is accepted has layouts, plans and a compact form that is read as the same.

use petasos_message::Plans;
use petasos_schema::{Files, Limits, Options, Schema};

use crate::{Input, Seed};

/// Less than the defaults, so that what takes long is an error and not a finding.
const LIMITS: Limits =
    Limits { bytes_max: 64 << 10, elements_max: 1 << 12, depth_max: 16, cycle_steps_max: 1 << 16 };

/// A byte for the form, then that.
pub fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let options = Options { limits: LIMITS, keep_descriptors: true, ..Options::default() };
    match input.u8() % 4 {
        0 => compiled(input.rest(), &options),
        1 => {
            let set = input.rest();
            if let Ok(schema) = Schema::from_descriptors(set, &options) {
                judge(&schema);
            }
            files(set);
        }
        2 => {
            if let Ok(schema) = Schema::decode(input.rest(), &LIMITS) {
                judge(&schema);
            }
        }
        _ => {
            let mut files = Files::default();
            let _ = files.add(input.rest(), &LIMITS);
        }
    }
}

/// Text, from a file, as compilers read it.
fn compiled(text: &[u8], options: &Options) {
    let folder = std::env::temp_dir().join(format!("petasos-fuzz-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("there is a folder for temporary files");
    std::fs::write(folder.join("input.proto"), text).expect("it can be written");
    if let Ok(compiled) = petasos_schema::compile(["input.proto"], [&folder], options) {
        judge(&compiled.schema);
    }
}

fn judge(schema: &Schema) {
    let _ = Plans::of(schema);
    let compact = schema.encode();
    let again = Schema::decode(&compact, &Limits::default()).expect("ours is read");
    assert_eq!(again.hash(), schema.hash());
    assert_eq!(again.encode(), compact);
    for (id, message) in schema.messages() {
        let same = schema.compare_messages(id, schema, id);
        assert_eq!(same, petasos_schema::Compatibility::Equal, "{}", message.full_name());
    }
    let files = Files::of_schemas([schema]);
    let _ = (files.missing_import(), files.to_set());
}

fn files(set: &[u8]) {
    let mut files = Files::default();
    if files.add_set(set, &LIMITS).is_err() {
        return;
    }
    for file in files.files() {
        assert!(!files.with_imports(file).is_empty());
    }
    let again = files.to_set();
    assert!(Files::default().add_set(&again, &Limits::default()).is_ok(), "ours is read");
}

const TEXT: &str = r#"syntax = "proto3";
package a.b;
// A comment.
message M { string s = 1; repeated int32 n = 2 [packed = false]; map<string, M> m = 3;
  oneof o { N n1 = 4; bytes b = 5; } optional E e = 6; reserved 7, 9 to 11;
  message N { fixed64 f = 1 [json_name = "g"]; } }
enum E { option allow_alias = true; ZERO = 0; NULL = 0; ONE = 1; }
service S { rpc One(M) returns (M.N); rpc Many(stream M) returns (stream M) {} }
"#;

const IMPORTING: &str = r#"syntax = "proto3"; import "google/protobuf/any.proto";
message A { google.protobuf.Any a = 1; }"#;

/// A schema in each form.
pub fn seeds() -> Vec<Seed> {
    let folder = std::env::temp_dir().join(format!("petasos-fuzz-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("there is a folder for temporary files");
    std::fs::write(folder.join("input.proto"), TEXT).expect("it can be written");
    let options = Options { keep_descriptors: true, ..Options::default() };
    let compiled = petasos_schema::compile(["input.proto"], [&folder], &options).expect("valid");
    let set = compiled.schema.descriptors().expect("they were kept").to_vec();
    let some = |kind: u8, bytes: &[u8]| [&[kind][..], bytes].concat();
    vec![
        ("text", some(0, TEXT.as_bytes())),
        ("imports", some(0, IMPORTING.as_bytes())),
        ("set", some(1, &set)),
        ("compact", some(2, &compiled.schema.encode())),
    ]
}
