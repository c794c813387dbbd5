//! Declarations as text: people read it, and a compiler makes the same of it again.

use crate::common::{fixture, id, schema};

const STORE: &str = "\
// Serves.
service Store {
  rpc Chat(stream Tree) returns (stream Leaf);
  rpc Collect(stream Tree) returns (Leaf);
  rpc Get(Tree) returns (Everything) {
    option idempotency_level = NO_SIDE_EFFECTS;
  }
  // Puts.
  rpc Put(Everything) returns (Tree) {
    option idempotency_level = IDEMPOTENT;
  }
  rpc Watch(Tree) returns (stream Leaf);
}
";

#[test]
fn a_service_reads_as_it_was_written() {
    let schema = fixture("everything.proto");
    let (id, _) = schema.service_by_name("test.everything.Store").expect("it is declared");
    assert_eq!(schema.service_text(id), STORE);
    let method = schema.method_text(id, "Watch");
    assert_eq!(method.as_deref(), Some("rpc Watch(Tree) returns (stream Leaf);\n"));
    assert_eq!(schema.method_text(id, "Nothing"), None);
}

#[test]
fn messages_have_their_comments_and_what_is_in_them() {
    let schema = fixture("everything.proto");
    let text = schema.message_text(id(&schema, "test.everything.Everything"));
    for part in [
        "// Holds one of each.\nmessage Everything {\n  // The first\n  // field.\n",
        "  google.protobuf.Timestamp at = 18;\n  optional int32 maybe = 20;\n",
        "  Everything.Inner maybe_inner = 21;\n",
        "  repeated int32 unpacked = 23 [packed = false];\n",
        "  map<sfixed64, Colour> colours = 27;\n",
        "  string renamed = 28 [json_name = \"other\"];\n",
        "  // One of two.\n  oneof second {\n    bytes data = 31;\n    string text = 32;\n  }\n",
        "\n\n  // Nested.\n  message Inner {\n",
        "\n\n    enum Depth {\n      FLAT = 0;\n    }\n  }\n}\n",
    ] {
        assert!(text.contains(part), "{part}in\n{text}");
    }
    let (colour, _) = schema.enum_by_name("test.everything.Colour").expect("it is declared");
    let expected = "enum Colour {\n  option allow_alias = true;\n  // No colour.\n  NONE = 0;\n  \
                    BLUE = -1;\n  RED = 2;\n  CRIMSON = 2;\n}\n";
    assert_eq!(schema.enum_text(colour), expected);
}

#[test]
fn what_is_printed_compiles_to_the_same() {
    let known = fixture("everything.proto").without_sources();
    let mut text =
        "package test.everything; import \"google/protobuf/timestamp.proto\";".to_owned();
    for (id, message) in known.messages() {
        if message.package() == "test.everything" && !message.local_name().contains('.') {
            text += &known.message_text(id);
        }
    }
    for (id, item) in known.enums().filter(|(_, item)| !item.local_name().contains('.')) {
        text += &known.enum_text(id);
        assert_eq!(item.package(), "test.everything");
    }
    known.services().for_each(|(id, _)| text += &known.service_text(id));
    assert_eq!(schema(&text).encode(), known.encode());
    let empty = schema("message M {} service S {}");
    assert_eq!(empty.message_text(id(&empty, "M")), "message M {}\n");
    let (service, _) = empty.service_by_name("S").expect("it is declared");
    assert_eq!(empty.service_text(service), "service S {}\n");
}
