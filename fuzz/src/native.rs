//! Native images, as they come in packets and as they lie in memory of others (M19 to M27).
//!
//! What is accepted can be read, copied, compared, edited and encoded in every way, and what
//! compaction makes of any memory is accepted.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use petasos_buf::MsgBuf;
use petasos_message::well_known::Value;
use petasos_message::{
    FieldPath, Leaf, Message, Msg, NativeMsg, Outside, ROOM_BYTES, Reflect, Segment, Source,
    ToJson, Types, compact, to_protobuf, validate, view_native,
};
use petasos_schema::Schema;

use crate::types::{self, Choice, Lists, Maps, Single};
use crate::{Input, Seed};

/// A byte for the type and one for the address, then the image.
pub fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let (kind, shift, image) = (input.u8() % 5, usize::from(input.u8() % 8), input.rest());
    match kind {
        0 => judge::<Single>(image, shift),
        1 => judge::<Lists>(image, shift),
        2 => judge::<Maps>(image, shift),
        3 => judge::<Choice>(image, shift),
        _ => judge::<Value>(image, shift),
    }
}

fn judge<T: Message>(image: &[u8], shift: usize) {
    let accepted = validate(T::plan(), image).is_ok();
    let mut buf = MsgBuf::new(shift + image.len());
    buf.as_mut_slice()[shift..].copy_from_slice(image);
    let viewed = view_native::<T>(&buf.as_slice()[shift..]).map(|message| format!("{message:?}"));
    assert!(accepted || viewed.is_err(), "viewed, but not accepted");
    let copied = Msg::<T>::copy_native(image);
    assert_eq!(copied.is_ok(), accepted);
    let received = Msg::<T>::from_native(buf, shift..shift + image.len());
    assert_eq!(received.is_ok(), accepted);
    if let Ok(received) = received {
        set_fields(&**received, image);
        use_up(received, viewed.ok());
    }
    compaction::<T>(image, accepted);
}

/// The same message, known by its schema only: each of its fields is set, and what comes of that is
/// accepted again.
fn set_fields<T: Message>(message: &T, image: &[u8]) {
    let reflect = Reflect::of(message);
    let types = types_of(reflect.schema());
    let name = reflect.message().full_name();
    let (id, declaration) = types.schema().message_by_name(name).expect("a copy of the schema");
    let mut native = NativeMsg::received(&types, id, image).expect("it was accepted");
    for field in declaration.fields() {
        let Ok(path) = FieldPath::new(&types, id, field.name()) else { continue };
        let values = [Leaf::Bool(true), Leaf::Signed(-1), Leaf::Unsigned(7), Leaf::Float(0.5)];
        for value in values.into_iter().chain([Leaf::Text("text"), Leaf::Bytes(&[0xff; 9])]) {
            let is_set = native.set(&path, value).is_ok();
            assert!(!is_set || native.get(&path).is_some());
        }
    }
    assert_eq!(validate(types.plan(id), native.image()), Ok(()), "what was set is accepted");
}

/// A schema's types, made once.
fn types_of(schema: &Schema) -> Arc<Types> {
    thread_local! {
        static KNOWN: RefCell<HashMap<[u8; 16], Arc<Types>>> = RefCell::default();
    }
    KNOWN.with_borrow_mut(|known| {
        let make = || {
            let copy = Schema::decode(&schema.encode(), &Default::default());
            Types::new(copy.expect("it was encoded")).expect("it has plans")
        };
        known.entry(schema.hash().to_bytes()).or_insert_with(make).clone()
    })
}

/// Reads all of a message, and sends it on in each form.
fn use_up<T: Message>(message: Msg<T>, viewed: Option<String>) {
    let text = format!("{:?}", **message);
    assert!(viewed.is_none_or(|viewed| viewed == text));
    let copy = message.clone();
    let _ = copy == message;
    let _ = Msg::to_json(&message, &ToJson::default());
    if let Ok(encoded) = to_protobuf(&**message, 0) {
        drop(encoded.into_buf());
    }
    let image = Msg::into_native(copy).expect("what was accepted is within the limits");
    let buf = image.into_buf();
    let again = Msg::<T>::from_native(buf.clone_bytes(), ROOM_BYTES..buf.len());
    assert_eq!(format!("{:?}", **again.expect("an image of ours")), text);
}

/// A copy of a buffer in one piece.
trait CloneBytes {
    fn clone_bytes(&self) -> MsgBuf;
}

impl CloneBytes for MsgBuf {
    fn clone_bytes(&self) -> MsgBuf {
        let mut copy = MsgBuf::new(self.len());
        self.copy_range(0, copy.as_mut_slice());
        copy
    }
}

/// The image as memory of somebody else.
struct Region<'a>(&'a [u8]);

const BASE: u64 = 0x7000_0000_0000;

impl Region<'_> {
    fn range(&self, at: u64, bytes: usize) -> Result<&[u8], Outside> {
        let start = usize::try_from(at.wrapping_sub(BASE)).map_err(|_| Outside)?;
        let end = start.checked_add(bytes).ok_or(Outside)?;
        self.0.get(start..end).ok_or(Outside)
    }
}

impl Source for Region<'_> {
    fn copy(&self, at: u64, to: &mut [u8]) -> Result<(), Outside> {
        to.copy_from_slice(self.range(at, to.len())?);
        Ok(())
    }

    fn segment(&self, at: u64, bytes: u32) -> Result<Option<Segment>, Outside> {
        let bytes = self.range(at, bytes as usize)?;
        Ok(Some(Segment::Owned(Bytes::copy_from_slice(bytes))))
    }
}

fn compaction<T: Message>(image: &[u8], accepted: bool) {
    match compact(T::plan(), &Region(image), BASE + 8) {
        Ok(copy) => {
            let buf = copy.into_buf().clone_bytes();
            let copy = &buf.as_slice()[ROOM_BYTES..];
            assert_eq!(validate(T::plan(), copy), Ok(()), "what is made is accepted");
        }
        Err(error) => assert!(!accepted, "accepted, so it should be copied: {error}"),
    }
}

/// An image of each type.
pub fn seeds() -> Vec<Seed> {
    let (single, lists, maps, choice) = types::filled();
    vec![
        ("single", image(0, single)),
        ("lists", image(1, lists)),
        ("maps", image(2, maps)),
        ("choice", image(3, choice)),
        ("value", image(4, types::value())),
        ("empty", image(0, Single::new())),
    ]
}

fn image<T: Message>(kind: u8, message: Msg<T>) -> Vec<u8> {
    let buf = Msg::into_native(message).expect("it is small").into_buf().clone_bytes();
    [&[kind, 0][..], &buf.as_slice()[ROOM_BYTES..]].concat()
}
