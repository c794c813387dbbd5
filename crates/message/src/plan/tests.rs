//! Plans against the layouts and descriptors that they come from.

use petasos_schema::{Cardinality, FieldLayout, Kind, Layouts, Options, Part, Schema};
use proptest::prelude::*;
use prost_reflect::prost::Message as _;
use prost_reflect::prost::encoding::{WireType, encode_key};

use super::*;

#[path = "../../../schema/tests/common/random.rs"]
mod random;

fn load(set: &prost_reflect::prost_types::FileDescriptorSet) -> Schema {
    Schema::from_descriptors(&set.encode_to_vec(), &Options::default()).expect("a valid schema")
}

/// The tag that prost writes for a field.
fn tag(number: u32, cardinality: Cardinality, kind: Kind) -> Vec<u8> {
    let wire_type = match (cardinality, kind) {
        (Cardinality::Map { .. } | Cardinality::Repeated { packed: true }, _) => {
            WireType::LengthDelimited
        }
        (_, Kind::String | Kind::Bytes | Kind::Message(_)) => WireType::LengthDelimited,
        (_, Kind::Double | Kind::Fixed64 | Kind::Sfixed64) => WireType::SixtyFourBit,
        (_, Kind::Float | Kind::Fixed32 | Kind::Sfixed32) => WireType::ThirtyTwoBit,
        _ => WireType::Varint,
    };
    let mut tag = Vec::new();
    encode_key(number, wire_type, &mut tag);
    tag
}

/// The tag as [`Op::tag`] says to write it.
fn written(op: &Op) -> Vec<u8> {
    let bytes = usize::from(op.tag_bytes);
    let (tag, end) = (op.tag.to_le_bytes(), op.tag_end.to_le_bytes());
    assert_eq!((&tag[..bytes], &tag[bytes..]), (&end[8 - bytes..], &end[..8 - bytes]));
    assert_eq!(op.begins(op.tag | u64::MAX << (8 * bytes)), bytes <= 3, "one look");
    assert!(!op.begins(op.tag ^ 1) && usize::from(op.tag_bits) == 8 * bytes);
    assert!(!op.begins(op.tag ^ 1 << (8 * bytes - 1)), "the last byte counts");
    tag[..bytes].to_vec()
}

fn check(schema: &Schema, layouts: &Layouts, plans: &Plans, id: MessageId) {
    let (message, layout, plan) = (schema.message(id), layouts.message(id), plans.message(id));
    assert_eq!((plan.bytes(), plan.ops().len()), (layout.bytes, message.fields().len()));
    let mut pointers = vec![Relocation { offset: 0, case: 0 }];
    let mut presence = 0;
    for ((field, place), op) in message.fields().iter().zip(&layout.fields).zip(plan.ops()) {
        let FieldLayout { offset, part, presence_bit } = *place;
        assert_eq!((op.number, op.offset), (field.number(), offset));
        assert_eq!(written(op), tag(field.number(), field.cardinality(), field.kind()));
        assert_eq!(op.shape, Shape::of(field.cardinality()));
        assert_eq!(op.kind, ValueKind::of(field.kind()));
        let element = layouts.element(field.kind()).0;
        assert_eq!(op.kind.bytes().unwrap_or(element), element);
        if let Some(bit) = presence_bit {
            assert_eq!(u32::from(op.presence_bit), bit);
            presence += 1;
        }
        if let Some(id) = field.kind().message().filter(|_| op.shape != Shape::Map) {
            assert_eq!(plan.message_of(op).bytes(), layouts.message(id).bytes);
        }
        if let Cardinality::Map { key } = field.cardinality() {
            check_entry(layouts, plan, op, (key, field.kind()));
        }
        let oneof = field.oneof().map(|index| layout.oneofs[index.index()]);
        assert!(oneof.is_none_or(|oneof| op.oneof_offset == oneof));
        if !matches!(part, Part::Word1 | Part::Word4 | Part::Word8) {
            pointers.push(Relocation { offset, case: oneof.map_or(0, |_| field.number()) });
        }
    }
    assert_eq!(plan.relocations(), pointers);
    let absent = plan.steps().iter().filter(|step| matches!(step, Step::Absent { .. }));
    assert_eq!(absent.count(), presence);
    let last = message.fields().last().map_or(0, |field| field.number());
    for number in (0..last + 3).chain([1 << 20, (1 << 29) - 1]) {
        let place = message.fields().iter().position(|field| field.number() == number);
        assert_eq!(plan.find(number), place, "{number}");
    }
}

fn check_entry(layouts: &Layouts, plan: Plan<'_>, op: &Op, (key, value): (Kind, Kind)) {
    let (layout, entry) = (layouts.entry(key, value), plan.entry_of(op));
    assert_eq!((entry.bytes, entry.key.offset), (layout.bytes, 0));
    assert_eq!(entry.value.offset, layout.value_offset);
    assert_eq!([entry.key.kind, entry.value.kind], [key, value].map(ValueKind::of));
    assert_eq!(written(&entry.key), tag(1, Cardinality::Implicit, key));
    assert_eq!(written(&entry.value), tag(2, Cardinality::Implicit, value));
    let found: Vec<u32> = plan.entry_relocations(entry).map(|pointer| pointer.offset).collect();
    let mut pointers = if key == Kind::String { vec![0] } else { vec![] };
    match value {
        Kind::String | Kind::Bytes => pointers.push(layout.value_offset),
        Kind::Message(_) => {
            let within = plan.message_of(&entry.value).relocations();
            pointers.extend(within.iter().map(|at| at.offset + layout.value_offset));
        }
        _ => {}
    }
    assert_eq!(found, pointers);
}

proptest! {
    #![proptest_config(petasos_cases::kept())]

    #[test]
    fn plans_are_what_layouts_and_descriptors_say(set in random::descriptor_set()) {
        let schema = load(&set);
        let (layouts, plans) = (Layouts::of(&schema), Plans::of(&schema).expect("few fields"));
        schema.messages().for_each(|(id, _)| check(&schema, &layouts, &plans, id));
    }
}

#[test]
fn tags_have_one_to_five_bytes() {
    for (number, bytes) in [
        (1, 1),
        (15, 1),
        (16, 2),
        (2047, 2),
        (2048, 3),
        (1 << 18, 4),
        (1 << 25, 5),
        ((1 << 29) - 1, 5),
    ] {
        let (word, len) = op::varint(number << 3 | 2);
        let mut expected = Vec::new();
        encode_key(number, WireType::LengthDelimited, &mut expected);
        assert_eq!((&word.to_le_bytes()[..len.into()], len), (&expected[..], bytes));
    }
}

#[test]
fn a_message_has_a_plan_up_to_so_many_fields() {
    use prost_reflect::prost_types::field_descriptor_proto::Type;
    use prost_reflect::prost_types::{
        DescriptorProto, FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet,
    };
    let of = |count: i32| {
        let field = (1..=count).map(|at| FieldDescriptorProto {
            name: Some(format!("field_{at}")),
            number: Some(if at < 19000 { at } else { at + 1000 }),
            r#type: Some(Type::Bool.into()),
            ..Default::default()
        });
        let message = DescriptorProto {
            name: Some("M".into()),
            field: field.collect(),
            ..Default::default()
        };
        let file = FileDescriptorProto {
            name: Some("test.proto".into()),
            syntax: Some("proto3".into()),
            message_type: vec![message],
            ..Default::default()
        };
        Plans::of(&load(&FileDescriptorSet { file: vec![file] }))
    };
    let plans = of(FIELDS_MAX as i32).expect("as many as are allowed");
    let plan = Plan { plans: &plans, tables: &plans.messages[0] };
    assert_eq!(plan.find(FIELDS_MAX as u32 + 1000), Some(FIELDS_MAX - 1));
    let refused = of(FIELDS_MAX as i32 + 1).map(|_| ());
    assert_eq!(refused, Err(TooManyFields { message: "M".into() }));
}

#[test]
fn m9_a_type_that_is_laid_out_otherwise_is_a_broken_build() {
    const GOOD: Slots = Slots {
        bytes: 32,
        align: 8,
        parts: &[(24, Part::Word4), (0, Part::Unknown), (8, Part::Text)],
    };
    let schema = Schema::decode(
        b"\x01\x00\x01\x01M\x00\x00\x02\x01\x01a\x00\x00\x09\x02\x01b\x00\x00\x05\x00",
        &Default::default(),
    )
    .expect("a string and a number");
    let plans = Plans::of(&schema).expect("few fields");
    assert_eq!(plans.bind(0, &GOOD).bytes(), 32);
    let parts: [&'static [(usize, Part)]; 4] = [
        &[(24, Part::Word4), (0, Part::Unknown), (8, Part::Blob)],
        &[(28, Part::Word4), (0, Part::Unknown), (8, Part::Text)],
        &[(0, Part::Unknown), (8, Part::Text)],
        &[(24, Part::Word4), (0, Part::Unknown), (8, Part::Text), (28, Part::Word4)],
    ];
    let mut wrong: Vec<Slots> = parts.map(|parts| Slots { parts, ..GOOD }).into();
    wrong.extend([Slots { bytes: 40, ..GOOD }, Slots { align: 4, ..GOOD }]);
    let refused = |index: u32, slots: Slots| {
        let bind = std::panic::AssertUnwindSafe(|| plans.bind(index, &slots).bytes());
        std::panic::catch_unwind(bind).is_err()
    };
    assert!(wrong.into_iter().all(|slots| refused(0, slots)));
    assert!(refused(1, GOOD), "no such message");
}
