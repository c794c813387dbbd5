//! What a server under load sends to `petasos load`, or whoever listens in its place: HTTP/1.1 and
//! RESP.
//!
//! The outcome must be the same however TCP cuts the bytes, and what is kept until more comes is
//! within bounds.

use petasos_load::{Http, Protocol, Reply, Resp};

use crate::{Input, Seed};

/// The longest head of a response, which is the longest that is kept.
const KEPT_BYTES_MAX: usize = 16 << 10;

/// A byte for the protocol, one for where to cut, then what the server sends.
pub fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let (protocol, step) = (input.u8(), usize::from(input.u8()).max(1));
    let said = input.rest();
    match protocol % 2 {
        0 => compare::<Http>(said, step),
        _ => compare::<Resp>(said, step),
    }
}

fn compare<P: Protocol>(said: &[u8], step: usize) {
    let (whole, cut) = (heard::<P>(said, said.len().max(1)), heard::<P>(said, step));
    // With more at once, an error may be seen before a reply in front of it is whole, and never
    // the other way round.
    assert_eq!(whole.1, cut.1, "cut after each {step} bytes");
    assert_eq!(whole.0, cut.0, "cut after each {step} bytes");
}

/// All replies, and whether all of it is what the protocol allows.
fn heard<P: Protocol>(said: &[u8], step: usize) -> (Vec<Reply>, bool) {
    let (mut replies, mut kept) = (Vec::new(), Vec::new());
    let mut reader = P::Reader::default();
    for piece in said.chunks(step) {
        kept.extend_from_slice(piece);
        let mut done = 0;
        while done < kept.len() {
            let Ok((read, reply)) = P::read(&mut reader, &kept[done..]) else {
                return (replies, false);
            };
            assert!(read <= kept.len() - done && (read > 0 || reply.is_none()));
            done += read;
            replies.extend(reply);
            if read == 0 {
                break;
            }
        }
        kept.drain(..done);
        assert!(kept.len() <= KEPT_BYTES_MAX);
    }
    replies.extend(P::read_end(&mut reader));
    (replies, true)
}

/// Answers of all kinds, and what is none.
pub fn seeds() -> Vec<Seed> {
    let http = |step: u8, bytes: &[u8]| [&[0, step][..], bytes].concat();
    let resp = |step: u8, bytes: &[u8]| [&[1, step][..], bytes].concat();
    vec![
        ("http-length", http(3, LENGTH)),
        ("http-chunks", http(7, CHUNKS)),
        ("http-end", http(9, b"HTTP/1.1 100 C\r\n\r\nHTTP/1.0 500 No\r\n\r\nuntil the end")),
        ("http-close", http(1, b"HTTP/1.1 304 N\r\nConnection: close\r\n\r\n")),
        ("resp-lines", resp(2, b"+OK\r\n-ERR no\r\n:-12\r\n")),
        ("resp-strings", resp(5, b"$2\r\nok\r\n$-1\r\n$0\r\n\r\n")),
        ("resp-arrays", resp(4, b"*2\r\n*1\r\n:1\r\n$1\r\na\r\n*-1\r\n*0\r\n")),
        ("resp-none", resp(50, b"HTTP/1.1 400 Bad Request\r\n\r\n")),
    ]
}

const LENGTH: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 204 N\r\n\r\n";
const CHUNKS: &[u8] = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\
                        2;a\r\nok\r\n0\r\na: b\r\n\r\n";
