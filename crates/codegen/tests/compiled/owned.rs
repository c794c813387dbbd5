//! Plain structs, to messages and back.

use petasos_message::well_known::value::OwnedKind;
use petasos_message::well_known::{
    NullValue, OwnedListValue, OwnedStringValue, OwnedStruct, OwnedTimestamp, OwnedValue,
};
use petasos_message::{DEPTH_MAX, DecodeError, DecodeLimits, FromJson, Input, Msg};
use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;

use crate::protos::torture::owned::all::OwnedChoice;
use crate::protos::torture::owned::{All, Colour, OwnedAll, OwnedBox, OwnedLeaf_, OwnedVec, leaf};

fn leaf(within: Option<i32>) -> OwnedLeaf_ {
    let within = within.map(leaf::inner::OwnedWithin::Some);
    OwnedLeaf_ { inner: Some(leaf::OwnedInner { within }) }
}

/// All numbers are values of an enum, with names or without.
fn colour() -> impl Strategy<Value = Colour> {
    any::<i32>().prop_map(Colour)
}

fn choice(all: impl Strategy<Value = OwnedAll>) -> impl Strategy<Value = OwnedChoice> {
    prop_oneof![
        any::<u64>().prop_map(OwnedChoice::Number),
        ".{0,4}".prop_map(OwnedChoice::Text),
        vec(any::<u8>(), 0..4).prop_map(OwnedChoice::Data),
        colour().prop_map(OwnedChoice::Paint),
        all.prop_map(|all| OwnedChoice::All(Box::new(all))),
        option::of(any::<i32>()).prop_map(|within| OwnedChoice::OneLeaf(leaf(within))),
    ]
}

fn scalars() -> impl Strategy<Value = OwnedAll> {
    let one = (-1e9..1e9, ".{0,4}", vec(any::<u8>(), 0..4), colour(), any::<i32>());
    let optional = (
        option::of(any::<bool>()),
        option::of(".{0,4}"),
        option::of(vec(any::<u8>(), 0..4)),
        option::of(colour()),
        option::of((any::<i64>(), 0..1_000_000_000)),
    );
    let lists = (
        vec(any::<i64>(), 0..4),
        vec(".{0,4}", 0..4),
        vec(vec(any::<u8>(), 0..4), 0..4),
        vec(colour(), 0..4),
    );
    let maps = (
        btree_map(".{0,4}", any::<i32>(), 0..4),
        btree_map(any::<i64>(), ".{0,4}", 0..4),
        btree_map(any::<u32>(), vec(any::<u8>(), 0..4), 0..4),
        btree_map(".{0,4}", colour(), 0..4),
    );
    (one, optional, lists, maps).prop_map(|(one, optional, lists, maps)| OwnedAll {
        a_double: one.0,
        a_string: one.1,
        some_bytes: one.2,
        colour: one.3,
        type_: one.4,
        a_bool: optional.0,
        wrapped: optional.1.clone().map(|value| OwnedStringValue { value }),
        a_name: optional.1,
        more_bytes: optional.2,
        tint: optional.3,
        at: optional.4.map(|(seconds, nanos)| OwnedTimestamp { seconds, nanos }),
        numbers: lists.0,
        names: lists.1,
        blobs: lists.2,
        colours: lists.3,
        by_name: maps.0,
        by_number: maps.1,
        by_id: maps.2,
        by_colour: maps.3,
        ..OwnedAll::default()
    })
}

/// What JSON has, as deep as three levels.
fn json() -> impl Strategy<Value = OwnedValue> {
    let value = |kind| OwnedValue { kind: Some(kind) };
    let leaf = prop_oneof![
        Just(OwnedKind::NullValue(NullValue::default())),
        (-1e9..1e9).prop_map(OwnedKind::NumberValue),
        ".{0,4}".prop_map(OwnedKind::StringValue),
        any::<bool>().prop_map(OwnedKind::BoolValue),
    ];
    leaf.prop_map(value).prop_recursive(3, 8, 2, move |inner| {
        let list = vec(inner.clone(), 0..3);
        prop_oneof![
            list.prop_map(|values| OwnedKind::ListValue(OwnedListValue { values })),
            object(inner).prop_map(OwnedKind::StructValue),
        ]
        .prop_map(value)
    })
}

fn object(values: impl Strategy<Value = OwnedValue>) -> impl Strategy<Value = OwnedStruct> {
    btree_map(".{0,4}", values, 0..3).prop_map(|fields| OwnedStruct { fields })
}

/// With messages of its own type in it, in each place where they can be.
fn all() -> impl Strategy<Value = OwnedAll> {
    scalars().prop_recursive(3, 8, 2, |inner| {
        let places = (
            option::of(inner.clone()),
            vec(inner.clone(), 0..2),
            btree_map(any::<bool>(), inner.clone(), 0..2),
            option::of(choice(inner)),
            (option::of(any::<i32>()), option::of(object(json()))),
        );
        (scalars(), places).prop_map(|(all, (again, alls, by_truth, choice, rest))| OwnedAll {
            again: again.map(Box::new),
            alls,
            by_truth,
            choice,
            leaf: Some(leaf(rest.0)),
            fields: rest.1,
            ..all
        })
    })
}

fn decoded(bytes: &[u8]) -> Result<Msg<All>, DecodeError> {
    Msg::from_protobuf(Input::Borrowed(bytes), &DecodeLimits::for_input(bytes.len()))
}

proptest! {
    #![proptest_config(petasos_cases::kept_with(64))]

    #[test]
    fn there_and_back_nothing_is_lost(owned in all()) {
        let message = owned.to_message();
        prop_assert_eq!(&OwnedAll::from(&message), &owned);
        let mut bytes = Vec::new();
        Msg::append_protobuf(&message, &mut bytes).expect("it is small");
        let received = decoded(&bytes).expect("it was just encoded");
        prop_assert_eq!(&received, &message);
        let again = OwnedAll::from(&received);
        prop_assert_eq!(&again.to_message(), &received);
        prop_assert_eq!(again, owned);
    }
}

/// Field 99 is none of `All`'s.
#[test]
fn unknown_fields_are_left_behind() {
    let received = decoded(b"\x12\x01x\x9a\x06\x01y").expect("it is protobuf");
    let mut bytes = Vec::new();
    let message = OwnedAll::from(&received).to_message();
    Msg::append_protobuf(&message, &mut bytes).expect("it is small");
    assert_eq!(bytes, b"\x12\x01x");
}

/// What a peer sends is refused before it is deeper than the conversions may have to go.
#[test]
fn depth_is_bounded_before_anything_is_converted() {
    let nested = |levels: u32| {
        let deepest = OwnedAll::default();
        (1..levels).fold(deepest, |again, _| OwnedAll {
            again: Some(Box::new(again)),
            ..OwnedAll::default()
        })
    };
    let owned = nested(DEPTH_MAX);
    let message = owned.to_message();
    let mut bytes = Vec::new();
    Msg::append_protobuf(&message, &mut bytes).expect("it has as many levels as there may be");
    assert_eq!(OwnedAll::from(&decoded(&bytes).expect("it was just encoded")), owned);
    let too_deep = nested(DEPTH_MAX + 5).to_message();
    assert!(Msg::append_protobuf(&too_deep, &mut bytes).is_err());
    assert!(Msg::into_native(message).is_ok() && Msg::into_native(too_deep).is_err());
    let json =
        (0..DEPTH_MAX + 5).fold("{}".to_owned(), |inner, _| format!("{{\"again\":{inner}}}"));
    let limits = DecodeLimits::for_input(json.len());
    assert!(Msg::<All>::from_json(&json, &FromJson::default(), &limits).is_err());
    let hostile = (0..DEPTH_MAX + 5).fold(Vec::new(), |inner: Vec<u8>, _| {
        let mut outer = vec![0x9a, 0x01];
        let len = inner.len();
        outer.extend([(len & 127) as u8 | 128, (len >> 7) as u8]);
        outer.extend(inner);
        outer
    });
    assert!(decoded(&hostile).is_err());
}

#[test]
fn messages_within_each_other_are_in_boxes() {
    let inner = OwnedBox { vec: Some(Box::new(OwnedVec::default())) };
    let outer = OwnedVec { box_: Some(Box::new(inner)), string: vec!["s".to_owned()] };
    assert_eq!(OwnedVec::from(&outer.to_message()), outer);
}
