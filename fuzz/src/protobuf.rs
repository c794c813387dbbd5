//! Protobuf's encoding (M28 to M31).
//!
//! What is decoded is encoded to bytes that decode to the same again; owned input, whose long
//! fields are kept, gives what borrowed input gives.

use bytes::Bytes;
use petasos_message::well_known::Value;
use petasos_message::{DecodeLimits, Input as Encoded, Message, Msg, ToJson};

use crate::types::{self, Choice, Lists, Maps, Single};
use crate::{Input, Seed};

/// A byte for the type and one for the limit of memory, then the encoding.
pub fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let (kind, tight, encoded) = (input.u8() % 5, input.u8(), input.rest());
    let mut limits = DecodeLimits::for_input(encoded.len());
    if tight > 127 {
        limits.memory_bytes_max = usize::from(tight - 127) * 64;
    }
    match kind {
        0 => judge::<Single>(encoded, &limits),
        1 => judge::<Lists>(encoded, &limits),
        2 => judge::<Maps>(encoded, &limits),
        3 => judge::<Choice>(encoded, &limits),
        _ => judge::<Value>(encoded, &limits),
    }
}

fn judge<T: Message>(encoded: &[u8], limits: &DecodeLimits) {
    let borrowed = Msg::<T>::from_protobuf(Encoded::Borrowed(encoded), limits);
    let kept = Bytes::copy_from_slice(encoded);
    let owned = Msg::<T>::from_protobuf(Encoded::Owned(kept), &DecodeLimits::for_input(1 << 20));
    let Ok(message) = borrowed else { return };
    let text = format!("{:?}", **message);
    let owned = owned.expect("wider limits take what narrow ones take");
    assert_eq!(format!("{:?}", **owned), text);
    let _ = Msg::to_json(&message, &ToJson::default());
    let mut ours = Vec::new();
    Msg::append_protobuf(&message, &mut ours).expect("what was decoded is within the limits");
    let wide = DecodeLimits::for_input(1 << 20);
    let again = Msg::<T>::from_protobuf(Encoded::Borrowed(&ours), &wide).expect("ours");
    assert_eq!(format!("{:?}", **again), text);
    let mut twice = Vec::new();
    Msg::append_protobuf(&again, &mut twice).expect("likewise");
    assert_eq!(twice, ours, "encoding is stable");
}

/// An encoding of each type.
pub fn seeds() -> Vec<Seed> {
    let (single, lists, maps, choice) = types::filled();
    vec![
        ("single", encoded(0, &single)),
        ("lists", encoded(1, &lists)),
        ("maps", encoded(2, &maps)),
        ("choice", encoded(3, &choice)),
        ("value", encoded(4, &types::value())),
        ("unknown", [&[3, 0][..], b"\xfa\x01\x03abc\xf8\x01\x07\xfb\x01\x08\x01\xfc\x01"].concat()),
    ]
}

fn encoded<T: Message>(kind: u8, message: &Msg<T>) -> Vec<u8> {
    let mut bytes = vec![kind, 0];
    Msg::append_protobuf(message, &mut bytes).expect("it is small");
    bytes
}
