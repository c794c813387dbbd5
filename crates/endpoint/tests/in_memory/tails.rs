//! Messages that are sent from several places.

use std::sync::Arc;

use bytes::Bytes;
use petasos_buf::{Segment, SharedMemory};
use petasos_endpoint::{CongestionConfig, Context, EndpointConfig, MsgBuf, Request};

use crate::joined::*;

const SPLIT: u16 = 7;

/// Memory that is only ever copied.
#[derive(Debug)]
struct Copied(Bytes);

impl SharedMemory for Copied {
    fn bytes(&self) -> usize {
        self.0.len()
    }

    fn copy_to(&self, at: usize, to: &mut [u8]) {
        to.copy_from_slice(&self.0[at..at + to.len()]);
    }
}

/// `message` in a buffer of `own` bytes and a tail of two pieces, of which one is shared with
/// others if the message has an even number of bytes.
fn in_pieces(message: &[u8], own: usize) -> MsgBuf {
    let rest = Bytes::copy_from_slice(&message[own..]);
    let middle = rest.len() / 3;
    let mut buf = MsgBuf::from_slice(&message[..own]);
    let (first, last) = (rest.slice(..middle), rest.slice(middle..));
    let last = match message.len() % 2 {
        0 => Segment::Shared(Arc::new(Copied(last))),
        _ => last.into(),
    };
    buf.attach(vec![first.into(), last]);
    assert_eq!(buf.is_shared(), message.len().is_multiple_of(2) && message.len() > 1024);
    // Short messages are made one piece.
    assert_eq!((buf.len(), buf.has_tail()), (message.len(), message.len() > 1024));
    buf
}

/// Answers with the request, from several places.
fn split(_: &mut Server, cx: &mut Context<Server>, request: Request<'_>) {
    let own = [8, 20_000][request.payload.len() % 2].min(request.payload.len() - 3);
    let _ = cx.respond_in(request.handle, in_pieces(&request.payload, own));
    free(cx, request.payload);
}

fn call(pair: &mut Joined, message: &[u8], own: usize, tag: u64) {
    let (session, request) = (pair.session, in_pieces(message, own));
    let cx = pair.client.context();
    cx.enqueue_request(session, SPLIT, request, keep, tag).expect("there is room");
}

fn uncontrolled(config: &mut EndpointConfig) {
    config.congestion = Some(CongestionConfig::none());
}

/// Messages of lengths that lie across packets in every way, of which one packet in seven is lost.
fn arrive_whole(mut pair: Joined) {
    pair.server.register(SPLIT, split);
    let sizes = [600, 1431, 1432, 1433, 5000, 20_001, 20_010, 150_000, 150_001, 150_002];
    for (tag, size) in (0..).zip(sizes) {
        for (tag, own) in [(tag * 2, 8), (tag * 2 + 1, size / 2)] {
            let message = pattern(size);
            call(&mut pair, &message, own, tag);
            let mut lost = 0;
            for _ in 0..50 {
                pair.run_relayed(20, |at, bytes| {
                    if at % 7 == 5 {
                        bytes[0] = 0xff;
                        lost += 1;
                    }
                });
                if pair.is_over(tag) {
                    break;
                }
            }
            assert_eq!(pair.outcome(tag).as_deref(), Ok(&*message), "{size} bytes, {own} own");
            assert!(lost > 0 || size < 5000);
        }
    }
}

#[test]
fn from_where_they_lie() {
    arrive_whole(Joined::captured(uncontrolled));
}

#[test]
fn w12_with_checksums() {
    arrive_whole(Joined::captured(|config| {
        uncontrolled(config);
        config.session.checksum = true;
    }));
}

#[test]
fn w27_sealed() {
    let ends = [security(1, "server.test"), security(1, "client.test")];
    arrive_whole(Joined::sealed_and_captured(ends, uncontrolled));
}

#[test]
fn nothing_is_kept_of_a_call_that_is_over() {
    let mut pair = Joined::new();
    pair.server.register(SPLIT, split);
    let bytes = Bytes::from(pattern(300_000));
    let (session, mut request) = (pair.session, MsgBuf::new(16));
    request.attach(vec![bytes.clone().into()]);
    let cx = pair.client.context();
    let call = cx.enqueue_request(session, HOLD, request, keep, 1).expect("there is room");
    pair.run_ms(20);
    assert!(!bytes.is_unique(), "it is sent from there");
    assert!(pair.client.context().cancel(call));
    pair.run_ms(1);
    assert!(bytes.is_unique());
    assert_eq!(pair.client.memory().pool.lent_bytes, 0);
}

#[test]
fn a_buffer_that_was_parted_with_is_not_missed() {
    let mut pair = Joined::new();
    pair.server.register(SPLIT, |server, cx, request| {
        let petasos_endpoint::Payload::Buffer(buf) = request.payload else { panic!("it is long") };
        cx.part_with(&buf);
        server.handled += 1;
        assert!(cx.respond_in(request.handle, buf).is_none(), "it is the response");
    });
    let before = pair.server.memory().pool.lent_bytes;
    for tag in 0..20 {
        pair.call(SPLIT, &pattern(100_000), tag);
        for _ in 0..50 {
            pair.run_ms(if pair.is_over(tag) { 0 } else { 20 });
        }
        assert_eq!(pair.outcome(tag).as_deref(), Ok(&*pattern(100_000)));
    }
    assert_eq!(pair.server.memory().pool.lent_bytes, before);
}
