//! What somebody sends to a port of a fabric (W34).
//!
//! The records of a message are within it, next to each other, up to its end, and their datagrams
//! are not more than a message has. Written anew, they are the same datagrams.

use petasos_netio_fabric::FUSED_BYTES_MAX;
use petasos_netio_fabric::message::{
    DATAGRAMS_MAX, HEAD_BYTES, Malformed, Record, Writer, records,
};

use crate::Seed;

/// A message.
pub fn run(bytes: &[u8]) {
    let Ok(datagrams) = read(bytes) else { return };
    let (mut writer, mut memory) = (Writer::default(), vec![0; bytes.len()]);
    for datagram in &datagrams {
        assert!(writer.fits(datagram.len(), bytes.len()), "no message is longer than needed");
        writer.push(&mut memory, datagram.split_at(datagram.len() / 2).into());
    }
    assert_eq!(read(&memory[..writer.len()]), Ok(datagrams));
}

fn read(message: &[u8]) -> Result<Vec<&[u8]>, Malformed> {
    let (mut datagrams, mut end) = (Vec::new(), 0);
    for record in records(message) {
        let Record { offset, len, segment_bytes } = record?;
        assert!(offset == end + HEAD_BYTES && (1..=len).contains(&segment_bytes));
        end = offset + len;
        datagrams.extend(message[offset..end].chunks(segment_bytes));
        assert!(datagrams.len() <= DATAGRAMS_MAX);
    }
    assert_eq!(end, message.len());
    Ok(datagrams)
}

/// Messages as an honest peer sends them, and some that cannot be.
pub fn seeds() -> Vec<Seed> {
    let message = |lens: &[usize]| {
        let (mut writer, mut memory) = (Writer::default(), vec![0; FUSED_BYTES_MAX]);
        lens.iter().for_each(|len| writer.push(&mut memory, [&vec![7; *len], &[]]));
        memory.truncate(writer.len());
        memory
    };
    vec![
        ("packet", message(&[56])),
        ("small-large-small", message(&[60, 1200, 56])),
        ("train", message(&[56, 56, 56, 20])),
        ("cut", message(&[56, 70])[..90].to_vec()),
        ("no-bytes", vec![0; 4]),
        ("too-long", vec![0xff; 60]),
        ("crowded", [&[65, 0, 1, 0][..], &[7; 65]].concat()),
    ]
}
