//! Streams, both ends in one loop.

use std::time::Duration;

use crate::flow::generated::FlowServer;
use crate::flow::*;
use petasos::{Code, Request};
use petasos_buf::PoolConfig;

/// What an end of a stream may hold back: R17, and what the sender queues.
const HELD_BYTES_MAX: u64 = 5 * (128 << 10);

#[test]
fn calls_of_every_shape_work() {
    let world = World::new();
    world.run(async {
        check(&world.client.echo(chunk(3, 5)).await.expect("it answers"), 3, 5);
        let mut chunks = world.client.produce(plan("", 5, 10)).await.expect("it begins");
        assert_eq!(drain(&mut chunks, 10).await, Ok(5));
        assert_eq!(chunks.message().await.map(|none| none.is_none()), Ok(true), "and again");
        let mut upload = world.client.collect();
        for number in 0..4 {
            upload.send(chunk(number, 100)).await.expect("it is taken");
        }
        let sum = upload.finish().await.expect("it answers");
        assert_eq!((sum.chunks(), sum.bytes()), (4, 400));
        let (mut out, mut back) = world.client.chat().await.expect("it begins");
        for number in 0..10 {
            out.send(chunk(number, 20)).await.expect("it is taken");
            let chunk = back.message().await.expect("it goes on").expect("there is one");
            check(&chunk, number, 20);
        }
        out.close();
        assert_eq!(back.message().await.map(|none| none.is_none()), Ok(true));
    });
}

#[test]
fn empty_streams_and_empty_messages_are_told_apart() {
    let world = World::new();
    world.run(async {
        let mut none = world.client.produce(plan("", 0, 0)).await.expect("it begins");
        assert_eq!(drain(&mut none, 0).await, Ok(0));
        let mut three = world.client.produce(plan("", 3, 0)).await.expect("it begins");
        let mut count = 0;
        while let Some(chunk) = three.message().await.expect("it goes on") {
            assert_eq!((chunk.number(), chunk.bytes().len()), (count, 0));
            count += 1;
        }
        assert_eq!(count, 3);
        let sum = world.client.collect().finish().await.expect("it answers");
        assert_eq!((sum.chunks(), sum.bytes()), (0, 0));
        let (out, mut back) = world.client.chat().await.expect("it begins");
        drop(out);
        assert_eq!(drain(&mut back, 0).await, Ok(0));
    });
}

/// Issue 10: the answer of a handler that ran found no memory, and the caller was told that the
/// server had no room for the request. So a retry would have run the handler twice.
#[test]
fn issue_10_an_answer_without_memory_is_not_taken_for_a_refusal() {
    let pool = PoolConfig { lent_bytes_max: 4096, ..PoolConfig::default() };
    let world = World::with_pool(pool);
    world.event_loop.serve(FlowServer::new(world.service.clone())).expect("it is the only service");
    world.run(async {
        let mut chunks = world.client.produce(plan("", 10, 1000)).await.expect("it begins");
        let status = drain(&mut chunks, 1000).await.expect_err("there is no memory");
        assert_eq!((status.code(), status.message()), (Code::Internal, "the handler failed"));
    });
    assert_eq!(world.service.seen().begun, 1);
    world.check_unary();
}

#[test]
fn metadata_and_trailers_travel_both_ways() {
    let world = World::new();
    world.run(async {
        let request = Request::new(plan("", 2, 8)).with_metadata("from", "a").expect("a fine key");
        let mut chunks = world.client.produce(request).await.expect("it begins");
        let head = chunks.head().await.expect("it goes on");
        assert_eq!(head.get("to"), Some("a"));
        assert_eq!(chunks.trailers().map(|_| ()), None);
        assert_eq!(drain(&mut chunks, 8).await, Ok(2));
        assert_eq!(chunks.metadata().get("to"), Some("a"));
        assert_eq!(chunks.trailers().and_then(|trailers| trailers.get("end")), Some("a"));
        let upload = world.client.collect().with_metadata("from", "b").expect("a fine key");
        let sum = upload.finish().await.expect("it answers");
        assert_eq!((sum.metadata().get("to"), sum.trailers().get("end")), (Some("b"), Some("b")));
        let request = Request::new(plan("fail", 1, 8)).with_metadata("from", "c");
        let mut chunks = world.client.produce(request.expect("a fine key")).await.expect("begins");
        let status = drain(&mut chunks, 8).await.expect_err("it fails");
        assert_eq!((status.code(), status.message()), (Code::NotFound, "no more chunks"));
        assert_eq!(status.metadata().get("why"), Some("planned"));
        assert_eq!(chunks.trailers().and_then(|trailers| trailers.get("end")), Some("c"));
        assert_eq!(drain(&mut chunks, 8).await.expect_err("again").code(), Code::NotFound);
    });
    assert_eq!(world.service.seen().metadata.as_deref(), Some("c"));
}

#[test]
fn metadata_can_come_before_any_message() {
    let world = World::new();
    world.run(async {
        let request = Request::new(plan("metadata first", 1, 1)).with_metadata("from", "a");
        let mut chunks = world.client.produce(request.expect("a key")).await.expect("it begins");
        assert_eq!(chunks.head().await.expect("it goes on").get("to"), Some("a"));
        assert_eq!(world.service.seen().sent, 0);
        world.service.release();
        assert_eq!(drain(&mut chunks, 1).await, Ok(1));
    });
}

#[test]
fn r17_a_client_that_does_not_read_stops_its_server_and_nobody_else() {
    let world = World::new();
    let mut chunks =
        world.run(async { world.client.produce(plan("", 10_000, 1000)).await.expect("it begins") });
    for _ in 0..200 {
        world.turn();
    }
    let sent = world.service.seen().sent;
    assert!((100..HELD_BYTES_MAX / 1000).contains(&sent), "{sent} chunks of 1000 bytes");
    world.check_unary();
    let mut others = world.run(async { world.client.produce(plan("", 500, 1000)).await });
    let others = others.as_mut().expect("it begins");
    assert_eq!(world.run(drain(others, 1000)), Ok(500));
    assert_eq!(world.service.seen().sent, sent + 500, "the first still waits");
    assert_eq!(world.run(drain(&mut chunks, 1000)), Ok(10_000), "nothing is lost");
}

#[test]
fn r17_a_server_that_does_not_read_stops_its_client_and_nobody_else() {
    let world = World::new();
    let (client, sent) = (world.client.clone(), std::rc::Rc::new(std::cell::Cell::new(0u32)));
    let count = sent.clone();
    let upload = world.event_loop.spawn(async move {
        let mut upload = client.collect();
        for number in 0..5000 {
            let mut chunk = chunk(number, 1000);
            if number == 0 {
                chunk.edit().set_text("hold");
            }
            upload.send(chunk).await.expect("it is taken");
            count.set(number + 1);
        }
        upload.finish().await.map(|sum| (sum.chunks(), sum.bytes()))
    });
    for _ in 0..200 {
        world.turn();
    }
    let blocked = u64::from(sent.get());
    assert!((100..HELD_BYTES_MAX / 1000).contains(&blocked), "{blocked} chunks of 1000 bytes");
    assert_eq!(world.service.seen().taken, 1);
    world.check_unary();
    world.service.release();
    let sum = world.run(upload).expect("it does not panic");
    assert_eq!(sum.expect("it answers"), (5000, 5_000_000));
}

#[test]
fn a_server_may_end_before_its_client() {
    let world = World::new();
    world.run(async {
        let (mut out, mut back) = world.client.chat().await.expect("it begins");
        out.send(chunk(0, 1)).await.expect("it is taken");
        out.send(asking(1, "end")).await.expect("it is taken");
        check(&back.message().await.expect("it goes on").expect("there is one"), 0, 1);
        assert!(back.message().await.expect("it went well").is_none());
        let refused = out.send(chunk(2, 1)).await.expect_err("nobody reads");
        assert_eq!(refused.code(), Code::Cancelled);
        // While the client is sending.
        let mut upload = world.client.collect();
        upload.send(asking(0, "early")).await.expect("it is taken");
        let mut number = 1;
        while upload.send(chunk(number, 5000)).await.is_ok() {
            number += 1;
        }
        let sum = upload.finish().await.expect("it has answered");
        assert_eq!(sum.chunks(), 1);
        let mut upload = world.client.collect();
        upload.send(asking(0, "fail")).await.expect("it is taken");
        let status = loop {
            if let Err(status) = upload.send(chunk(1, 5000)).await {
                break status;
            }
        };
        assert_eq!(status.code(), Code::Aborted);
        assert_eq!(upload.finish().await.expect_err("it fails").message(), "as asked");
    });
    world.check_unary();
}

#[test]
fn r19_what_a_client_drops_is_dropped_at_the_server() {
    let world = World::new();
    let mut chunks = world.run(async { world.client.produce(plan("hold", 1, 1)).await });
    world.run(async {
        let chunks = chunks.as_mut().expect("it begins");
        assert!(chunks.message().await.expect("it goes on").is_some());
    });
    assert_eq!(world.service.begun_and_dropped(), (1, 0));
    drop(chunks);
    world.turn();
    assert_eq!(world.service.seen().dropped, 1);
    // An upload that is given up does not look finished.
    let mut upload = world.client.collect();
    world.run(async { upload.send(chunk(0, 10)).await.expect("it is taken") });
    world.turn();
    assert_eq!(world.service.taken_and_closed(), (1, 0));
    drop(upload);
    world.turn();
    assert_eq!(world.service.seen().closed, 0);
    // What is dropped before it begins is not sent.
    drop(world.client.produce(plan("hold", 1, 1)));
    drop(world.client.collect());
    world.turn();
    assert_eq!(world.service.seen().begun, 2);
    world.check_unary();
}

#[test]
fn r20_a_deadline_ends_the_call_and_its_handler() {
    let world = World::new();
    let request = Request::new(plan("hold", 2, 1)).with_timeout(Duration::from_millis(20));
    let mut chunks = world.run(async { world.client.produce(request).await.expect("it begins") });
    world.turn();
    assert_eq!(world.service.seen().timeout, Some(Duration::from_millis(20)));
    world.pass_ms(10);
    assert_eq!(world.service.seen().dropped, 0);
    world.pass_ms(20);
    assert_eq!(world.service.seen().dropped, 1);
    let status = world.run(drain(&mut chunks, 1)).expect_err("it is late");
    assert_eq!(status.code(), Code::DeadlineExceeded);
    world.run(async {
        let upload = world.client.collect().with_timeout(Duration::ZERO);
        let late = upload.finish().await.expect_err("it is late");
        assert_eq!(late.code(), Code::DeadlineExceeded);
    });
    assert_eq!(world.service.seen().begun, 1, "what is late is not sent");
    let chat = world.client.chat().with_timeout(Duration::from_millis(5));
    let (mut out, _back) = world.run(async { chat.await.expect("it begins") });
    world.run(async { out.send(asking(0, "hold")).await.expect("it is taken") });
    world.pass_ms(10);
    let late = world.run(async { out.send(chunk(1, 1)).await.expect_err("it is late") });
    assert_eq!(late.code(), Code::DeadlineExceeded);
}

#[test]
fn a_panic_is_an_internal_error_of_its_own_call() {
    let world = World::new();
    world.run(async {
        let (mut calm, mut calm_back) = world.client.chat().await.expect("it begins");
        let mut chunks = world.client.produce(plan("panic", 1, 1)).await.expect("it begins");
        let status = drain(&mut chunks, 1).await.expect_err("the handler panics");
        assert_eq!(status.code(), Code::Internal);
        let (mut out, mut back) = world.client.chat().await.expect("it begins");
        out.send(asking(0, "panic")).await.expect("it is taken");
        assert_eq!(back.message().await.expect_err("it panics").code(), Code::Internal);
        calm.send(chunk(0, 3)).await.expect("it is taken");
        check(&calm_back.message().await.expect("it goes on").expect("one"), 0, 3);
    });
    assert_eq!(world.event_loop.failures(), (2, 0));
}

#[test]
fn more_streams_than_a_session_holds_wait_their_turn() {
    let world = World::new();
    let chats: Vec<_> = (0..200)
        .map(|_| {
            let client = world.client.clone();
            world.event_loop.spawn(async move {
                let (mut out, mut back) = client.chat().await.expect("it begins");
                for number in 0..5 {
                    out.send(chunk(number, 50)).await.expect("it is taken");
                }
                out.close();
                drain(&mut back, 50).await
            })
        })
        .collect();
    for chat in chats {
        assert_eq!(world.run(chat).expect("it does not panic"), Ok(5));
    }
    assert_eq!(world.service.seen().begun, 200);
}

#[test]
fn streams_that_stay_open_get_sessions_of_their_own() {
    let world = World::new();
    let chats: Vec<_> = (0..100)
        .map(|_| {
            let (client, service) = (world.client.clone(), world.service.clone());
            world.event_loop.spawn(async move {
                let (mut out, mut back) = client.chat().await.expect("it begins");
                out.send(chunk(0, 50)).await.expect("it is taken");
                check(&back.message().await.expect("it goes on").expect("one"), 0, 50);
                // Open until all others are, too.
                service.held().await;
                out.send(chunk(1, 50)).await.expect("it is taken");
                out.close();
                check(&back.message().await.expect("it goes on").expect("one"), 1, 50);
                assert!(back.message().await.expect("it went well").is_none());
            })
        })
        .collect();
    for _ in 0..400 {
        if world.service.seen().sent == 100 {
            break;
        }
        world.pass_ms(1);
    }
    assert_eq!(world.service.seen().sent, 100, "all are open at once");
    world.check_unary();
    world.service.release();
    for chat in chats {
        assert_eq!(world.run(chat), Some(()));
    }
}

#[test]
fn a_streaming_is_a_stream() {
    let world = World::new();
    world.run(async {
        let mut chunks = world.client.produce(plan("fail", 3, 5)).await.expect("it begins");
        let mut items = Vec::new();
        let next = |chunks: &mut petasos::Streaming<_>, cx: &mut std::task::Context<'_>| {
            futures_core::Stream::poll_next(std::pin::Pin::new(chunks), cx)
        };
        while let Some(item) = std::future::poll_fn(|cx| next(&mut chunks, cx)).await {
            items.push(item.map(|chunk| chunk.number()).map_err(|status| status.code()));
        }
        assert_eq!(items, [Ok(0), Ok(1), Ok(2), Err(Code::NotFound)]);
    });
}

#[test]
fn messages_of_every_size_come_in_order() {
    let world = World::new();
    let sizes = [0usize, 1, 7, 8, 100, 487, 1000, 1448, 5000, 70_000, 130_000, 3, 1_000_000, 2];
    world.run(async {
        let (mut out, mut back) = world.client.chat().await.expect("it begins");
        for (number, bytes) in (0..).zip(sizes) {
            out.send(chunk(number, bytes)).await.expect("it is taken");
            let chunk = back.message().await.expect("it goes on").expect("there is one");
            check(&chunk, number, bytes);
        }
    });
    // Both ways at once, without waiting for each other.
    let (mut out, mut back) = world.run(async { world.client.chat().await.expect("it begins") });
    let sender = world.event_loop.spawn(async move {
        for number in 0..3000u32 {
            let bytes = sizes[number as usize * 7 % 10];
            out.send(chunk(number, bytes)).await.expect("it is taken");
        }
    });
    world.run(async {
        for number in 0..3000u32 {
            let chunk = back.message().await.expect("it goes on").expect("there is one");
            check(&chunk, number, sizes[number as usize * 7 % 10]);
        }
        assert!(back.message().await.expect("it went well").is_none());
    });
    assert_eq!(world.run(sender), Some(()));
}

#[test]
fn large_messages_travel_both_ways_and_too_large_ones_do_not() {
    let world = World::new();
    world.run(async {
        let (mut out, mut back) = world.client.chat().await.expect("it begins");
        for number in 0..3 {
            out.send(chunk(number, 8_000_000)).await.expect("it is taken");
            let chunk = back.message().await.expect("it goes on").expect("there is one");
            check(&chunk, number, 8_000_000);
        }
        let refused = out.send(chunk(3, 20_000_000)).await.expect_err("it is too large");
        assert_eq!(refused.code(), Code::ResourceExhausted);
        out.send(chunk(3, 10)).await.expect("the stream is not harmed");
        check(&back.message().await.expect("it goes on").expect("one"), 3, 10);
        let mut large = world.client.produce(plan("", 1, 20_000_000)).await.expect("it begins");
        let status = drain(&mut large, 0).await.expect_err("it is too large");
        assert_eq!(status.code(), Code::ResourceExhausted);
    });
}
