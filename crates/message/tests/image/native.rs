//! Messages that are known by their schema only: fields by path, read and set.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use petasos_base::Rng;
use petasos_buf::MsgBuf;
use petasos_message::{
    CompactError, DecodeError, DecodeLimits, DynamicMsg, FieldPath, Input, Leaf, NativeMsg,
    PathError, ROOM_BYTES, Reflect, SetError, Types, Value, validate,
};
use petasos_schema::{Kind, Layouts, MessageId};

use crate::source::{BASE, Region, Restless};
use crate::{EVERYTHING, Fixture, common};

fn types(declarations: &str) -> (Arc<Types>, MessageId) {
    let schema = common::schema(declarations);
    let id = common::id(&schema, "M");
    (Types::new(schema).unwrap(), id)
}

fn received(types: &Arc<Types>, id: MessageId, image: &[u8]) -> NativeMsg {
    NativeMsg::received(types, id, image).unwrap()
}

/// All that is present, field by field. Floats by their bits, since NaN is unequal to itself.
fn dump(message: Reflect<'_>) -> BTreeMap<u32, String> {
    message.fields().map(|(field, value)| (field.number(), text(value))).collect()
}

fn text(value: Value<'_>) -> String {
    match value {
        Value::Bool(value) => format!("{value}"),
        Value::I32(value) | Value::Enum(_, value) => format!("{value}"),
        Value::I64(value) => format!("{value}"),
        Value::U32(value) => format!("{value}"),
        Value::U64(value) => format!("{value}"),
        Value::F32(value) => format!("f{:x}", value.to_bits()),
        Value::F64(value) => format!("f{:x}", value.to_bits()),
        Value::String(value) => format!("{value:?}"),
        Value::Bytes(value) => format!("{value:?}"),
        Value::Message(value) => {
            let fields = dump(value).into_iter().map(|(number, value)| format!("{number}={value}"));
            format!("{{{}}}", fields.collect::<Vec<_>>().join(","))
        }
        Value::List(list) => format!("[{}]", list.iter().map(text).collect::<Vec<_>>().join(",")),
        Value::Map(map) => {
            let entries = map.iter().map(|(key, value)| text(key) + ":" + &text(value));
            format!("[{}]", entries.collect::<Vec<_>>().join(","))
        }
    }
}

/// A random value for a kind, as it is set and as it reads.
fn leaf(kind: Kind, rng: &mut Rng) -> (Leaf<'static>, String) {
    const TEXTS: [&str; 4] = ["", "a", "eight chars and more", "ä"];
    let text = TEXTS[rng.below(4) as usize];
    let number = rng.next_u64();
    match kind {
        Kind::Bool => (Leaf::Bool(number & 1 == 0), format!("{}", number & 1 == 0)),
        Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 | Kind::Enum(_) => {
            let number = number as i32;
            (Leaf::Signed(number.into()), number.to_string())
        }
        Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => {
            (Leaf::Signed(number as i64), (number as i64).to_string())
        }
        Kind::Uint32 | Kind::Fixed32 => {
            (Leaf::Unsigned(u64::from(number as u32)), (number as u32).to_string())
        }
        Kind::Uint64 | Kind::Fixed64 => (Leaf::Unsigned(number), number.to_string()),
        Kind::Float => (Leaf::Float(1.5), format!("f{:x}", 1.5f32.to_bits())),
        Kind::Double => (Leaf::Float(0.1), format!("f{:x}", 0.1f64.to_bits())),
        Kind::String => (Leaf::Text(text), format!("{text:?}")),
        Kind::Bytes => (Leaf::Bytes(text.as_bytes()), format!("{:?}", text.as_bytes())),
        Kind::Message(_) => unreachable!("no value"),
    }
}

/// Fields of [`EVERYTHING`] with one value.
const PATHS: [&str; 17] = [
    "text", "blob", "flag", "number", "real", "level", "a", "c", "d", "e", "maybe", "some", "more",
    "perhaps", "few", "next.n", "next.m",
];

#[test]
fn m14_m20_m26_any_field_can_be_set_and_no_other_changes() {
    let (types, id) = types(EVERYTHING);
    let fixture = Fixture::new(EVERYTHING);
    let mut set = 0;
    for seed in 0..60 {
        let mut rng = Rng::new(seed);
        let mut message = received(&types, id, &fixture.random(seed));
        for _ in 0..20 {
            let name = PATHS[rng.below(PATHS.len() as u64) as usize];
            let path = FieldPath::new(&types, id, name).unwrap();
            let (value, expected) = leaf(path.kind(), &mut rng);
            let before = dump(message.reflect());
            match message.set(&path, value) {
                Ok(()) => set += 1,
                Err(error) => {
                    assert_eq!(error, SetError::Absent, "{name}");
                    assert_eq!(dump(message.reflect()), before);
                    continue;
                }
            }
            assert_eq!(validate(types.plan(id), message.image()), Ok(()), "seed {seed}, {name}");
            assert_eq!(message.get(&path).map(text), Some(expected), "seed {seed}, {name}");
            let after = dump(message.reflect());
            let mine = types.schema().message(id).field_by_name(name.split('.').next().unwrap());
            let is_mine = |number: u32| {
                let field = types.schema().message(id).field(number).unwrap();
                let mine = mine.unwrap();
                number == mine.number() || mine.oneof().is_some() && field.oneof() == mine.oneof()
            };
            let others = |dump: BTreeMap<u32, String>| {
                dump.into_iter().filter(|(number, _)| !is_mine(*number)).collect::<Vec<_>>()
            };
            assert_eq!(others(before), others(after), "seed {seed}, {name}");
        }
    }
    assert!(set > 800, "{set}");
}

/// An image between the head of its call and metadata, as it is received.
fn in_frame(image: &[u8]) -> (MsgBuf, Range<usize>) {
    let frame = [&[0xff; 8], image, &[0xee; 13]].concat();
    (MsgBuf::from_slice(&frame), 8..8 + image.len())
}

#[test]
fn m26_a_received_image_stays_where_it_is() {
    let (types, id) = types(EVERYTHING);
    let fixture = Fixture::new(EVERYTHING);
    for seed in 0..60 {
        let image = fixture.random(seed);
        let (buf, range) = in_frame(&image);
        let at = buf[range.start..].as_ptr();
        let kept = NativeMsg::received_in(&types, id, buf, range).unwrap();
        assert_eq!((kept.image().as_ptr(), kept.image()), (at, &image[..]));
        let copied = received(&types, id, &image);
        assert_eq!(dump(kept.reflect()), dump(copied.reflect()));
        // By another schema of the same meaning, changed, and sent on.
        let again = Types::new(types.schema().clone()).unwrap();
        let mut kept = kept.retyped(&again, id).unwrap();
        let path = FieldPath::new(&again, id, "text").unwrap();
        kept.set(&path, Leaf::Text("a text that is longer than what was there before")).unwrap();
        assert_eq!(validate(types.plan(id), kept.image()), Ok(()));
        let changed = kept.image().to_vec();
        assert_eq!(kept.into_buf()[ROOM_BYTES..], changed);
        let (buf, range) = in_frame(&image);
        let unchanged = NativeMsg::received_in(&types, id, buf, range).unwrap().into_buf();
        assert_eq!(unchanged[ROOM_BYTES..], image);
    }
    // No message has kept its types, and none has let go of them twice.
    assert_eq!(Arc::strong_count(&types), 1);
}

#[test]
fn m26_what_is_received_is_checked_wherever_it_is() {
    let (types, id) = types(EVERYTHING);
    let whole = Fixture::new(EVERYTHING).random(7);
    for end in 0..whole.len() {
        let (buf, range) = in_frame(&whole[..end]);
        assert!(NativeMsg::received_in(&types, id, buf, range).is_err(), "{end} bytes");
    }
    let elsewhere = [&[0; 16], &whole[..]].concat();
    let (buf, end) = (MsgBuf::from_slice(&elsewhere), elsewhere.len());
    let copied = NativeMsg::received_in(&types, id, buf, 16..end).unwrap();
    assert_eq!(copied.image(), whole);
    assert_eq!(Arc::strong_count(&types), 2);
    drop(copied);
    assert_eq!(Arc::strong_count(&types), 1);
}

#[test]
fn m14_an_object_with_two_pointers_is_divided_before_it_is_written() {
    let declarations = "message M { N a = 1; N b = 2; } message N { string s = 1; int32 n = 2; }";
    let (types, id) = types(declarations);
    let layouts = Layouts::of(types.schema());
    let fields = &layouts.message(id).fields;
    let n = layouts.message(common::id(types.schema(), "N")).bytes as usize;
    let root = layouts.message(id).bytes as usize;
    let mut image = vec![0; 8 + root + n];
    let bytes = image.len() as u32;
    image[..4].copy_from_slice(&bytes.to_le_bytes());
    image[4] = 1;
    for field in fields {
        let at = 8 + field.offset as usize;
        image[at..at + 8].copy_from_slice(&((8 + root - at) as u64).to_le_bytes());
    }
    let path = |name: &str| FieldPath::new(&types, id, name).unwrap();
    // The budget of M26 pays for each visit: a gap makes room for the second.
    let mut image = [image, vec![0; n]].concat();
    let bytes = image.len() as u32;
    image[..4].copy_from_slice(&bytes.to_le_bytes());
    let mut message = received(&types, id, &image);
    message.set(&path("a.n"), Leaf::Signed(7)).unwrap();
    message.set(&path("b.s"), Leaf::Text("b")).unwrap();
    let read = |name: &str| message.get(&path(name)).map(text).unwrap();
    assert_eq!([read("a.n"), read("b.n"), read("a.s"), read("b.s")], ["7", "0", "\"\"", "\"b\""]);
}

#[test]
fn m23_what_changes_while_it_is_copied_is_refused_or_valid() {
    let (types, id) = types(EVERYTHING);
    let fixture = Fixture::new(EVERYTHING);
    // Of an image with its exact length, and of a struct.
    for is_exact in [true, false] {
        let (mut copied, mut refused) = (0, 0);
        for seed in 0..500 {
            let image = fixture.random(seed);
            let rng = Rng::new(seed).into();
            let source = Restless { region: Region(&image), rng };
            let bytes_max = if is_exact { image.len() } else { 1 << 20 };
            match NativeMsg::copied(&types, id, &source, BASE + 8, bytes_max) {
                Ok(message) => {
                    assert_eq!(validate(types.plan(id), message.image()), Ok(()));
                    copied += 1;
                }
                Err(_) => refused += 1,
            }
        }
        assert!(copied > 10 && refused > 10, "{copied} {refused}");
    }
}

#[test]
fn m23_an_image_is_copied_as_a_whole_and_what_only_looks_like_one_is_not() {
    let (types, id) = types(EVERYTHING);
    let fixture = Fixture::new(EVERYTHING);
    let copy = |region: &[u8], max| NativeMsg::copied(&types, id, &Region(region), BASE + 8, max);
    let (long, mut outside) = ("long ".repeat(10_000), 0);
    for (seed, is_long) in (0..100).zip([false, true].into_iter().cycle()) {
        let mut whole = received(&types, id, &fixture.random(seed));
        if is_long {
            whole.set(&FieldPath::new(&types, id, "text").unwrap(), Leaf::Text(&long)).unwrap();
        }
        let image = whole.image();
        assert_eq!(copy(image, image.len()).unwrap().image(), image, "{seed}");
        // Other lengths, another header: its objects are followed.
        let mut other = image.to_vec();
        other[4] = 9;
        for (region, max) in [(&other[..], image.len()), (image, image.len() + 8)] {
            let followed = copy(region, max).unwrap();
            assert_eq!(dump(followed.reflect()), dump(whole.reflect()), "{seed}");
        }
        // An image that says more than is there: most often something points to that.
        match copy(&image[..image.len() - 8], image.len()) {
            Ok(followed) => assert_eq!(dump(followed.reflect()), dump(whole.reflect()), "{seed}"),
            Err(error) => {
                assert!(matches!(error, CompactError::Outside(_)), "{seed}: {error}");
                outside += 1;
            }
        }
    }
    assert!(outside > 50, "{outside}");
}

#[test]
fn m23_the_walk_stops_at_its_budget() {
    let (types, id) = types(EVERYTHING);
    let image = Fixture::new(EVERYTHING).random(1);
    let copy = |max| NativeMsg::copied(&types, id, &Region(&image), BASE + 8, max);
    let whole = copy(usize::MAX).unwrap().image().len();
    assert_eq!(copy(whole).unwrap().image().len(), whole);
    for max in [whole - 8, 64, 8, 7, 0] {
        assert!(matches!(copy(max), Err(CompactError::TooLarge)), "{max}");
    }
}

#[test]
fn native_messages_encode_as_protobuf() {
    let (types, id) = types(EVERYTHING);
    let mut message = NativeMsg::empty(&types, id);
    assert_eq!(validate(types.plan(id), message.image()), Ok(()));
    assert!(message.to_protobuf(0).unwrap().into_buf().is_empty());
    for (name, value) in [("number", Leaf::Signed(-1)), ("text", Leaf::Text("hi"))] {
        message.set(&FieldPath::new(&types, id, name).unwrap(), value).unwrap();
    }
    let bytes = message.to_protobuf(0).unwrap().into_buf();
    assert_eq!(bytes.as_slice(), [0x0a, 2, b'h', b'i', 0x28, 1]);
    let limits = DecodeLimits::for_input(bytes.len());
    let again = DynamicMsg::from_protobuf(types.plan(id), Input::Borrowed(&bytes), &limits);
    assert_eq!(again.unwrap().to_protobuf(0).unwrap().into_buf().as_slice(), bytes.as_slice());
}

#[test]
fn m28_a_message_from_protobuf_is_an_image_of_its_own_within_its_limit() {
    let (types, id) = types(EVERYTHING);
    let mut message = NativeMsg::empty(&types, id);
    let long = "long ".repeat(10_000);
    message.set(&FieldPath::new(&types, id, "text").unwrap(), Leaf::Text(&long)).unwrap();
    let bytes = message.to_protobuf(0).unwrap().into_buf();
    let decode = |bytes: &[u8], max| {
        let limits = DecodeLimits::for_input(bytes.len());
        NativeMsg::from_protobuf(&types, id, Input::Borrowed(bytes), &limits, max)
    };
    let again = decode(&bytes, 1 << 20).unwrap();
    assert_eq!(validate(types.plan(id), again.image()), Ok(()));
    assert_eq!(dump(again.reflect()), dump(message.reflect()));
    assert!(decode(&bytes, again.image().len()).is_ok());
    assert!(matches!(decode(&bytes, again.image().len() - 8), Err(DecodeError::TooLarge)));
    assert!(matches!(decode(&bytes[..100], 1 << 20), Err(DecodeError::Truncated)));
    assert!(decode(&[], 1 << 20).unwrap().to_protobuf(0).unwrap().into_buf().is_empty());
}

#[test]
fn paths_name_single_values_or_say_what_is_wrong() {
    let (types, id) = types(EVERYTHING);
    let path = |names: &str| FieldPath::new(&types, id, names);
    let name = |names: &str| path(names).unwrap().names(types.schema());
    assert_eq!(name("child.child.b.next.m"), "child.child.b.next.m");
    let error = |names: &str| path(names).unwrap_err().to_string();
    assert_eq!(error("nothing"), "`M` has no field `nothing`");
    assert_eq!(error("child."), "`M` has no field ``");
    assert_eq!(error("text.child"), "`text` of `M` is no message");
    assert_eq!(error("child.numbers"), "`numbers` of `M` is not a single value");
    assert_eq!(error("named"), "`named` of `M` is not a single value");
    assert!(matches!(path("child"), Err(PathError::NotSingle { .. })));
}

#[test]
fn m19_a_message_is_another_schemas_if_the_hashes_are_equal() {
    let (types, id) = types("message M { N n = 1; } message N { string text = 1; }");
    let (renamed, other) = self::types("message Z { string name = 1; } message M { Z z = 1; }");
    let (different, third) = self::types("message M { N n = 1; } message N { bytes text = 1; }");
    let message = NativeMsg::empty(&types, id).retyped(&renamed, other).unwrap();
    assert!(Arc::ptr_eq(message.types(), &renamed) && message.id() == other);
    assert!(message.retyped(&different, third).is_err());
}

#[test]
fn values_that_a_field_cannot_have_are_refused() {
    let (types, id) = types(EVERYTHING);
    let mut message = received(&types, id, &Fixture::new(EVERYTHING).random(3));
    let before = message.image().to_vec();
    for (name, value) in [
        ("text", Leaf::Bytes(b"x")),
        ("blob", Leaf::Text("x")),
        ("text", Leaf::Signed(1)),
        ("number", Leaf::Text("1")),
        ("number", Leaf::Signed(1 << 40)),
        ("level", Leaf::Unsigned(1)),
        ("flag", Leaf::Signed(1)),
        ("real", Leaf::Signed(1)),
    ] {
        let path = FieldPath::new(&types, id, name).unwrap();
        assert_eq!(message.set(&path, value), Err(SetError::Kind), "{name}");
    }
    let same = received(&types, id, &before);
    assert_eq!(dump(message.reflect()), dump(same.reflect()));
}

#[test]
fn m28_m32_protobuf_becomes_an_image_of_an_equal_message() {
    let (types, id) = types(EVERYTHING);
    let fixture = Fixture::new(EVERYTHING);
    let mut equal = 0;
    for seed in 0..200 {
        let message = received(&types, id, &fixture.random(seed));
        let encoded = message.to_protobuf(0).unwrap().into_buf();
        let limits = DecodeLimits::for_input(encoded.len());
        let input = Input::Borrowed(&encoded);
        // What a random image has as unknown fields need not be fields.
        let expected = DynamicMsg::from_protobuf(types.plan(id), input.clone(), &limits);
        match NativeMsg::from_protobuf(&types, id, input, &limits, usize::MAX) {
            Ok(decoded) => {
                assert_eq!(validate(types.plan(id), decoded.image()), Ok(()), "seed {seed}");
                assert_eq!(dump(decoded.reflect()), dump(message.reflect()), "seed {seed}");
                equal += 1;
            }
            Err(error) => assert_eq!(expected.unwrap_err(), error, "seed {seed}"),
        }
    }
    assert!(equal > 10, "{equal} of the messages can be decoded");
}

#[test]
fn m16_m22_an_image_shares_nothing_with_the_input() {
    let (types, id) = types(EVERYTHING);
    // Field 2 with 5,000 bytes, which a decoder keeps where they lie.
    let mut encoded = vec![0x12, 0x88, 0x27];
    encoded.resize(3 + 5000, 7);
    let input = Input::Owned(encoded.into());
    let limits = DecodeLimits::for_input(5003);
    let decoded = NativeMsg::from_protobuf(&types, id, input, &limits, usize::MAX).unwrap();
    assert_eq!(validate(types.plan(id), decoded.image()), Ok(()));
    let blob = FieldPath::new(&types, id, "blob").unwrap();
    assert_eq!(decoded.get(&blob).map(text), Some(format!("{:?}", [7; 5000])));
}

#[test]
fn m30_what_is_no_message_or_too_large_is_refused() {
    let (types, id) = types(EVERYTHING);
    let decode = |input: &[u8], limits: &DecodeLimits| {
        let decoded =
            NativeMsg::from_protobuf(&types, id, Input::Borrowed(input), limits, usize::MAX);
        decoded.map(|_| ()).unwrap_err()
    };
    let limits = DecodeLimits::for_input(16);
    assert_eq!(decode(&[0x0a, 5, b'a'], &limits), DecodeError::Truncated);
    assert_eq!(decode(&[0x0a, 1, 0xff], &limits), DecodeError::Utf8);
    let short = DecodeLimits { message_bytes_max: 2, ..limits };
    assert_eq!(decode(&[0x0a, 1, b'a'], &short), DecodeError::TooLarge);
    let little = DecodeLimits { memory_bytes_max: 64, ..limits };
    assert_eq!(decode(&[0x0a, 1, b'a'], &little), DecodeError::TooLarge);
}
