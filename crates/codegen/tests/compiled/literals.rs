//! Messages in one expression.

use petasos_macros::message;
use petasos_message::Msg;

use crate::protos::torture::implicit::{Colour, Implicit};
use crate::protos::torture::many::Many;
use crate::protos::torture::oneofs::Oneofs;
use crate::protos::torture::oneofs::oneofs::Any;
use crate::protos::torture::optional::{Empty, Optional};

#[test]
fn scalars_strings_and_bytes() {
    let an_int32 = -3;
    let text = String::from("text");
    let message = message!(Implicit {
        a_double: 1.0 + 0.5,
        an_int32,
        a_bool: ({ an_int32 < 0 }),
        a_string: text,
        some_bytes: vec![1, 2],
        colour: Colour::RED,
    });
    let mut expected = Implicit::new();
    expected.edit().set_a_double(1.5).set_an_int32(-3).set_a_bool(true).set_a_string("text");
    expected.edit().set_some_bytes(&[1, 2]).set_colour(Colour::RED);
    assert_eq!(message, expected);
}

#[test]
fn nothing_is_the_empty_message() {
    assert_eq!(message!(Implicit {}), Implicit::new());
    assert_eq!(message!(crate::protos::torture::optional::Empty {}), Empty::new());
}

#[test]
fn messages_within_messages() {
    let empty = Empty::new();
    let message = message!(Optional {
        an_int32: 0,
        again: { again: { a_string: "deep" }, empty: {} },
        empty: &empty,
    });
    assert_eq!(message.an_int32(), Some(0), "it is present");
    let again = message.again().expect("it was written");
    assert_eq!(again.again().and_then(|again| again.a_string()), Some("deep"));
    assert!(again.has_empty() && message.has_empty());
}

#[test]
fn lists_of_values_and_messages() {
    let more = [3, 4];
    let names = vec!["b".to_owned(), "c".to_owned()];
    let message = message!(Many {
        int32s: [1, 1 + 1, ..more],
        int64s: ..(5..7),
        strings: ["a", ..&names],
        bools: [],
        manies: [{ doubles: [0.5] }, {}, { manies: [{ strings: ["deep"] }] }],
    });
    assert_eq!((message.int32s(), message.int64s()), (&[1, 2, 3, 4][..], &[5, 6][..]));
    assert!(message.strings().iter().map(|text| &**text).eq(["a", "b", "c"]));
    assert_eq!((message.bools().len(), message.manies().len()), (0, 3));
    assert_eq!(message.manies()[0].doubles(), [0.5]);
    assert_eq!(&*message.manies()[2].manies()[0].strings()[0], "deep");
}

#[test]
fn maps_of_values_and_messages() {
    let message = message!(Many {
        int32_to_double: { -1 => 1.0, 2 => 2.0 },
        fixed64_to_string: { 8 => "eight" },
        bool_to_empty: { true => &Empty::new() },
        string_to_many: { "twelve" => { strings: ["within"] }, "empty" => {} },
        int64_to_float: ..[(3, 0.5)],
    });
    assert_eq!(message.int32_to_double().get(-1), Some(&1.0));
    assert_eq!(message.int32_to_double().len(), 2);
    assert_eq!(message.fixed64_to_string().get(8).map(|text| &**text), Some("eight"));
    assert!(message.bool_to_empty().get(true).is_some());
    let within = message.string_to_many().get("twelve").expect("it was written");
    assert_eq!(&*within.strings()[0], "within");
    assert!(message.string_to_many().get("empty").is_some());
    assert_eq!(message.int64_to_float().get(3), Some(&0.5));
}

#[test]
fn members_of_oneofs() {
    let message = message!(Oneofs { a_string: "one" });
    assert!(matches!(message.any(), Some(Any::AString("one"))));
    let message = message!(Oneofs { again: { a_bool: true } });
    let Some(Any::Again(again)) = message.any() else { panic!("it was written") };
    assert!(matches!(again.any(), Some(Any::ABool(true))));
}

#[test]
fn a_message_to_begin_with() {
    let first = message!(Implicit { an_int32: 1, a_string: "kept" });
    let second: Msg<Implicit> = message!(Implicit { an_int32: 2, ..first.clone() });
    assert_eq!((second.an_int32(), second.a_string()), (2, "kept"));
    assert_eq!(first.an_int32(), 1);
    assert_eq!(message!(Implicit { ..first.clone() }), first);
}

#[test]
fn variables_of_the_program_are_not_hidden() {
    let (message, edit) = ("mine", 7);
    let made = message!(Implicit { a_string: message, an_int32: edit });
    assert_eq!((made.a_string(), made.an_int32()), ("mine", 7));
}
