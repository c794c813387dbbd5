//! What the messages of a call of 32 bytes cost, at both ends: request and response are built and
//! encoded, received and read.
//!
//! `echo_cost N` does so N times and prints nothing: callgrind's totals of two runs, their
//! difference divided by that of N, are the instructions of one call's messages (ADR 10).
//!
//! `route.rs` is what codegen prints for `route.proto`.

#[path = "build_cost/route.rs"]
#[allow(dead_code)]
mod route;

use std::hint::black_box;

use petasos_buf::MsgBuf;
use petasos_message::{Msg, ROOM_BYTES, buffer, recycle};
use route::Echo;

const PAYLOAD: [u8; 32] = [7; 32];
/// What a call puts before its messages.
const HEAD_BYTES: usize = 8;

/// The sender's half: a message is built, and becomes bytes behind a head.
#[inline(never)]
fn sent(payload: &[u8]) -> MsgBuf {
    let mut echo = Echo::new();
    echo.edit().set_payload(payload);
    let mut buf = Msg::into_native(echo).expect("it is small").into_buf_with(0);
    buf.skip(ROOM_BYTES - HEAD_BYTES);
    buf
}

/// A server reads a request from the frame that it came in, and keeps a copy.
#[inline(never)]
fn read_request(frame: &[u8]) -> Msg<Echo> {
    Msg::copy_native(&frame[HEAD_BYTES..]).expect("it was just made")
}

/// A client reads a response where its bytes were put.
#[inline(never)]
fn read_response(bytes: MsgBuf) -> Msg<Echo> {
    let at = HEAD_BYTES..bytes.len();
    Msg::from_native(bytes, at).expect("it was just made")
}

fn call() {
    let request = sent(black_box(&PAYLOAD));
    let response = {
        let read = read_request(request.as_slice());
        sent(read.payload())
    };
    recycle(request);
    let mut arrived = buffer(response.len());
    arrived.copy_from(&response);
    recycle(response);
    assert_eq!(read_response(arrived).payload(), PAYLOAD);
}

fn main() {
    let count = std::env::args().nth(1).map_or(1, |count| count.parse().expect("a number"));
    (0..count).for_each(|_: u64| call());
}
