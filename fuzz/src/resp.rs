//! What clients of Redis, or whoever connects in their place, send to the adapter of a group
//! (`apps/redis`).
//!
//! The outcome must be the same however TCP cuts the bytes; what is kept until a command is whole
//! is within the reader's bounds, whatever lengths are announced.

use self::reader::{COMMAND_BYTES_MAX, Command, ProtocolError, Reader};
use crate::{Input, Seed};

// Its package has the dependencies of an application, which are nobody else's.
#[allow(missing_docs, reason = "the application's documentation has it")]
#[allow(dead_code, reason = "the application uses the rest")]
#[path = "../../apps/redis/src/resp.rs"]
pub mod reader;

/// The longest line of words, which is kept until it is whole.
const LINE_BYTES_MAX: usize = 64 << 10;

/// A byte for where to cut, then what the client sends.
pub fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let (step, said) = (usize::from(input.u8()).max(1), input.rest());
    let whole = heard(said, said.len().max(1));
    assert_eq!(whole, heard(said, step), "cut after each {step} bytes");
    for command in whole.0 {
        assert!(!command.words.is_empty() && command.bytes.len() <= COMMAND_BYTES_MAX);
        assert_eq!(heard(&command.bytes, 1), (vec![command], Ok(0)));
    }
}

/// All commands, and how it ends: how much is left that is not whole yet, or why it is no command.
fn heard(said: &[u8], step: usize) -> (Vec<Command>, Result<usize, ProtocolError>) {
    let (mut reader, mut commands) = (Reader::default(), Vec::new());
    for piece in said.chunks(step) {
        reader.extend(piece);
        loop {
            match reader.read() {
                Ok(Some(command)) => commands.push(command),
                Ok(None) => break,
                Err(error) => return (commands, Err(error)),
            }
        }
        assert!(reader.kept_bytes() <= COMMAND_BYTES_MAX.max(LINE_BYTES_MAX));
    }
    (commands, Ok(reader.kept_bytes()))
}

/// Commands of both forms, and what is none.
pub fn seeds() -> Vec<Seed> {
    let said = |step: u8, bytes: &[u8]| [&[step][..], bytes].concat();
    vec![
        ("array", said(3, b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$2\r\n\r\n\r\n*1\r\n$4\r\nPING\r\n")),
        ("line", said(7, b"SET  k v\r\n\r\nget k\n")),
        ("both", said(1, b"ping\r\n*2\r\n$3\r\nGET\r\n$0\r\n\r\n*0\r\n*-1\r\nping\r\n")),
        ("half", said(5, b"*2\r\n$3\r\nGET\r\n$1000\r\nhalf of it")),
        ("count", said(2, b"*2147483647\r\n")),
        ("length", said(2, b"*1\r\n$1048577\r\n")),
        ("zeros", said(2, b"*01\r\n$01\r\na\r\n")),
        ("kind", said(4, b"*1\r\n:1\r\n")),
        ("end", said(4, b"*1\r\n$1\r\nabc")),
        ("quotes", said(9, b"SET k \"a b\"\r\n")),
    ]
}
