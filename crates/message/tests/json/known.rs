//! The types with forms of their own.

use petasos_message::{FromJson, ToJson, ToJsonError};
use prost_reflect::prost::Message as _;

use crate::support::Fixture;

const CASES: &[&str] = &[
    r#"{"time":"2000-02-29T12:34:56.000001Z"}"#,
    r#"{"span":"-1.500s"}"#,
    r#"{"mask":"a,bC.dE"}"#,
    r#"{"mask":""}"#,
    r#"{"object":{"a":1.5,"b":{"c":[null,true,"x"]}}}"#,
    r#"{"value":null}"#,
    r#"{"value":[1,[],{}]}"#,
    r#"{"list":[]}"#,
    r#"{"empty":{}}"#,
    r#"{"long":"-9223372036854775808","flag":false,"string":"","word":7}"#,
    r#"{"bytes":"AP8=","double":"-Infinity"}"#,
    r#"{"times":["1970-01-01T00:00:00Z","1969-12-31T23:59:59.999Z"]}"#,
    r#"{"values":[null,1,"two"]}"#,
    r#"{"numbered":{"-1":null,"1":[2]}}"#,
    r#"{"any":{}}"#,
    r#"{"any":{"@type":"type.googleapis.com/json.Plain"}}"#,
    r#"{"any":{"@type":"type.googleapis.com/json.Plain","number":3,"string":"x"}}"#,
    r#"{"any":{"@type":"type.googleapis.com/google.protobuf.Duration","value":"2s"}}"#,
    r#"{"any":{"@type":"type.googleapis.com/google.protobuf.Empty"}}"#,
    r#"{"any":{"@type":"a/google.protobuf.Any","value":{"@type":"a/json.Plain","number":1}}}"#,
    r#"{"any":{"@type":"a/google.protobuf.Value","value":{"k":"v"}}}"#,
];

#[test]
fn special_forms_are_read_as_the_oracle_reads_them_and_written_as_they_were() {
    let fixture = Fixture::known();
    for text in CASES {
        let ours = fixture.parse("json.Known", text).unwrap_or_else(|error| {
            panic!("{text}: {error}");
        });
        assert_eq!(fixture.print("json.Known", &ours).as_deref(), Ok(*text));
        // The oracle knows no Empty, Any or Value within an Any in our form in all versions.
        let Ok(theirs) = fixture.oracle("json.Known", text) else { continue };
        assert_eq!(fixture.decoded("json.Known", &ours), theirs, "{text}");
    }
}

#[test]
fn null_is_absence_but_in_values() {
    let fixture = Fixture::known();
    let absent = r#"{"time":null,"any":null,"names":null,"list":null,"long":null}"#;
    assert_eq!(fixture.parse("json.Known", absent).unwrap(), b"");
    let value = fixture.parse("json.Known", r#"{"value":null}"#).unwrap();
    assert_eq!(value, [5 << 3 | 2, 2, 1 << 3, 0]);
    let right = fixture.parse("json.Plain", r#"{"right":null}"#).unwrap();
    assert_eq!(fixture.print("json.Plain", &right).as_deref(), Ok(r#"{"right":null}"#));
}

#[test]
fn numbers_are_taken_in_all_their_forms() {
    let fixture = Fixture::known();
    for text in [
        r#"{"number":1e2,"long":"-1","word":4294967295,"bits":"18446744073709551615"}"#,
        r#"{"number":"100","long":-1.0,"word":"4294967295.0","bits":18446744073709551615}"#,
    ] {
        let bytes = fixture.parse("json.Plain", text).unwrap();
        let wanted =
            r#"{"number":100,"long":"-1","word":4294967295,"bits":"18446744073709551615"}"#;
        assert_eq!(fixture.print("json.Plain", &bytes).as_deref(), Ok(wanted));
    }
    let text = r#"{"float":0.1,"double":1e+300,"flags":{"true":"x"},"keyed":{"1":"DARK","2":7}}"#;
    let bytes = fixture.parse("json.Plain", text).unwrap();
    assert_eq!(fixture.print("json.Plain", &bytes).unwrap(), text.replace("e+", "e"));
    assert!(fixture.decoded("json.Plain", &bytes) == fixture.oracle("json.Plain", text).unwrap());
}

#[test]
fn names_are_taken_in_both_forms_and_unknown_ones_on_request() {
    let fixture = Fixture::known();
    let camel = fixture.parse("json.Plain", r#"{"twoWords":1}"#).unwrap();
    assert_eq!(fixture.parse("json.Plain", r#"{"two_words":1}"#).unwrap(), camel);
    let how = ToJson { proto_names: true, ..ToJson::default() };
    let text = fixture.print_as("json.Plain", &camel, &how);
    assert_eq!(text.as_deref(), Ok(r#"{"two_words":1}"#));
    let lenient = FromJson { ignore_unknown: true };
    let text = r#"{"what":{"is":[this]},"twoWords":1}"#.replace("this", "\"this\"");
    assert_eq!(fixture.parse_as("json.Plain", &text, &lenient).unwrap(), camel);
    let text = r#"{"shade":"LOUD","shades":["DARK","LOUD",1],"keyed":{"1":"LOUD","2":"DARK"}}"#;
    let bytes = fixture.parse_as("json.Plain", text, &lenient).unwrap();
    let wanted = r#"{"shades":["DARK","DARK"],"keyed":{"2":"DARK"}}"#;
    assert_eq!(fixture.print("json.Plain", &bytes).as_deref(), Ok(wanted));
}

#[test]
fn what_has_no_form_is_an_error() {
    let fixture = Fixture::known();
    let cases: [(&[u8], &str); 4] = [
        // A nanosecond before 1970 as nanos: -1, a duration with two signs, no member of a value,
        // and a path that is not in snake case.
        (&[0x0a, 11, 0x10, 0xff, 255, 255, 255, 255, 255, 255, 255, 255, 1], "Timestamp"),
        (&[0x12, 13, 8, 1, 0x10, 0xff, 255, 255, 255, 255, 255, 255, 255, 255, 1], "Duration"),
        (&[0x2a, 0], "Value"),
        (&[0x1a, 4, 0x0a, 2, b'a', b'B'], "FieldMask"),
    ];
    for (bytes, name) in cases {
        let error = fixture.print("json.Known", bytes).unwrap_err();
        let message = format!("google.protobuf.{name}").into();
        assert_eq!(error, ToJsonError::Unprintable { message });
    }
}

#[test]
fn types_in_any_are_those_of_the_schema() {
    let fixture = Fixture::known();
    let any = [7 << 3 | 2, 6, 1 << 3 | 2, 4, b'a', b'/', b'N', b'o'];
    let error = fixture.print("json.Known", &any).unwrap_err();
    assert_eq!(error, ToJsonError::UnknownType { name: "No".into() });
    let broken =
        prost_reflect::prost_types::Any { type_url: "a/json.Plain".to_owned(), value: vec![0xff] };
    let mut bytes = vec![7 << 3 | 2, broken.encoded_len() as u8];
    broken.encode(&mut bytes).unwrap();
    assert!(matches!(fixture.print("json.Known", &bytes), Err(ToJsonError::Any(_))));
}
