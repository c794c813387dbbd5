//! What the other end of a TCP connection sends (W33).
//!
//! Records are within what was sent, have possible lengths, and are the same however the bytes come
//! in pieces.

use petasos_netio_tcp::record::{
    Malformed, PREAMBLE, RECORD_BYTES_MAX, Reader, UNFINISHED_BYTES_MAX, head,
};

use crate::Seed;

/// The datagrams of a record, and the length of each.
type Datagrams = (Vec<u8>, usize);

/// A byte that says how long the pieces are, then what the peer sends.
pub fn run(bytes: &[u8]) {
    let Some((piece, stream)) = bytes.split_first() else { return };
    let whole = read(stream, stream.len());
    assert_eq!(whole, read(stream, usize::from(*piece)));
}

fn read(stream: &[u8], piece_bytes: usize) -> (Vec<Datagrams>, Option<Malformed>) {
    let (mut reader, mut unread, mut records) = (Reader::default(), Vec::new(), Vec::new());
    for piece in stream.chunks(piece_bytes.max(1)) {
        unread.extend_from_slice(piece);
        let read = reader.read(&unread, |record| {
            assert!((1..=RECORD_BYTES_MAX).contains(&record.len));
            assert!((1..=record.len).contains(&record.segment_bytes));
            let datagrams = &unread[record.offset..record.offset + record.len];
            records.push((datagrams.to_vec(), record.segment_bytes));
        });
        match read {
            Ok(done) => drop(unread.drain(..done)),
            Err(flaw) => return (records, Some(flaw)),
        }
        assert!(unread.len() <= UNFINISHED_BYTES_MAX);
    }
    (records, None)
}

/// Records as an honest peer sends them, and some that cannot be.
pub fn seeds() -> Vec<Seed> {
    let record = |len: usize, segment| [&head(len, segment)[..], &vec![7; len]].concat();
    let greeted = |rest: &[u8]| [&[3][..], &PREAMBLE, rest].concat();
    vec![
        ("packet", greeted(&record(56, 56))),
        ("train", greeted(&[record(130, 56), record(1, 1)].concat())),
        ("unfinished", greeted(&record(56, 56)[..20])),
        ("endless", greeted(&[0xff; 8])),
        ("no-bytes", greeted(&[0; 8])),
        ("another-protocol", b"\x05GET / HTTP/1.1".to_vec()),
    ]
}
