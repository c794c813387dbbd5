use std::ops::Range;

use proptest::prelude::*;

use super::super::*;
use crate::tail::{TAIL_BYTES_MAX, TailError};
use crate::{Answer, Code, Codec, Encoding, Malformed, Metadata, Status, TraceContext};

type Bytes = Vec<u8>;

fn message(body: &[u8]) -> Message<Bytes> {
    Message { encoding: Encoding::Protobuf, codec: Codec::GZIP, body: body.to_vec() }
}

fn caller_bytes(segment: &CallerSegment<Bytes>) -> Bytes {
    let mut out = vec![0xee; segment.bytes()];
    segment.write(&mut out, |body, place| place.copy_from_slice(body));
    out
}

fn server_bytes(segment: &ServerSegment<Bytes>) -> Bytes {
    let mut out = vec![0xee; segment.bytes()];
    segment.write(&mut out, |body, place| place.copy_from_slice(body));
    out
}

fn body(bytes: &[u8]) -> impl FnMut(Range<usize>) -> Bytes {
    |range| bytes[range].to_vec()
}

fn parse_caller(bytes: &[u8]) -> Result<CallerSegment<Bytes>, TailError> {
    let parsed = CallerSegment::parse(bytes, TAIL_BYTES_MAX).map_err(|error| error.why)?;
    Ok(parsed.map(body(bytes)))
}

fn parse_server(bytes: &[u8]) -> Result<ServerSegment<Bytes>, TailError> {
    Ok(ServerSegment::parse(bytes, TAIL_BYTES_MAX)?.map(body(bytes)))
}

#[test]
fn r16_a_callers_records_lie_where_the_rule_says() {
    let mut metadata = Metadata::new();
    metadata.append("k", "v").unwrap();
    let answer = Answer { native: true, codec: Codec::LZ4 };
    let mut segment = CallerSegment::bare(0x0403_0201, 0x0605, true);
    segment.open = Some(Open { time_left_us: 7, answer, metadata, trace: None });
    segment.messages.push(message(b"abc"));
    segment.messages.push(message(b""));
    segment.close = true;
    let bytes = caller_bytes(&segment);
    let expected = [
        &[0x10, 0, 5, 6, 1, 2, 3, 4][..],
        &[1, 0, 0, 0, 22, 0, 0, 0],
        &[7, 0, 0, 0, 0, 0, 0, 0, 0x21, 0, 0, 0, 0, 0, 0, 0],
        &[1, 1, 1, 0, b'k', b'v', 0, 0],
        &[2, 1, 2, 0, 3, 0, 0, 0, b'a', b'b', b'c', 0, 0, 0, 0, 0],
        &[2, 1, 2, 0, 0, 0, 0, 0],
        &[3, 0, 0, 0, 0, 0, 0, 0],
    ];
    assert_eq!(bytes, expected.concat());
    assert_eq!(parse_caller(&bytes), Ok(segment));
}

#[test]
fn r16_a_servers_records_lie_where_the_rule_says() {
    let mut metadata = Metadata::new();
    metadata.append("k", "v").unwrap();
    let mut segment = ServerSegment::bare(0x0605, true);
    segment.head = Some(metadata.clone());
    segment.messages.push(message(b"abcdefgh"));
    segment.end = Some(Status::aborted("no").with_metadata(metadata));
    segment.ended = true;
    let bytes = server_bytes(&segment);
    let expected = [
        &[0x30, 0, 0, 0, 5, 6, 0, 0][..],
        &[5, 0, 0, 0, 6, 0, 0, 0, 1, 1, 1, 0, b'k', b'v', 0, 0],
        &[2, 1, 2, 0, 8, 0, 0, 0],
        b"abcdefgh",
        &[6, 0, 0, 0, 20, 0, 0, 0, 10, 0, 0, 0, 0, 0, 0, 0],
        &[3, 0, 2, 0, b'n', b'o', 2, 1, 1, 0, b'k', b'v'],
    ];
    assert_eq!(bytes, expected.concat());
    assert_eq!(parse_server(&bytes), Ok(segment));
}

fn records(kinds: &[u8]) -> Bytes {
    let content = |kind: u8| match kind {
        1 => vec![0; 16],
        6 => vec![0; 8],
        _ => Vec::new(),
    };
    let record = |kind: &u8| {
        let content = content(*kind);
        [&[*kind, 0, 0, 0, u8::try_from(content.len()).unwrap(), 0, 0, 0], &content[..]].concat()
    };
    kinds.iter().flat_map(record).collect()
}

#[test]
fn r16_records_have_one_order_and_one_sender() {
    let caller = |kinds: &[u8]| {
        let bytes = [&[0, 0, 0, 0, 1, 0, 0, 0][..], &records(kinds)].concat();
        parse_caller(&bytes).map(|_| ())
    };
    for kinds in [&[][..], &[1], &[1, 2, 2, 3], &[2, 2], &[3], &[4]] {
        assert_eq!(caller(kinds), Ok(()), "{kinds:?}");
    }
    let wrong = Err(TailError::Malformed(Malformed::Record));
    for kinds in [&[0][..], &[2, 1], &[1, 1], &[3, 2], &[3, 3], &[2, 4], &[4, 2], &[4, 4], &[4, 3]]
    {
        assert_eq!(caller(kinds), wrong, "{kinds:?}");
    }
    for kinds in [&[5][..], &[6], &[7], &[255]] {
        assert_eq!(caller(kinds), wrong, "{kinds:?}");
    }
    let server = |flags: u8, kinds: &[u8]| {
        let bytes = [&[flags, 0, 0, 0, 0, 0, 0, 0][..], &records(kinds)].concat();
        parse_server(&bytes).map(|_| ())
    };
    for (flags, kinds) in [(0, &[][..]), (0, &[5, 2]), (0, &[2, 2]), (32, &[]), (32, &[5, 2, 6])] {
        assert_eq!(server(flags, kinds), Ok(()), "{kinds:?}");
    }
    for (flags, kinds) in [(0, &[5, 5][..]), (0, &[2, 5]), (0, &[6]), (32, &[6, 2]), (32, &[6, 6])]
    {
        assert_eq!(server(flags, kinds), wrong, "{kinds:?}");
    }
    for (flags, kinds) in [(32, &[2][..]), (32, &[5]), (0, &[1]), (0, &[3]), (0, &[4])] {
        assert_eq!(server(flags, kinds), wrong, "{kinds:?}");
    }
}

#[test]
fn r16_what_is_reserved_or_cut_off_is_malformed() {
    let mut segment = CallerSegment::bare(1, 0, true);
    segment.open = Some(Open::default());
    segment.messages.push(message(b"abc"));
    let bytes = caller_bytes(&segment);
    // Where the segment may end: before the first record, behind it, and where it does end.
    let whole: Vec<_> = (0..=bytes.len()).filter(|n| parse_caller(&bytes[..*n]).is_ok()).collect();
    assert_eq!(whole, [8, 32, bytes.len()]);
    for (at, bits) in
        [(0, 0xef), (1, 0xf0), (9, 0xff), (10, 0xff), (11, 0xff), (24, 0x0e), (25, 0xff)]
    {
        for bit in (0..8).filter(|bit| bits & 1 << bit != 0) {
            let mut broken = bytes.clone();
            broken[at] ^= 1 << bit;
            assert_eq!(parse_caller(&broken), Err(Malformed::Reserved.into()), "{at} {bit}");
        }
    }
    let mut nameless = bytes.clone();
    nameless[4] = 0;
    let error = CallerSegment::parse(&nameless, 0).unwrap_err();
    assert_eq!((error.stream, error.why), (0, Malformed::Reserved.into()));
}

#[test]
fn r16_too_much_metadata_names_the_stream_that_ends() {
    let mut metadata = Metadata::new();
    metadata.append("key", "value").unwrap();
    let mut segment = CallerSegment::<Bytes>::bare(9, 0, true);
    segment.open = Some(Open { metadata, ..Open::default() });
    let error = CallerSegment::parse(&caller_bytes(&segment), 11).unwrap_err();
    assert_eq!(error, SegmentError { stream: 9, number: 0, why: TailError::TooLong });
    assert_eq!(Status::from(error.why).code(), Code::ResourceExhausted);
}

prop_compose! {
    fn messages()(bodies in proptest::collection::vec(any::<Vec<u8>>(), 0..4)) -> Messages<Bytes> {
        let mut messages = Messages::new();
        messages.extend(bodies.iter().map(|body| message(body)));
        messages
    }
}

prop_compose! {
    fn metadata()(entries in proptest::collection::vec(("[a-z]{1,9}", "[ -~]{0,9}"), 0..4))
        -> Metadata {
        let mut metadata = Metadata::new();
        entries.iter().for_each(|(key, value)| metadata.append(key, value).unwrap());
        metadata
    }
}

proptest! {
    #[test]
    fn r16_what_a_caller_writes_is_read(
        stream in 1u32.., number: u16, receive: bool, messages in messages(), close: bool,
        metadata in metadata(), traced: bool, opens: bool, time_left_us: u64, under_way in 0u8..16,
    ) {
        let trace = traced.then_some(TraceContext { trace_id: [1; 16], span_id: [2; 8], flags: 3 });
        let answer = Answer { native: traced, codec: Codec::from_number(15) };
        let open = opens.then_some(Open { time_left_us, answer, metadata, trace });
        let bare = CallerSegment::bare(stream, number, receive);
        let segment = CallerSegment { under_way, open, messages, close, ..bare };
        prop_assert_eq!(parse_caller(&caller_bytes(&segment)), Ok(segment));
    }

    #[test]
    fn r16_what_a_server_writes_is_read(
        number: u16, send: bool, messages in messages(), head in metadata(), ended: bool,
        text: String, trailing in metadata(), details: Vec<u8>, more: bool,
    ) {
        let status = Status::data_loss(text).with_metadata(trailing).with_details(details);
        let (head, end) = (Some(head), ended.then_some(status));
        let segment = ServerSegment { number, send, more, ended, head, messages, end };
        prop_assert_eq!(parse_server(&server_bytes(&segment)), Ok(segment));
    }

    #[test]
    fn r16_every_segment_is_read_or_fails(
        flags: u8, kinds in proptest::collection::vec(0u8..8, 0..5), mut noise: Vec<u8>, at: usize,
    ) {
        let mut bytes = [&[flags & 0x70, 0, 0, 0, 1, 0, 0, 0][..], &records(&kinds)].concat();
        let at = at % bytes.len();
        noise.truncate(4);
        let end = (at + noise.len()).min(bytes.len());
        bytes[at..end].copy_from_slice(&noise[..end - at]);
        if let Ok(segment) = parse_caller(&bytes) {
            prop_assert_eq!(parse_caller(&caller_bytes(&segment)), Ok(segment));
        }
        if let Ok(segment) = parse_server(&bytes) {
            prop_assert_eq!(parse_server(&server_bytes(&segment)), Ok(segment));
        }
    }
}
