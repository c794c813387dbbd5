//! What typed calls put around messages: heads, tails, binds, segments of streams (R1 to R21).
//!
//! What parses is written back and parses as the same; streams keep their bounds whatever the peer
//! sends.

use std::ops::Range;

use petasos_call::stream::{
    CallerEvent, CallerSegment, CallerStream, FLOW_BYTES_MAX, Message, Open, ServerSegment,
    ServerStream, SessionStreams, WIDE_BYTES_MAX,
};
use petasos_call::{
    BindRequest, BindResponse, Codec, Encoding, HEAD_BYTES, Metadata, RequestHead, ResponseHead,
    Status, TAIL_BYTES_MAX, TailWriter, TraceContext, read_tail, split,
};

use crate::{Input, Seed};

/// A byte for what it is, then that.
pub fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    match input.u8() % 8 {
        0 => unary(input.rest()),
        1 => tail(input.rest()),
        2 => binds(input.rest()),
        3 => caller_segment(input.rest()),
        4 => server_segment(input.rest()),
        5 => server_stream(input),
        6 => caller_stream(input),
        _ => text(input.rest()),
    }
}

/// A request or a response as it lies in a packet.
fn unary(bytes: &[u8]) {
    let Some(head) = bytes.first_chunk::<HEAD_BYTES>() else { return };
    if let Ok(parsed) = RequestHead::parse(*head) {
        assert_eq!(parsed.to_bytes(), *head);
    }
    if let Ok(parsed) = ResponseHead::parse(*head) {
        // Codes that are not known are read as one.
        assert_eq!(ResponseHead::parse(parsed.to_bytes()), Ok(parsed));
    }
    for has_tail in [false, true] {
        if let Ok((body, rest)) = split(bytes, has_tail) {
            assert!(body.end <= bytes.len() && body.start <= body.end);
            tail(rest);
        }
    }
}

fn tail(bytes: &[u8]) {
    for limit in [0, 64, TAIL_BYTES_MAX] {
        let Ok(parts) = read_tail(bytes, limit) else { continue };
        let (status, initial) = parts.into_status(petasos_call::Code::Aborted);
        let mut out = Vec::new();
        let mut writer = TailWriter::new(&mut out);
        writer.status(&status);
        writer.metadata(petasos_call::MetadataKind::Initial, &initial);
        writer.finish();
        let (entries, known) = (initial.len(), status.message().len());
        assert!(entries + known <= bytes.len());
    }
}

/// Later versions may differ in what this one does not look at, which is written as zeros.
fn binds(bytes: &[u8]) {
    if let Ok(request) = BindRequest::parse(bytes) {
        let mut out = Vec::new();
        request.write(&mut out);
        assert_eq!(BindRequest::parse(&out), Ok(request));
    }
    if let Ok(response) = BindResponse::parse(bytes) {
        let mut out = Vec::new();
        response.write(&mut out);
        assert_eq!(BindResponse::parse(&out), Ok(response));
    }
}

type Segment = CallerSegment<Vec<u8>>;
type Answer = ServerSegment<Vec<u8>>;

fn body(bytes: &[u8]) -> impl FnMut(Range<usize>) -> Vec<u8> {
    |range| bytes[range].to_vec()
}

fn read_caller(bytes: &[u8]) -> Option<Segment> {
    let parsed = CallerSegment::parse(bytes, TAIL_BYTES_MAX).ok()?;
    Some(parsed.map(body(bytes)))
}

fn read_server(bytes: &[u8]) -> Option<Answer> {
    let parsed = ServerSegment::parse(bytes, TAIL_BYTES_MAX).ok()?;
    Some(parsed.map(body(bytes)))
}

fn caller_segment(bytes: &[u8]) {
    let Some(segment) = read_caller(bytes) else { return };
    let mut out = vec![0; segment.bytes()];
    segment.write(&mut out, |body, place| place.copy_from_slice(body));
    assert_eq!(read_caller(&out).as_ref(), Some(&segment));
}

fn server_segment(bytes: &[u8]) {
    let Some(segment) = read_server(bytes) else { return };
    let mut out = vec![0; segment.bytes()];
    segment.write(&mut out, |body, place| place.copy_from_slice(body));
    assert_eq!(read_server(&out).as_ref(), Some(&segment));
}

/// The peer's segments, and what the handler does meanwhile.
fn server_stream(mut input: Input<'_>) {
    let mut server = ServerStream::<Vec<u8>, u32>::new(1 << 16);
    let mut numbers = SessionStreams::<u32>::new(8);
    let (mut asked, mut answered) = (0, 0);
    while !input.is_empty() {
        match input.u8() % 6 {
            0..=2 => {
                if let Some(segment) = read_caller(input.short()) {
                    let _ = numbers.classify(&segment);
                    let _malformed = server.handle_exchange(segment, asked);
                    asked += 1;
                }
            }
            3 => drop(server.poll_event()),
            4 if server.can_send() => server.send(message(input.short())),
            4 if input.bool() => server.release_spare(),
            4 => server.end(Status::aborted("")),
            _ if server.can_send() => server.head(Metadata::new()),
            _ => server.handle_abandoned(|handle| *handle == 1),
        }
        answered += std::iter::from_fn(|| server.poll_answer()).count();
        assert!(server.held_bytes() <= FLOW_BYTES_MAX + WIDE_BYTES_MAX);
    }
    server.abort(Status::ok());
    answered += std::iter::from_fn(|| server.poll_answer()).count();
    assert!(answered <= asked as usize, "an exchange is answered once");
}

fn caller_stream(mut input: Input<'_>) {
    let mut caller = CallerStream::<Vec<u8>>::new(1, Open::default(), 1 << 16);
    let (mut ends, lent_max) = (0, u32::from(input.u8() % 20));
    while !input.is_empty() {
        match input.u8() % 6 {
            0..=2 => {
                if let Some(segment) = read_server(input.short()) {
                    let _malformed = caller.handle_answer(segment);
                }
            }
            3 if caller.can_send() => caller.send(message(input.short())),
            4 if caller.is_open() => caller.close(),
            5 => caller.handle_failure(Status::unavailable(""), input.bool()),
            _ => {}
        }
        while caller.poll_exchange(lent_max).is_some() {}
        let events = std::iter::from_fn(|| caller.poll_event());
        ends += events.filter(|event| matches!(event, CallerEvent::End(_))).count();
        assert!(ends <= 1 && caller.held_bytes() <= FLOW_BYTES_MAX + WIDE_BYTES_MAX);
    }
    caller.reset(Status::cancelled(""));
    let events = std::iter::from_fn(|| caller.poll_event());
    ends += events.filter(|event| matches!(event, CallerEvent::End(_))).count();
    assert_eq!(ends, 1, "a stream ends once");
}

fn message(body: &[u8]) -> Message<Vec<u8>> {
    Message { encoding: Encoding::Protobuf, codec: Codec::IDENTITY, body: body.to_vec() }
}

/// Texts that come in metadata.
fn text(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let _ = TraceContext::from_traceparent(text);
    let _ = petasos_call::policy::Pushback::parse(text);
    let (key, value) = text.split_once('=').unwrap_or((text, ""));
    let mut metadata = Metadata::new();
    let _ = metadata.append(key, value);
    let _ = metadata.append_bin(key, value.as_bytes());
    assert_eq!(metadata.iter().count(), metadata.len());
}

/// One of each.
pub fn seeds() -> Vec<Seed> {
    let mut metadata = Metadata::new();
    metadata.append("key", "value").expect("an entry");
    metadata.append_bin("key-bin", &[1, 2]).expect("an entry");
    let status = Status::aborted("why").with_metadata(metadata.clone());
    let mut tail = Vec::new();
    let mut writer = TailWriter::new(&mut tail);
    writer.metadata(petasos_call::MetadataKind::Initial, &metadata);
    writer.status(&status);
    writer.finish();
    let mut first = CallerSegment::bare(1, 0, true);
    first.open = Some(Open { metadata: metadata.clone(), ..Open::default() });
    first.messages.push(message(b"hello"));
    let mut last = CallerSegment::bare(1, 1, true);
    last.close = true;
    let mut answer = ServerSegment::bare(0, true);
    answer.head = Some(metadata);
    answer.messages.push(message(b"hello"));
    answer.end = Some(status);
    answer.ended = true;
    let (first, last, answer) = (caller_bytes(&first), caller_bytes(&last), server_bytes(&answer));
    let some = |kind: u8, bytes: &[u8]| [&[kind][..], bytes].concat();
    let long = |bytes: &[u8]| [&[0, bytes.len() as u8][..], bytes].concat();
    vec![
        ("unary", some(0, &[&[0; HEAD_BYTES][..], b"body"].concat())),
        ("tail", some(1, &tail)),
        ("caller", some(3, &first)),
        ("server", some(4, &answer)),
        ("served", some(5, &[&long(&first)[..], &[3, 4, 2, 1, 1], &long(&last)].concat())),
        ("called", some(6, &[&[3, 2, 1, 1], &long(&answer)[..], &[4, 5, 1]].concat())),
        ("trace", some(7, b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")),
    ]
}

fn caller_bytes(segment: &Segment) -> Vec<u8> {
    let mut out = vec![0; segment.bytes()];
    segment.write(&mut out, |body, place| place.copy_from_slice(body));
    out
}

fn server_bytes(segment: &Answer) -> Vec<u8> {
    let mut out = vec![0; segment.bytes()];
    segment.write(&mut out, |body, place| place.copy_from_slice(body));
    out
}
