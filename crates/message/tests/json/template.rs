//! Texts to fill in: they show every field, and are messages.

use petasos_message::json_template;
use petasos_schema::{Options, Schema};
use proptest::prelude::*;
use prost_reflect::prost::Message as _;

use crate::schemas::descriptor_set;
use crate::support::Fixture;

fn template(fixture: &Fixture, name: &str) -> String {
    let (id, _) = fixture.schema.message_by_name(name).unwrap();
    json_template(&fixture.schema, id)
}

#[test]
fn templates_show_every_field_and_read_as_messages() {
    let fixture = Fixture::known();
    for (id, message) in fixture.schema.messages() {
        let text = json_template(&fixture.schema, id);
        fixture.parse(message.full_name(), &text).unwrap();
    }
    let plain = template(&fixture, "json.Plain");
    for part in ["{\n  \"", "\n}", "\"flags\": {\"false\": \"\"}", "\"within\": null"] {
        assert!(plain.contains(part), "{part} in {plain}");
    }
    let known = template(&fixture, "json.Known");
    for part in ["\"time\": \"1970-01-01T00:00:00Z\"", "\"span\": \"0s\"", "\"any\": {}"] {
        assert!(known.contains(part), "{part} in {known}");
    }
    let name = "google.protobuf.Empty";
    if fixture.schema.message_by_name(name).is_some() {
        assert_eq!(template(&fixture, name), "{}");
    }
}

#[test]
fn templates_are_short() {
    let mut text = String::from("syntax = \"proto3\";");
    for level in 0..30 {
        let next = level + 1;
        text += &format!("message M{level} {{ M{next} a = 1; M{next} b = 2; M{next} c = 3; }}");
    }
    text += "message M30 {}";
    let folder = std::env::temp_dir().join(format!("petasos-template-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("deep.proto"), text).unwrap();
    let compiled = petasos_schema::compile(["deep.proto"], [&folder], &Options::default());
    std::fs::remove_dir_all(&folder).unwrap();
    let schema = compiled.unwrap().schema;
    let (id, _) = schema.message_by_name("M0").unwrap();
    let length = json_template(&schema, id).len();
    assert!((1 << 18..1 << 20).contains(&length), "{length}");
}

proptest! {
    #![proptest_config(petasos_cases::kept())]

    #[test]
    fn templates_of_any_schema_read_as_messages(set in descriptor_set()) {
        let set = set.encode_to_vec();
        if Schema::from_descriptors(&set, &Options::default()).is_ok() {
            let fixture = Fixture::of(&set);
            for (id, message) in fixture.schema.messages() {
                let text = json_template(&fixture.schema, id);
                prop_assert!(fixture.parse(message.full_name(), &text).is_ok(), "{text}");
            }
        }
    }
}
