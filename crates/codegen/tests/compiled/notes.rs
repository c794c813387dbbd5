//! The example of ADR 10, used as it is there.

use petasos_message::Msg;

use crate::protos::notes::note::Origin;
use crate::protos::notes::{Feature, Level, Note, Point};

#[test]
fn a_note_reads_as_it_was_written() {
    let mut received = Note::new();
    received.edit().features_mut().add().set_name("Patriots Path");

    let mut note = Note::new();
    note.edit().set_id("n-17").set_priority(3).set_body(vec![7; 10]).set_level(Level::HIGH);
    let mut edit = note.edit();
    edit.place_mut().set_latitude(409_146_138).set_longitude(-746_188_906);
    edit.features_mut().push(&received.features()[0]);
    edit.features_mut().add().set_name("Berkshire Valley").location_mut().set_latitude(1);
    edit.counters_mut().extend([("seen", 4), ("kept", 2)]);
    assert_eq!(edit.id(), "n-17", "a cursor reads as its message");

    assert_eq!((note.id(), note.priority(), note.has_priority()), ("n-17", Some(3), true));
    assert_eq!((note.body(), note.level()), (&[7; 10][..], Level::HIGH));
    let [first, second] = note.features() else { panic!("two features were added") };
    assert_eq!((first.name(), first.has_location()), ("Patriots Path", false));
    assert_eq!(second.location().map(Point::latitude), Some(1));
    assert_eq!(note.counters().get("seen"), Some(&4));
    assert_eq!(note.counters().values().sum::<i64>(), 6);
    let Some(Origin::Place(place)) = note.origin() else { panic!("a place was set") };
    assert_eq!((place.latitude(), place.longitude()), (409_146_138, -746_188_906));
}

#[test]
fn what_is_cleared_is_absent() {
    let mut note = Note::new();
    note.edit().set_priority(0).set_email("a@b");
    assert_eq!(note.priority(), Some(0), "zero is a value where there is presence");
    assert_eq!(note.origin(), Some(Origin::Email("a@b")));
    note.edit().clear_priority().clear_origin();
    assert_eq!((note.priority(), note.origin()), (None, None));
    assert!(note == Note::new());

    let mut point = Point::new();
    point.edit().set_latitude(5);
    let mut feature = Feature::new();
    feature.edit().set_location(&point);
    assert_eq!(feature.location(), Some(&**point));
    feature.edit().clear_location();
    assert!(!feature.has_location());
}

#[test]
fn messages_are_copied_compared_and_shown() {
    let mut note = Note::new();
    note.edit().set_id("x").set_place(&Point::new());
    let copy: Msg<Note> = note.clone();
    assert!(copy == note && **copy == **note);
    note.edit().set_email("another member replaces it");
    assert!(copy != note);
    assert!(format!("{note:?}").contains("another member"));
}

#[test]
fn enums_are_open() {
    assert_eq!((Level::HIGH.0, Level::HIGH.name()), (1, Some("HIGH")));
    assert_eq!(
        (format!("{:?}", Level::LOW), format!("{:?}", Level(7))),
        ("LOW".into(), "7".into())
    );
    assert_eq!(Level::default(), Level::LOW);
    let mut note = Note::new();
    note.edit().set_level(Level(-9));
    assert_eq!(note.level(), Level(-9));
}
