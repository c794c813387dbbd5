//! Setters of `Msg`, without `edit()`.

use std::borrow::BorrowMut as _;
use std::ops::DerefMut as _;

use petasos_message::{Message, Msg, ROOM_BYTES};

use crate::protos::notes::{Level, Note, Point, note::Origin};
use crate::protos::torture::fields::{Fields, Hidden};

#[test]
fn setters_write_what_those_of_the_cursor_write() {
    let mut place = Point::new();
    place.set_latitude(3).set_longitude(4);
    let mut note = Note::new();
    note.set_id("n-1").set_priority(2).set_level(Level::HIGH);
    note.set_body(vec![1, 2, 3]);
    note.features_mut().add().set_name("bridge").location_mut().set_latitude(7);
    note.counters_mut().insert("seen", 4);
    note.set_place(&place);

    let mut expected = Note::new();
    let mut edit = expected.edit();
    edit.set_id("n-1").set_priority(2).set_level(Level::HIGH).set_body(vec![1, 2, 3]);
    edit.features_mut().add().set_name("bridge").location_mut().set_latitude(7);
    edit.counters_mut().insert("seen", 4);
    edit.set_place(&place);
    assert_eq!(note, expected);

    assert_eq!(note.place_mut().longitude(), 4);
    note.clear_priority().clear_origin();
    assert!(!note.has_priority() && note.origin().is_none());
    note.set_email("me@example.org");
    assert_eq!(note.origin(), Some(Origin::Email("me@example.org")));
}

/// As `edit()` does: only a message that was built is written in place.
#[test]
fn a_received_message_is_copied_by_its_first_setter() {
    let mut sent = Note::new();
    sent.set_id("n-1").set_body(vec![7; 100]);
    let sent_image = Msg::into_native(sent.clone()).expect("it is small").into_buf();
    let image = ROOM_BYTES..sent_image.as_slice().len();
    let mut note = Msg::<Note>::from_native(sent_image, image).expect("it was just encoded");
    let body = note.body().as_ptr();
    note.set_id("n-2");
    assert_ne!(note.body().as_ptr(), body, "it is a copy");
    assert_eq!((note.id(), note.body()), ("n-2", sent.body()));
}

/// `x` has the setter `set_x`, and so the field `set_x` steps back, for readers and setters alike.
#[test]
fn fields_that_are_called_like_setters_step_back() {
    let mut message = Fields::new();
    message.x_mut().set_self("inner");
    message.set_x_mut_(1).set_set_x_(2).set_has_set_x(3);
    message.set_edit("the field").set_clone(5);
    assert_eq!((message.x_mut_(), message.set_x_(), message.has_set_x()), (1, Some(2), 3));
    assert_eq!(((*message).edit(), (*message).clone()), ("the field", 5));
    assert!(message.x().is_some_and(|x| x.self_() == "inner"));
}

/// With these traits in scope a `Msg` has methods of these names, which would hide the fields'.
#[test]
fn setters_that_a_trait_would_hide_are_left_to_the_cursor() {
    let mut message = Hidden::new();
    let owner: &mut Msg<Hidden> = message.borrow_mut();
    let owner: &mut <Hidden as Message>::Owner = owner.deref_mut();
    owner.set_borrow(&Hidden::new());
    message.edit().deref_mut().push(2);
    message.edit().borrow_mut().as_mut().push(1);
    let fields: &Hidden = &message;
    assert_eq!(fields.borrow().map(Hidden::as_), Some(&[1][..]));
    assert_eq!(fields.deref(), [2]);
}
