//! The contents of messages. Every byte is determined by the call, so both ends can check them all.

use petasos_base::Rng;

/// Identifies a message of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Request,
    Response,
    Up(u32),
    Down(u32),
}

/// The body of a message.
pub(crate) fn body(call: u64, part: Part, bytes: usize) -> Vec<u8> {
    let salt = match part {
        Part::Request => 1 << 40,
        Part::Response => 2 << 40,
        Part::Up(index) => 3 << 40 | u64::from(index),
        Part::Down(index) => 4 << 40 | u64::from(index),
    };
    let mut rng = Rng::new(call ^ salt);
    let mut body: Vec<u8> =
        (0..bytes.div_ceil(8)).flat_map(|_| rng.next_u64().to_le_bytes()).collect();
    body.truncate(bytes);
    body
}

/// Whether `came` is exactly that message.
pub(crate) fn is_right(call: u64, part: Part, bytes: usize, came: &[u8]) -> bool {
    came == body(call, part, bytes)
}
