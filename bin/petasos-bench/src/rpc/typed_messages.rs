//! The messages of typed calls and streams.

use bytes::Bytes;
use petasos::Msg;

pub mod generated {
    include!(concat!(env!("OUT_DIR"), "/petasos.bench.rs"));
}

use generated::Payload;

/// Up to this length, bytes are copied into messages.
const SHORT_BYTES: usize = 4096;

/// A message with the first `len` bytes of `bytes`; long ones are shared, not copied.
#[inline]
pub fn payload(wanted_bytes: u32, bytes: &Bytes, len: usize) -> Msg<Payload> {
    let mut payload = Payload::new();
    let mut edit = payload.edit();
    edit.set_wanted_bytes(wanted_bytes);
    if len < SHORT_BYTES {
        edit.set_data(&bytes[..len]);
    } else {
        edit.set_data(bytes.slice(..len));
    }
    payload
}
