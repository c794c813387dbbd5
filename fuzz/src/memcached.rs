//! What a memcached server, or whoever listens in its place, sends to a client of it
//! (`apps/hotel`).
//!
//! The outcome must be the same however TCP cuts the bytes; a part of an answer is within the
//! protocol's bounds, and so is what is kept until one is whole.

use self::protocol::{Broken, Reply, VALUE_BYTES_MAX, is_key, reply};
use crate::{Input, Seed};

// The application is a program without a library, and its dependencies are nobody else's.
#[allow(missing_docs, reason = "it is a private module of the application")]
#[path = "../../apps/hotel/src/cache/protocol.rs"]
pub mod protocol;

/// The longest line before a value, and the ends of both.
const AROUND_BYTES_MAX: usize = 1024 + 2;

/// A byte for where to cut, then what the server sends.
pub fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let (step, said) = (usize::from(input.u8()).max(1), input.rest());
    let whole = heard(said, said.len().max(1));
    assert_eq!(whole, heard(said, step), "cut after each {step} bytes");
    for part in whole.0 {
        if let Reply::Value { key, value } = part {
            assert!(is_key(&key) && value.len() <= VALUE_BYTES_MAX);
            let mut again = format!("VALUE {key} 0 {}\r\n", value.len()).into_bytes();
            again.extend_from_slice(&value);
            again.extend_from_slice(b"\r\n");
            let (length, part) = (again.len(), Reply::Value { key, value });
            assert_eq!(reply(&again), Ok(Some((part, length))));
        }
    }
}

/// All parts of answers, and how it ends: what is left that is not whole yet, or that it is no
/// answer of memcached's.
fn heard(said: &[u8], step: usize) -> (Vec<Reply>, Result<Vec<u8>, Broken>) {
    let (mut parts, mut received) = (Vec::new(), Vec::new());
    for piece in said.chunks(step) {
        received.extend_from_slice(piece);
        loop {
            match reply(&received) {
                Ok(Some((part, used))) => {
                    assert!((1..=received.len()).contains(&used));
                    parts.push(part);
                    received.drain(..used);
                }
                Ok(None) => {
                    assert!(received.len() <= AROUND_BYTES_MAX + VALUE_BYTES_MAX + 2);
                    break;
                }
                Err(broken) => return (parts, Err(broken)),
            }
        }
    }
    (parts, Ok(received))
}

/// Answers to each command, and what is none.
pub fn seeds() -> Vec<Seed> {
    let said = |step: u8, bytes: &[u8]| [&[step][..], bytes].concat();
    vec![
        ("values", said(3, b"VALUE a 0 4\r\n\r\nEN\r\nVALUE profile:1 7 0\r\n\r\nEND\r\n")),
        ("unique", said(200, b"VALUE k 0 2 17\r\n{}\r\nEND\r\n")),
        ("done", said(1, b"STORED\r\nDELETED\r\nNOT_FOUND\r\n")),
        ("failed", said(9, b"SERVER_ERROR out of memory storing object\r\n")),
        ("half", said(5, b"VALUE k 0 20\r\nhalf of it")),
        ("long", said(2, b"VALUE k 0 1048577\r\n")),
        ("wrong-end", said(4, b"VALUE k 0 1\r\nabc")),
        ("error", said(7, b"ERROR\r\nCLIENT_ERROR bad data chunk\r\n")),
        ("http", said(50, b"HTTP/1.1 400 Bad Request\r\n\r\n")),
    ]
}
