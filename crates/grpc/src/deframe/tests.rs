//! Streams cut at every place, and streams that are wrong.

use petasos_call::compress::compress;

use super::*;

/// A message as the stream has it.
fn framed(flag: u8, message: &[u8]) -> Vec<u8> {
    let mut bytes = vec![flag];
    bytes.extend_from_slice(&(message.len() as u32).to_be_bytes());
    bytes.extend_from_slice(message);
    bytes
}

/// The next message, decompressed.
fn next(deframer: &mut Deframer) -> Result<Option<Bytes>, FrameError> {
    Ok(match deframer.next()? {
        None => None,
        Some(Framed::Plain(message)) => Some(message),
        Some(Framed::Packed(packed)) => Some(packed.unpack()?),
    })
}

/// All messages of a stream that arrives in these pieces.
fn messages<'a>(
    deframer: &mut Deframer,
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> Result<Vec<Bytes>, FrameError> {
    let mut found = Vec::new();
    for piece in pieces {
        deframer.push(Bytes::copy_from_slice(piece));
        while let Some(message) = next(deframer)? {
            found.push(message);
        }
    }
    deframer.finish().map(|()| found)
}

#[test]
fn messages_are_found_wherever_the_stream_is_cut() {
    let packed = compress(Codec::GZIP, &[9; 300], Vec::new());
    let stream = [framed(0, b"one"), framed(0, b""), framed(1, &packed), framed(0, &[2; 70])];
    let stream = stream.concat();
    for piece_bytes in 1..=stream.len() {
        let mut deframer = Deframer::new(Compression::Gzip, 300);
        let found = messages(&mut deframer, stream.chunks(piece_bytes)).expect("they are right");
        let expected: [&[u8]; 4] = [b"one", b"", &[9; 300], &[2; 70]];
        assert_eq!(found, expected, "pieces of {piece_bytes}");
    }
}

#[test]
fn a_message_in_one_piece_is_not_copied() {
    let stream = Bytes::from(framed(0, &[1; 100]));
    let mut deframer = Deframer::new(Compression::Identity, 100);
    deframer.push(stream.clone());
    let message = next(&mut deframer).expect("right").expect("whole");
    assert_eq!(message.as_ptr(), stream[PREFIX_BYTES..].as_ptr());
}

#[test]
fn a_length_is_judged_before_the_message_arrives() {
    let limit = 1000;
    let cases = [(1000, Ok(None)), (1001, Err(FrameError::TooLong { limit }))];
    for (length, expected) in cases {
        let mut deframer = Deframer::new(Compression::Identity, limit);
        deframer.push(Bytes::copy_from_slice(&framed(0, &vec![0; length])[..PREFIX_BYTES]));
        assert_eq!(next(&mut deframer), expected);
    }
    let mut deframer = Deframer::new(Compression::Identity, usize::MAX);
    deframer.push(Bytes::from_static(&[0, 0xff, 0xff, 0xff, 0xff, 1]));
    assert_eq!(next(&mut deframer), Ok(None));
    assert!(deframer.partial.capacity() < 1 << 10, "memory follows what arrives");
}

#[test]
fn what_comes_out_of_a_compressed_message_is_limited() {
    let stream = framed(1, &compress(Codec::GZIP, &[0; 100_000], Vec::new()));
    let mut deframer = Deframer::new(Compression::Gzip, 1000);
    let found = messages(&mut deframer, [&stream[..]]);
    assert_eq!(found, Err(FrameError::TooLong { limit: 1000 }));
}

#[test]
fn what_takes_long_to_decompress_is_left_to_others() {
    for (bytes, is_left) in [(64 << 10, false), (1 << 20, true)] {
        let stream = framed(1, &compress(Codec::GZIP, &vec![0; bytes], Vec::new()));
        let mut deframer = Deframer::new(Compression::Gzip, bytes);
        deframer.push(stream.into());
        let found = deframer.next().expect("right").expect("whole");
        assert_eq!(matches!(found, Framed::Packed(_)), is_left, "{bytes}");
        let Framed::Packed(packed) = found else { continue };
        assert_eq!(packed.unpack().map(|message| message.len()), Ok(bytes));
    }
}

#[test]
fn wrong_streams_are_refused() {
    let cases = [
        (framed(1, b"abc"), Compression::Identity, FrameError::NotAgreed),
        (framed(1, b"abc"), Compression::Gzip, FrameError::Corrupt),
        (framed(2, b"abc"), Compression::Gzip, FrameError::Flag(2)),
        (framed(0, b"abc")[..7].to_vec(), Compression::Gzip, FrameError::CutOff),
        (vec![0], Compression::Gzip, FrameError::CutOff),
    ];
    for (stream, compression, expected) in cases {
        let mut deframer = Deframer::new(compression, 100);
        assert_eq!(messages(&mut deframer, [&stream[..]]), Err(expected));
    }
}

proptest::proptest! {
    #[test]
    fn any_bytes_end_in_messages_or_an_error(pieces: Vec<Vec<u8>>) {
        let mut deframer = Deframer::new(Compression::Gzip, 64);
        let bytes: usize = pieces.iter().map(Vec::len).sum();
        if let Ok(found) = messages(&mut deframer, pieces.iter().map(Vec::as_slice)) {
            proptest::prop_assert!(found.len() * PREFIX_BYTES <= bytes);
        }
    }
}
