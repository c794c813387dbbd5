//! Layouts in memory: `docs/spec/message.md`, M1 to M8.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::collections::HashMap;

use petasos_schema::{
    EntryLayout, FieldLayout, Kind, Layouts, Message, MessageLayout, Part, PresenceLayout, Schema,
};
use proptest::prelude::*;
use prost_reflect::prost_types::{DescriptorProto, FileDescriptorSet};

use crate::common::random::descriptor_set;
use crate::common::{id, load, schema};

/// The layout of `M`.
fn layout(declarations: &str) -> MessageLayout {
    let schema = schema(declarations);
    Layouts::of(&schema).message(id(&schema, "M")).clone()
}

const KINDS: [(&str, Part); 17] = [
    ("double", Part::Word8),
    ("float", Part::Word4),
    ("int32", Part::Word4),
    ("int64", Part::Word8),
    ("uint32", Part::Word4),
    ("uint64", Part::Word8),
    ("sint32", Part::Word4),
    ("sint64", Part::Word8),
    ("fixed32", Part::Word4),
    ("fixed64", Part::Word8),
    ("sfixed32", Part::Word4),
    ("sfixed64", Part::Word8),
    ("bool", Part::Word1),
    ("string", Part::Text),
    ("bytes", Part::Blob),
    ("N", Part::Link),
    ("E", Part::Word4),
];
const AROUND: &str = "message N { int32 n = 1; } enum E { Z = 0; }";

#[test]
fn m2_to_m6_a_note_lies_as_the_specification_draws_it() {
    let note = layout(
        "message M { string id = 1; optional int32 priority = 2; bytes body = 3; \
         repeated N features = 4; map<string, int64> counters = 5; \
         oneof origin { string email = 6; N place = 7; } E level = 8; } message N {} \
         enum E { Z = 0; }",
    );
    let field = |offset, part| FieldLayout { offset, part, presence_bit: None };
    assert_eq!(note.bytes, 112);
    assert_eq!(note.presence, Some(PresenceLayout { offset: 96, words: 1 }));
    assert_eq!(note.oneofs[..], [72]);
    let expected = [
        field(8, Part::Text),
        FieldLayout { offset: 100, part: Part::Word4, presence_bit: Some(0) },
        field(24, Part::Blob),
        field(40, Part::List),
        field(56, Part::Map),
        field(80, Part::Text),
        field(80, Part::Link),
        field(104, Part::Word4),
    ];
    assert_eq!(note.fields[..], expected);
    let expected = [
        (0, Part::Unknown),
        (8, Part::Text),
        (24, Part::Blob),
        (40, Part::List),
        (56, Part::Map),
        (72, Part::OneOf),
        (96, Part::Presence),
        (100, Part::Word4),
        (104, Part::Word4),
    ];
    assert_eq!(note.parts[..], expected);
}

#[test]
fn m4_every_kind_has_its_part_wherever_it_stands() {
    for (kind, part) in KINDS {
        let one = |body: &str| {
            let layout = layout(&format!("message M {{ {body} }} {AROUND}"));
            (layout.fields[0], layout.bytes)
        };
        let rounded = 8 + part.bytes().next_multiple_of(8);
        let field = FieldLayout { offset: 8, part, presence_bit: None };
        assert_eq!(one(&format!("{kind} a = 1;")), (field, rounded), "{kind}");
        let (optional, bytes) = one(&format!("optional {kind} a = 1;"));
        let small = part.align() < 8;
        let has_bit = part != Part::Link;
        let at = if small { 12 } else { 8 };
        assert_eq!((optional.offset, optional.part), (at, part), "{kind}");
        assert_eq!(optional.presence_bit, has_bit.then_some(0), "{kind}");
        assert_eq!(bytes, if has_bit && !small { rounded + 8 } else { rounded.max(16) }, "{kind}");
        let member = FieldLayout { offset: 16, part, presence_bit: None };
        assert_eq!(one(&format!("oneof o {{ {kind} a = 1; }}")), (member, 32), "{kind}");
        let list = FieldLayout { offset: 8, part: Part::List, presence_bit: None };
        assert_eq!(one(&format!("repeated {kind} a = 1;")), (list, 24), "{kind}");
        let map = FieldLayout { offset: 8, part: Part::Map, presence_bit: None };
        assert_eq!(one(&format!("map<string, {kind}> a = 1;")), (map, 24), "{kind}");
    }
}

#[test]
fn m5_groups_follow_by_alignment_and_a_oneof_by_its_first_member() {
    let layout = layout(
        "message M { bool a = 1; int64 b = 2; int32 c = 3; oneof late { bool f = 6; M d = 4; } \
         string e = 5; bool g = 7; oneof later { int32 h = 8; } float i = 9; } ",
    );
    let offsets: Vec<u32> = layout.fields.iter().map(|field| field.offset).collect();
    assert_eq!(offsets, [88, 8, 80, 24, 40, 24, 89, 64, 84]);
    assert_eq!(layout.oneofs[..], [16, 56]);
    assert_eq!((layout.bytes, layout.presence), (96, None));
}

#[test]
fn m6_presence_has_a_bit_per_optional_field_that_is_no_message() {
    let fields: String = (1..=33).map(|n| format!("optional bool a{n} = {n};")).collect();
    let layout = layout(&format!("message M {{ {fields} optional M m = 40; int32 n = 41; }}"));
    assert_eq!(layout.presence, Some(PresenceLayout { offset: 16, words: 2 }));
    let bits: Vec<_> = layout.fields.iter().map(|field| field.presence_bit).collect();
    assert_eq!(bits, (0..33).map(Some).chain([None, None]).collect::<Vec<_>>());
    assert_eq!((layout.fields[34].offset, layout.fields[0].offset), (24, 28));
    assert_eq!(layout.bytes, 64);
}

#[test]
fn m7_elements_have_their_own_size_and_messages_are_whole() {
    let schema = schema("message M { string a = 1; M b = 2; bool c = 3; }");
    let layouts = Layouts::of(&schema);
    assert_eq!(layouts.element(Kind::Message(id(&schema, "M"))), (40, 8));
    let of = |kind| layouts.element(kind);
    assert_eq!([of(Kind::Bool), of(Kind::Float), of(Kind::Int64)], [(1, 1), (4, 4), (8, 8)]);
    assert_eq!([of(Kind::String), of(Kind::Bytes)], [(16, 8), (16, 8)]);
}

#[test]
fn m8_entries_are_key_then_value_in_multiples_of_eight() {
    let schema = schema("message M { int64 a = 1; int64 b = 2; } message Empty {}");
    let layouts = Layouts::of(&schema);
    let message = |name| Kind::Message(id(&schema, name));
    for (key, value, value_offset, bytes) in [
        (Kind::Bool, Kind::Bool, 1, 8),
        (Kind::Bool, Kind::Float, 4, 8),
        (Kind::Bool, Kind::Double, 8, 16),
        (Kind::Int32, Kind::Bool, 4, 8),
        (Kind::Int32, Kind::Uint32, 4, 8),
        (Kind::Fixed32, Kind::String, 8, 24),
        (Kind::Sint64, Kind::Bool, 8, 16),
        (Kind::String, Kind::Bool, 16, 24),
        (Kind::String, Kind::Int64, 16, 24),
        (Kind::String, Kind::Bytes, 16, 32),
        (Kind::Uint32, message("M"), 8, 32),
        (Kind::Bool, message("Empty"), 8, 16),
        (Kind::String, message("M"), 16, 40),
    ] {
        let found = layouts.entry(key, value);
        assert_eq!(found, EntryLayout { bytes, value_offset }, "{key:?} {value:?}");
    }
}

/// Checks the rules that hold between the parts of any message.
fn check(message: &Message, layout: &MessageLayout) {
    let mut end = 0;
    let mut align = 8;
    for (offset, part) in &layout.parts {
        assert!(*offset == end && part.align() <= align, "no gaps, groups descend");
        let words = layout.presence.map_or(0, |presence| presence.words);
        end += part.bytes() * if *part == Part::Presence { words } else { 1 };
        align = part.align();
    }
    assert!(layout.bytes == end.next_multiple_of(8) && layout.bytes >= 8);
    assert_eq!(layout.parts[0], (0, Part::Unknown));
    let of = |wanted| layout.parts.iter().filter(move |(_, part)| *part == wanted).count();
    assert_eq!((of(Part::Unknown), of(Part::OneOf)), (1, message.oneofs().len()));
    assert_eq!(of(Part::Presence), usize::from(layout.presence.is_some()));
    let mut last = HashMap::new();
    for (field, place) in message.fields().iter().zip(&layout.fields) {
        match field.oneof() {
            Some(index) => assert_eq!(place.offset, layout.oneofs[index.index()] + 8),
            None => {
                assert!(layout.parts.contains(&(place.offset, place.part)));
                let before = last.insert(place.part.align(), place.offset);
                assert!(before.is_none_or(|before| before < place.offset), "by number");
            }
        }
    }
    assert!(layout.oneofs.is_sorted());
    let bits = layout.fields.iter().filter_map(|field| field.presence_bit);
    let count = bits.clone().count() as u32;
    assert!(bits.eq(0..count));
    assert_eq!(layout.presence.map_or(0, |presence| presence.words), count.div_ceil(32));
}

/// Other names of messages, which sort the other way, and fields declared in the other order.
fn disguise(mut set: FileDescriptorSet) -> FileDescriptorSet {
    fn name(old: &str) -> String {
        let mut pieces = old.split("Message");
        let mut name = pieces.next().unwrap().to_owned();
        for piece in pieces {
            let digits = piece.find(|c: char| !c.is_ascii_digit()).unwrap_or(piece.len());
            let number: u32 = piece[..digits].parse().unwrap();
            name += &format!("Other{}{}", 999 - number, &piece[digits..]);
        }
        name
    }
    fn message(item: &mut DescriptorProto) {
        item.name = item.name.as_deref().map(name);
        let is_entry = item.options.as_ref().is_some_and(|options| options.map_entry());
        if !is_entry {
            item.field.reverse();
        }
        for field in &mut item.field {
            field.type_name = field.type_name.as_deref().map(name);
        }
        item.nested_type.iter_mut().for_each(message);
    }
    let file = &mut set.file[0];
    file.message_type.iter_mut().for_each(message);
    for method in &mut file.service[0].method {
        method.input_type = method.input_type.as_deref().map(name);
        method.output_type = method.output_type.as_deref().map(name);
    }
    set
}

/// Equal hashes among all messages must mean equal layouts. The number of pairs with equal ones.
fn compare(schemas: &[&Schema]) -> usize {
    let mut by_hash = HashMap::new();
    let mut equal = 0;
    for schema in schemas {
        let layouts = Layouts::of(schema);
        for (id, message) in schema.messages() {
            let layout = layouts.message(id).clone();
            if let Some(before) = by_hash.insert(message.hash(), layout.clone()) {
                assert_eq!(before, layout, "{}", message.full_name());
                equal += 1;
            }
        }
    }
    equal
}

proptest! {
    #![proptest_config(petasos_cases::kept())]

    #[test]
    fn m2_m5_m6_hold_of_any_message(set in descriptor_set()) {
        let schema = load(&set).unwrap();
        let layouts = Layouts::of(&schema);
        for (id, message) in schema.messages() {
            check(message, layouts.message(id));
        }
    }

    #[test]
    fn m1_equal_hashes_have_equal_layouts(set in descriptor_set()) {
        let schema = load(&set).unwrap();
        let other = load(&disguise(set)).unwrap();
        let count = schema.messages().len();
        prop_assert!(schema.messages().map(|(_, message)| message.full_name()).ne(
            other.messages().map(|(_, message)| message.full_name())
        ));
        prop_assert!(compare(&[&schema, &other]) >= count);
    }
}

#[test]
fn m3_m4_pointers_are_words_of_eight_bytes() {
    let parts = [Part::Link, Part::Unknown, Part::Text, Part::Blob, Part::List, Part::Map];
    assert!(parts.iter().all(|part| part.align() == 8));
    assert_eq!(parts.map(Part::bytes), [8, 8, 16, 16, 16, 16]);
}
