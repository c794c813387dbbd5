//! Every kind of value in every place where it can be.

use petasos_message::{DecodeLimits, Input, Message, Msg, ROOM_BYTES, to_protobuf};

use crate::protos::packages;
use crate::protos::torture::implicit::{Colour, Implicit};
use crate::protos::torture::many::Many;
use crate::protos::torture::oneofs::Oneofs;
use crate::protos::torture::oneofs::oneofs::nested::Deep;
use crate::protos::torture::oneofs::oneofs::{Any, Number, Number_};
use crate::protos::torture::optional::{Empty, Optional};

/// Sends a message in both encodings: what arrives equals it.
fn assert_it_travels<T: Message>(message: &Msg<T>) {
    let sent = to_protobuf(&***message, 0).expect("it is small").into_buf();
    let limits = DecodeLimits::for_input(sent.as_slice().len());
    let decoded = Msg::<T>::from_protobuf(Input::Borrowed(sent.as_slice()), &limits);
    assert_eq!(decoded.expect("it was just encoded"), *message);

    let sent = Msg::into_native(message.clone()).expect("it is small").into_buf();
    let image = ROOM_BYTES..sent.as_slice().len();
    assert_eq!(Msg::<T>::from_native(sent, image).expect("it was just encoded"), *message);
}

#[test]
fn fields_without_presence() {
    let mut message = Implicit::new();
    assert_eq!((message.a_double(), message.a_bool(), message.a_string()), (0.0, false, ""));
    let mut edit = message.edit();
    edit.set_a_double(1.5).set_a_float(-2.5).set_an_int32(i32::MIN).set_an_int64(i64::MIN);
    edit.set_a_uint32(u32::MAX).set_a_uint64(u64::MAX).set_a_sint32(-3).set_a_sint64(-4);
    edit.set_a_fixed32(5).set_a_fixed64(6).set_an_sfixed32(-7).set_an_sfixed64(-8);
    edit.set_a_bool(true).set_a_string(String::from("text")).set_some_bytes(b"bytes");
    edit.set_colour(Colour::COLOUR_2);
    assert_eq!((message.a_double(), message.a_float()), (1.5, -2.5));
    assert_eq!((message.an_int32(), message.an_int64()), (i32::MIN, i64::MIN));
    assert_eq!((message.a_uint32(), message.a_uint64()), (u32::MAX, u64::MAX));
    assert_eq!((message.a_sint32(), message.a_sint64()), (-3, -4));
    assert_eq!((message.a_fixed32(), message.a_fixed64()), (5, 6));
    assert_eq!((message.an_sfixed32(), message.an_sfixed64()), (-7, -8));
    assert_eq!((message.a_bool(), message.a_string()), (true, "text"));
    assert_eq!((message.some_bytes(), message.colour()), (&b"bytes"[..], Colour(2)));
    assert_it_travels(&message);
}

#[test]
fn aliases_and_prefixes_of_enums() {
    assert_eq!(Colour::CRIMSON, Colour::RED);
    assert_eq!(Colour::CRIMSON.name(), Some("COLOUR_RED"), "the first of two names");
    assert_ne!(Colour::COLOUR_BLUE, Colour::BLUE);
    assert_eq!((Colour::BLUE.0, Colour::GREEN.0), (i32::MIN, i32::MAX));
}

#[test]
fn fields_with_presence() {
    let mut message = Optional::new();
    assert_eq!((message.a_double(), message.a_string(), message.again()), (None, None, None));
    let mut edit = message.edit();
    edit.set_a_double(0.0).set_a_float(0.0).set_an_int32(0).set_a_uint64(0).set_a_bool(false);
    edit.set_a_string("").set_some_bytes(&[]).set_colour(Colour(0)).set_empty(&Empty::new());
    edit.again_mut().again_mut().set_an_int32(9);
    assert_eq!((message.a_double(), message.a_float()), (Some(0.0), Some(0.0)));
    assert_eq!((message.an_int32(), message.a_uint64()), (Some(0), Some(0)));
    assert_eq!((message.a_bool(), message.a_string()), (Some(false), Some("")));
    assert_eq!((message.some_bytes(), message.colour()), (Some(&[][..]), Some(Colour(0))));
    assert!(message.has_empty() && message.has_some_bytes() && message.has_again());
    let inner = message.again().and_then(|again| again.again());
    assert_eq!(inner.and_then(|inner| inner.an_int32()), Some(9));
    assert_it_travels(&message);

    let mut edit = message.edit();
    edit.clear_a_double().clear_a_float().clear_an_int32().clear_a_uint64().clear_a_bool();
    edit.clear_a_string().clear_some_bytes().clear_colour().clear_again().clear_empty();
    assert!(message == Optional::new());
}

#[test]
fn lists() {
    let mut message = Many::new();
    let mut edit = message.edit();
    edit.doubles_mut().push(1.0).push(2.0);
    edit.floats_mut().extend([3.0]);
    edit.int32s_mut().push(-1);
    edit.int64s_mut().push(-2);
    edit.uint32s_mut().push(1);
    edit.uint64s_mut().push(2);
    edit.bools_mut().push(true).push(false);
    edit.strings_mut().push("a").push(String::from("b"));
    edit.blobs_mut().push(b"c").push(vec![1, 2]);
    edit.colours_mut().push(Colour::RED);
    edit.manies_mut().add().manies_mut().add().strings_mut().push("deep");
    assert_eq!((message.doubles(), message.floats()), (&[1.0, 2.0][..], &[3.0][..]));
    assert_eq!((message.int32s(), message.int64s()), (&[-1][..], &[-2][..]));
    assert_eq!((message.uint32s(), message.uint64s()), (&[1][..], &[2][..]));
    assert_eq!((message.bools(), message.colours()), (&[true, false][..], &[Colour::RED][..]));
    assert!(message.strings().iter().map(|text| &**text).eq(["a", "b"]));
    assert!(message.blobs().iter().map(|blob| &**blob).eq([&b"c"[..], &[1, 2]]));
    assert_eq!(&*message.manies()[0].manies()[0].strings()[0], "deep");
    assert_it_travels(&message);
}

#[test]
fn maps() {
    let mut message = Many::new();
    let mut edit = message.edit();
    edit.int32_to_double_mut().insert(-1, 1.0);
    edit.int64_to_float_mut().insert(-2, 2.0);
    edit.uint32_to_int32_mut().insert(3, -3);
    edit.uint64_to_int64_mut().insert(4, -4);
    edit.sint32_to_uint32_mut().insert(-5, 5);
    edit.sint64_to_uint64_mut().insert(-6, 6);
    edit.fixed32_to_bool_mut().insert(7, true);
    edit.fixed64_to_string_mut().insert(8, "eight");
    edit.sfixed32_to_bytes_mut().insert(-9, b"nine".into());
    edit.sfixed64_to_colour_mut().insert(-10, Colour::BLUE);
    edit.bool_to_empty_mut().insert(true, &Empty::new());
    edit.string_to_many_mut().at("twelve").strings_mut().push("within");
    assert_eq!(message.int32_to_double().get(-1), Some(&1.0));
    assert_eq!(message.int64_to_float().get(-2), Some(&2.0));
    assert_eq!(message.uint32_to_int32().get(3), Some(&-3));
    assert_eq!(message.uint64_to_int64().get(4), Some(&-4));
    assert_eq!(message.sint32_to_uint32().get(-5), Some(&5));
    assert_eq!(message.sint64_to_uint64().get(-6), Some(&6));
    assert_eq!(message.fixed32_to_bool().get(7), Some(&true));
    assert_eq!(message.fixed64_to_string().get(8).map(|text| &**text), Some("eight"));
    assert_eq!(message.sfixed32_to_bytes().get(-9).map(|blob| &**blob), Some(&b"nine"[..]));
    assert_eq!(message.sfixed64_to_colour().get(-10), Some(&Colour::BLUE));
    assert!(message.bool_to_empty().contains_key(true));
    let within = message.string_to_many().get("twelve").map(|many| &*many.strings()[0]);
    assert_eq!(within, Some("within"));
    assert_it_travels(&message);
}

#[test]
fn oneofs() {
    let mut message = Oneofs::new();
    assert_eq!((message.any(), message.number()), (None, None));
    let mut set = |change: &dyn Fn(&mut crate::protos::torture::oneofs::OneofsMut<'_>)| {
        change(&mut message.edit());
        assert_it_travels(&message);
        message.clone()
    };
    assert_eq!(set(&|m| _ = m.set_a_double(1.0)).any(), Some(Any::ADouble(1.0)));
    assert_eq!(set(&|m| _ = m.set_a_float(2.0)).any(), Some(Any::AFloat(2.0)));
    assert_eq!(set(&|m| _ = m.set_an_int32(-3)).any(), Some(Any::AnInt32(-3)));
    assert_eq!(set(&|m| _ = m.set_an_int64(-4)).any(), Some(Any::AnInt64(-4)));
    assert_eq!(set(&|m| _ = m.set_a_uint32(5)).any(), Some(Any::AUint32(5)));
    assert_eq!(set(&|m| _ = m.set_a_uint64(6)).any(), Some(Any::AUint64(6)));
    assert_eq!(set(&|m| _ = m.set_a_bool(true)).any(), Some(Any::ABool(true)));
    assert_eq!(set(&|m| _ = m.set_a_string("8")).any(), Some(Any::AString("8")));
    assert_eq!(set(&|m| _ = m.set_some_bytes(b"9")).any(), Some(Any::SomeBytes(b"9")));
    assert_eq!(set(&|m| _ = m.set_colour(Colour::RED)).any(), Some(Any::Colour(Colour::RED)));
    assert_eq!(set(&|m| _ = m.set_again(&Oneofs::new())).any(), Some(Any::Again(&Oneofs::new())));
    let nested = set(&|m| _ = m.nested_mut().set_deep(Deep::BOTTOM).number_mut().set_value(7));
    let Some(Any::Nested(nested)) = nested.any() else { panic!("a message was set") };
    assert_eq!((nested.deep(), nested.number().map(Number::value)), (Deep::BOTTOM, Some(7)));
    assert_eq!(set(&|m| _ = m.set_large(1).clear_any()).number(), Some(Number_::Large(1)));
    assert_eq!(set(&|m| _ = m.set_small(0)).number(), Some(Number_::Small(0)));
    assert_eq!(set(&|_| ()).any(), None);
}

#[test]
fn messages_of_other_packages() {
    use packages::bare::Choice;
    use packages::torture::type_::async_;
    let mut bare = packages::Bare::new();
    bare.edit().inner_mut().deepest_mut().set_level(async_::deepest::Level::LOW).empty_mut();
    bare.edit().inner_mut().deepests_mut().at(1).set_level(async_::deepest::Level(5));
    bare.edit().set_level(async_::deepest::Level(2));
    let inner = bare.inner().expect("it was made");
    assert!(inner.deepest().is_some_and(|deepest| deepest.has_empty()));
    assert_eq!(inner.deepests().get(1).map(|deepest| deepest.level().0), Some(5));
    assert_eq!(bare.choice(), Some(Choice::Level(async_::deepest::Level(2))));
    let mut choosy = packages::torture::type_::Async::new();
    choosy.edit().inner_mut();
    let choice = choosy.choice();
    assert!(matches!(choice, Some(packages::torture::type_::async__::Choice::Inner(_))));
}

#[test]
fn well_known_types_are_the_runtimes() {
    use crate::protos::torture::well_known::{WellKnown, well_known::Choice};
    use petasos_message::well_known::{NullValue, Timestamp, value::Kind};
    let mut message = WellKnown::new();
    let epoch = std::time::SystemTime::UNIX_EPOCH;
    let mut edit = message.edit();
    edit.at_mut().set_system_time(epoch).expect("1970 is within range");
    edit.details_mut().add().set_type_url("type.googleapis.com/x").set_value(b"1");
    edit.labels_mut().at("l").struct_value_mut().fields_mut().at("f").set_number_value(2.0);
    edit.set_null(NullValue::NULL_VALUE);
    assert_eq!(message.at().map(Timestamp::to_system_time), Some(Ok(epoch)));
    assert_eq!(message.details()[0].value(), b"1");
    let Some(Kind::StructValue(within)) = message.labels().get("l").and_then(|l| l.kind()) else {
        panic!("a struct was made");
    };
    let number = within.fields().get("f").and_then(|value| value.kind());
    assert_eq!(number, Some(Kind::NumberValue(2.0)));
    assert_eq!(message.choice(), Some(Choice::Null(NullValue(0))));
    assert_it_travels(&message);
}
