//! Names that Rust, its prelude or generated code have other uses for.

use petasos_message::{Message, Msg, Reflect};

use crate::protos::torture::fields::{Fields, fields::Match};
use crate::protos::torture::{prelude, traits, types};

#[test]
fn keywords_and_names_of_other_methods() {
    let mut message = Fields::new();
    let mut edit = message.edit();
    edit.set_new("new").set_edit("edit").set_self("self").set_type("type");
    edit.async_mut().set_unknown(1).set_presence(2).set_reserved(3);
    edit.set_clone(4).set_plan(5).set_deref(6).set_eq(7).set_fmt(8);
    edit.set_message(9).set_value(10).set_arena(11).set_foo_bar(12).set_parts(13).set_1(14);
    edit.set_http_port(15).set_loop(16);
    assert_eq!((message.new_(), message.self_(), message.type_()), ("new", "self", Some("type")));
    assert_eq!((*message).edit(), "edit", "the owner has a method of this name");
    let inner = message.async_().expect("it was made");
    assert_eq!((inner.unknown(), inner.presence(), inner.reserved()), (1, 2, 3));
    let fields: &Fields = &message;
    assert_eq!((fields.clone(), fields.plan(), fields.deref()), (4, 5, 6));
    assert_eq!((fields.eq(), fields.fmt(), fields.message(), fields.value()), (7, 8, 9, 10));
    assert_eq!((fields.arena(), fields.foo_bar(), fields.parts(), fields._1()), (11, 12, 13, 14));
    assert_eq!((fields.http_port(), fields.match_()), (15, Some(Match::Loop(16))));
    assert!(message.clone() == message, "a copy of the owner");
}

/// `x` has `x_mut`, `set_x` and `has_x`, so fields of these names step back.
#[test]
fn fields_that_are_called_like_methods_of_others() {
    let mut message = Fields::new();
    let mut edit = message.edit();
    edit.x_mut().set_self("inner");
    edit.set_x_mut_(1).set_set_x_(2).set_has_set_x(3);
    assert_eq!(message.x().map(|x| x.self_()), Some("inner"));
    assert_eq!((message.x_mut_(), message.set_x_(), message.has_set_x()), (1, Some(2), 3));
    assert!(message.has_set_x_());
}

#[test]
fn types_of_the_prelude() {
    let mut option = prelude::Option::new();
    option.edit().option_mut().set_some(1);
    assert_eq!(option.option().and_then(prelude::Option::some), Some(1));
    let mut vec = prelude::Vec::new();
    vec.edit().vec_mut().add().boxes_mut().at("box");
    assert_eq!(vec.vec()[0].boxes().len(), 1);
    let mut string = prelude::String::new();
    string.edit().set_str("text").set_bytes(b"bytes");
    assert_eq!((string.str(), string.bytes()), ("text", &b"bytes"[..]));
    let mut result = prelude::Result::new();
    result.edit().self_mut();
    assert!(matches!(result.result(), Some(prelude::result::Result::Self_(_))));
    let mut default = traits::Default::new();
    default.edit().none_mut();
    default.edit().set_eq(traits::Eq::NONE);
    assert!(default.has_none() && (*default).eq() == traits::Eq(1));
}

#[test]
fn types_that_share_a_name_in_rust() {
    assert_eq!(full_name(types::SnakeCase::new()), "torture.types.SnakeCase");
    assert_eq!(full_name(types::SnakeCase_::new()), "torture.types.snake_case");
    assert_eq!(full_name(types::Rt::new()), "torture.types.Rt");
    assert_eq!(full_name(types::Rt_::new()), "torture.types.rt");
    assert_eq!(full_name(types::NoteMut::new()), "torture.types.NoteMut");
    let _: fn(&mut Msg<types::Note>) -> types::NoteMut_<'_> = |note| note.edit();
    let mut outer = types::Core::new();
    outer.edit().std_mut().set_i32(3);
    assert_eq!(outer.std().map(types::core::I32::i32), Some(3));
}

fn full_name<T: Message>(message: Msg<T>) -> String {
    Reflect::of(&**message).message().full_name().to_owned()
}
