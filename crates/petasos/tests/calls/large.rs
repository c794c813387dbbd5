//! Long messages: read where they were put together, sent from where they lie, several at once.

use crate::flow;
use crate::greeter;

use std::time::Duration;

use crate::flow::generated::{Chunk, FlowClient, FlowServer};
use crate::greeter::generated::Blob;
use crate::servers::{PATIENCE, client, start};
use petasos::{Code, Loop, LoopConfig, Msg, Request, block_on};
use petasos_endpoint::LocalPolicy;

/// About the lengths at which something changes: where buffers are handed over, where pieces are
/// sent from where they lie, what one packet holds.
const SIZES: [usize; 10] =
    [0, 500, 8_100, 16_300, 16_400, 65_536, 131_000, 131_100, 200_003, 3_000_001];

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 31 + at / 251) as u8).collect()
}

fn adopted(bytes: &[u8]) -> Msg<Blob> {
    let mut blob = Blob::new();
    blob.edit().set_bytes(bytes.to_vec());
    blob
}

fn copied(bytes: &[u8]) -> Msg<Blob> {
    let mut blob = Blob::new();
    blob.edit().set_bytes(bytes);
    blob
}

fn in_one_chunk(bytes: &[u8]) -> Msg<Blob> {
    let mut blob = Msg::<Blob>::with_capacity(bytes.len() + 64);
    blob.edit().set_bytes(bytes);
    blob
}

#[test]
fn messages_of_every_length_come_back_however_they_were_built() {
    let world = greeter::World::new();
    world.event_loop.block_on(async {
        for size in SIZES {
            let bytes = pattern(size);
            for build in [adopted, copied, in_one_chunk] {
                let echo = world.client.echo(build(&bytes)).await.expect("it answers");
                assert!(echo.bytes() == bytes, "{size} bytes");
            }
        }
    });
}

#[test]
fn what_was_received_can_be_sent_on_and_changed() {
    let world = greeter::World::new();
    world.event_loop.block_on(async {
        let bytes = pattern(300_000);
        let first = world.client.echo(adopted(&bytes)).await.expect("it answers").into_message();
        let copy = first.clone();
        let mut second = world.client.echo(first).await.expect("it answers").into_message();
        second.edit().set_bytes(&bytes[..5]);
        assert_eq!(second.bytes(), &bytes[..5]);
        assert!(copy.bytes() == bytes);
        let kept = Msg::into_bytes(copy, |blob| &blob.bytes()[7..]);
        assert!(kept == bytes[7..]);
    });
}

#[test]
fn metadata_go_with_long_messages() {
    let world = greeter::World::new();
    world.event_loop.block_on(async {
        let long = "x".repeat(300_000);
        let request = Request::new(greeter::name(&long)).with_metadata("from", "afar");
        let greeting = world.client.greet(request.expect("a fine key")).await.expect("it answers");
        assert_eq!(greeting.text().len(), "hello, ".len() + long.len());
        assert_eq!(world.service.seen().metadata.as_deref(), Some("afar"));
        assert_eq!(greeting.metadata().get("to"), Some("afar"));
        assert_eq!(greeting.trailers().get("end"), Some("afar"));
        let bytes = pattern(300_000);
        let request = Request::new(adopted(&bytes)).with_metadata("from", "afar");
        let echo = world.client.echo(request.expect("a fine key")).await.expect("it answers");
        assert!(echo.bytes() == bytes);
    });
}

/// Over sockets: each end has a thread, and what one does not receive in time is lost.
#[test]
fn long_calls_at_once_do_not_stand_in_each_others_way() {
    let service = greeter::Service::default();
    for local in [LocalPolicy::Never, LocalPolicy::Auto] {
        let server = start(&service);
        let mut config = LoopConfig::default();
        config.io.local = local;
        let event_loop = Loop::new(config).expect("loopback works");
        let address = server.local_address().expect("it listens");
        let client = greeter::generated::GreeterClient::new(event_loop.channel(address));
        let bytes = bytes::Bytes::from(pattern(8_000_000));
        let callers = (0..4).map(|_| {
            let (client, bytes) = (client.clone(), bytes.clone());
            event_loop.spawn(async move {
                for _ in 0..3 {
                    let mut blob = Blob::new();
                    blob.edit().set_bytes(bytes.clone());
                    let request = Request::new(blob).with_timeout(PATIENCE);
                    let echo = client.echo(request).await.expect("it answers in time");
                    assert!(echo.bytes() == bytes);
                }
            })
        });
        let callers: Vec<_> = callers.collect();
        event_loop.block_on(async {
            for caller in callers {
                caller.await.expect("it does not panic");
            }
        });
    }
}

#[test]
fn long_messages_cross_threads() {
    let service = greeter::Service::default();
    let server = start(&service);
    let threads = (0..3).map(|_| {
        let client = client(&server);
        std::thread::spawn(move || {
            for size in SIZES {
                let bytes = pattern(size);
                let request = Request::new(adopted(&bytes)).with_timeout(Duration::from_secs(40));
                let echo = block_on(client.echo(request)).expect("it answers in time");
                assert!(echo.bytes() == bytes);
            }
        })
    });
    let threads: Vec<_> = threads.collect();
    for thread in threads {
        thread.join().expect("it does not panic");
    }
}

fn check(chunk: &Chunk, number: u32, bytes: &[u8]) {
    assert_eq!(chunk.number(), number);
    assert!(chunk.bytes() == bytes, "{} bytes", bytes.len());
}

#[test]
fn streams_of_messages_of_every_length() {
    let world = flow::World::new();
    world.run(async {
        let (mut out, mut back) = world.client.chat().await.expect("it begins");
        for (number, size) in (0..).zip(SIZES) {
            let bytes = pattern(size);
            let mut chunk = Chunk::new();
            chunk.edit().set_number(number).set_bytes(bytes.clone());
            out.send(chunk).await.expect("it is taken");
            check(&back.message().await.expect("it goes on").expect("one"), number, &bytes);
        }
        out.close();
        assert_eq!(back.message().await.map(|none| none.is_none()), Ok(true));
        for (count, bytes) in [(5, 1_000_000), (40, 40_000), (300, 5_000)] {
            let plan = flow::plan("", count, bytes);
            let mut chunks = world.client.produce(plan).await.expect("it begins");
            assert_eq!(flow::drain(&mut chunks, bytes as usize).await, Ok(count));
            let mut upload = world.client.collect();
            for number in 0..count {
                upload.send(flow::chunk(number, bytes as usize)).await.expect("it is taken");
            }
            let sum = upload.finish().await.expect("it answers");
            assert_eq!((sum.chunks(), sum.bytes()), (count, u64::from(count * bytes)));
        }
    });
}

#[test]
fn a_message_beyond_the_limit_is_refused_and_harms_nothing() {
    let world = flow::World::new();
    world.run(async {
        let status = world.client.echo(flow::chunk(1, 17 << 20)).await.expect_err("too long");
        assert_eq!(status.code(), Code::ResourceExhausted);
        flow::check(&world.client.echo(flow::chunk(2, 1 << 20)).await.expect("fine"), 2, 1 << 20);
    });
}

/// Streams over sockets, with messages that are longer than what flow control allows at once.
#[test]
fn floods_of_long_messages_arrive_in_order() {
    let service = flow::Service::default();
    let server = petasos::Server::builder().add(FlowServer::new(service)).listen("127.0.0.1:0");
    let server = server.start().expect("loopback has ports");
    let mut config = LoopConfig::default();
    config.io.local = LocalPolicy::Never;
    let event_loop = Loop::new(config).expect("loopback works");
    let client = FlowClient::new(event_loop.channel(server.local_address().expect("it listens")));
    event_loop.block_on(async {
        let (mut out, mut back) = client.chat().await.expect("it begins");
        let sender = event_loop.spawn(async move {
            for number in 0..12 {
                out.send(flow::chunk(number, 2_000_000)).await.expect("it is taken");
            }
        });
        assert_eq!(flow::drain(&mut back, 2_000_000).await, Ok(12));
        sender.await.expect("it does not panic");
    });
}
