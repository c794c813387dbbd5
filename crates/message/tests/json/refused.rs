//! Text that is no message.

use petasos_message::{DecodeLimits, FromJson, FromJsonError, json_to_protobuf};

use crate::support::Fixture;

#[test]
fn values_that_a_field_cannot_have_are_refused() {
    let fixture = Fixture::known();
    for text in [
        "[]",
        "1",
        r#"{"number":1.5}"#,
        r#"{"number":2147483648}"#,
        r#"{"number":" 1"}"#,
        r#"{"number":""}"#,
        r#"{"number":true}"#,
        r#"{"word":-1}"#,
        r#"{"bits":1e20}"#,
        r#"{"float":3.5e38}"#,
        r#"{"double":1e400}"#,
        r#"{"double":"nan"}"#,
        r#"{"flag":"true"}"#,
        r#"{"flag":1}"#,
        r#"{"string":1}"#,
        r#"{"bytes":"?"}"#,
        r#"{"shade":"dark"}"#,
        r#"{"shade":1.5}"#,
        r#"{"numbers":1}"#,
        r#"{"numbers":[null]}"#,
        r#"{"numbers":{}}"#,
        r#"{"flags":{"yes":"x"}}"#,
        r#"{"flags":{"true":null}}"#,
        r#"{"keyed":{"-1":0}}"#,
        r#"{"keyed":[]}"#,
        r#"{"within":[]}"#,
    ] {
        let error = fixture.parse("json.Plain", text).unwrap_err();
        assert!(matches!(error, FromJsonError::Value { .. }), "{text}: {error}");
    }
    for text in [
        r#"{"time":"1970-01-01"}"#,
        r#"{"time":0}"#,
        r#"{"span":"1"}"#,
        r#"{"mask":"a_b"}"#,
        r#"{"object":[]}"#,
        r#"{"list":{}}"#,
        r#"{"times":[null]}"#,
        r#"{"any":{"value":1}}"#,
        r#"{"any":{"@type":"json.Plain"}}"#,
        r#"{"any":{"@type":1}}"#,
        r#"{"any":{"@type":"a/google.protobuf.Duration","x":"1s"}}"#,
    ] {
        let error = fixture.parse("json.Known", text).unwrap_err();
        assert!(matches!(error, FromJsonError::Value { .. }), "{text}: {error}");
    }
}

#[test]
fn what_comes_twice_is_refused() {
    let fixture = Fixture::known();
    for (text, name) in [
        (r#"{"number":1,"number":1}"#, "number"),
        (r#"{"twoWords":1,"two_words":1}"#, "two_words"),
        (r#"{"left":"x","right":null}"#, "right"),
        (r#"{"keyed":{"1":0,"1.0":0}}"#, "1"),
    ] {
        let error = fixture.parse("json.Plain", text).unwrap_err();
        assert_eq!(error, FromJsonError::Duplicate { name: name.into() });
    }
    let error = fixture.parse("json.Plain", r#"{"no":1}"#).unwrap_err();
    assert_eq!(error, FromJsonError::UnknownField { name: "no".into() });
    let error = fixture.parse("json.Known", r#"{"any":{"@type":"a/No"}}"#).unwrap_err();
    assert_eq!(error, FromJsonError::UnknownType { name: "No".into() });
}

#[test]
fn depth_and_memory_are_bounded() {
    let fixture = Fixture::known();
    let deep = |levels: usize| {
        format!("{}{}", r#"{"within":"#.repeat(levels), "{}".to_owned() + &"}".repeat(levels))
    };
    assert!(fixture.parse("json.Plain", &deep(100)).is_ok());
    assert_eq!(fixture.parse("json.Plain", &deep(101)), Err(FromJsonError::TooDeep));
    let value = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    let value = format!(r#"{{"value":{}}}"#, value(60));
    assert_eq!(fixture.parse("json.Known", &value), Err(FromJsonError::TooDeep));

    let (id, _) = fixture.schema.message_by_name("json.Known").unwrap();
    let text = format!(r#"{{"values":[{}0]}}"#, "0,".repeat(10_000));
    let limits = DecodeLimits { memory_bytes_max: 100_000, ..DecodeLimits::for_input(0) };
    let how = FromJson::default();
    let error = json_to_protobuf(&fixture.schema, &fixture.plans, id, &text, &limits, &how, 0);
    assert_eq!(error.unwrap_err().error, FromJsonError::TooLarge);
}

#[test]
fn errors_say_where_they_are() {
    let fixture = Fixture::known();
    for (text, line, column, path) in [
        ("{\"number\": 1,\n \"é\": x}", 2, 7, ""),
        ("[]", 1, 1, ""),
        (
            "{\n  \"within\": {\n    \"within\": {\"number\": \"x\"}}}",
            3,
            16,
            "within.within.number",
        ),
        ("{\"numbers\": [1, 2, \"x\"]}", 1, 20, "numbers[2]"),
        ("{\"flags\": {\"true\": \"\", \"no\": \"\"}}", 1, 24, "flags.no"),
        ("{\"flags\": {\"true\": 1}}", 1, 12, "flags.true"),
        ("{\"keyed\": {\"-1\": 0}}", 1, 12, "keyed[\"-1\"]"),
        ("{\"number\": 1, \"\\u006eo\": 1}", 1, 15, "no"),
        ("{\"number\": 1, \"numb\": 1}", 1, 15, "numb"),
    ] {
        let error = fixture.located("json.Plain", text, &FromJson::default()).unwrap_err();
        assert_eq!((error.line, error.column, &*error.path), (line, column, path), "{error}");
    }
    let text = r#"{"any": {"@type": "a/json.Plain", "within": {"number": "x"}}}"#;
    let error = fixture.located("json.Known", text, &FromJson::default()).unwrap_err();
    let expected = "line 1, column 46, in `any.within.number`: a value that `number` cannot have";
    assert_eq!(error.to_string(), expected);
}
