//! Policies that limit messages' lengths, for calls of all kinds, over both transports.
#![cfg(feature = "grpc")]

use crate::flow;

use std::fmt::Debug;
use std::task::Poll;
use std::time::Duration;

use crate::flow::generated::{FlowClient, FlowServer};
use crate::flow::{Service, check, chunk, plan};
use crate::hooks::Journal;
use petasos::grpc::GrpcConfig;
use petasos::{Channel, Code, Loop, LoopConfig, Server, Status};

/// Of protobuf's encoding of a chunk beside its bytes: of the first, and of others.
const FIRST: u32 = 3;
const OTHER: u32 = 5;

/// Where a call is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum From {
    /// A thread without a loop, over datagrams.
    Afar,
    /// A loop, over datagrams.
    Loop,
    Grpc,
}

struct World {
    journal: Journal,
    server: Server,
}

impl World {
    fn new() -> World {
        let journal = Journal::default();
        let server = Server::builder()
            .add(FlowServer::new(Service::default()))
            .intercept(journal.spy("server"))
            .listen("127.0.0.1:0")
            .grpc("127.0.0.1:0", GrpcConfig::default());
        World { journal, server: server.start().expect("loopback has ports") }
    }

    async fn client(&self, from: From, limits: &str) -> FlowClient {
        let target = match from {
            From::Grpc => format!("grpc://{}", self.server.grpc_address().expect("it has a port")),
            _ => format!("petasos://{}", self.server.local_address().expect("it listens")),
        };
        let config = format!(r#"{{"methodConfig": [{{"name": [{{}}], {limits}}}]}}"#);
        let channel = Channel::builder(&target).service_config(&config).connect();
        FlowClient::new(channel.await.expect("the server is up"))
    }

    /// How many calls have come, once all of them are over. A loop of the caller turns meanwhile.
    async fn calls(&self) -> usize {
        let count = |what: &str| self.journal.containing(&format!("server {what}"));
        for _ in 0..50_000 {
            if count("ended") == count("call") {
                return count("call");
            }
            let mut is_first = true;
            std::future::poll_fn(|cx| match std::mem::replace(&mut is_first, false) {
                true => {
                    std::thread::sleep(Duration::from_millis(1));
                    cx.waker().wake_by_ref();
                    Poll::Pending
                }
                false => Poll::Ready(()),
            })
            .await;
        }
        panic!("a call does not end");
    }
}

fn requests(bytes: u32) -> String {
    format!(r#""maxRequestMessageBytes": {bytes}"#)
}

fn responses(bytes: u32) -> String {
    format!(r#""maxResponseMessageBytes": {bytes}"#)
}

fn is_too_long<T: Debug>(outcome: Result<T, Status>, length: u32, limit: u32) {
    let status = outcome.expect_err("it is too long");
    assert_eq!(status.code(), Code::ResourceExhausted, "{status:?}");
    let text = status.message();
    assert!(text.contains(&limit.to_string()), "{text}");
    assert!(length == 0 || text.contains(&length.to_string()), "{text}");
}

/// Runs a test from everywhere. It fails rather than hangs.
fn everywhere<F: Future<Output = ()>>(test: impl Fn(From) -> F) {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(2).enable_all().build().expect("a runtime starts");
    let patience = Duration::from_secs(100);
    for from in [From::Afar, From::Grpc] {
        runtime
            .block_on(async { tokio::time::timeout(patience, test(from)).await })
            .expect("hangs");
    }
    let event_loop = Loop::new(LoopConfig::default()).expect("a loop starts");
    event_loop.block_on(test(From::Loop));
}

#[test]
fn a_request_that_is_too_long_never_leaves() {
    everywhere(async |from| {
        let world = World::new();
        let client = world.client(from, &requests(FIRST + 200)).await;
        let echoed = client.echo(chunk(0, 200)).await.expect("it is as long as it may be");
        check(&echoed, 0, 200);
        is_too_long(client.echo(chunk(0, 201)).await, FIRST + 201, FIRST + 200);
        let opened = client.produce(plan(&"x".repeat(300), 1, 1)).await.map(|_| ());
        is_too_long(opened, 0, FIRST + 200);
        assert_eq!(world.calls().await, 1, "{from:?}");
        // Responses may be longer.
        let mut chunks = client.produce(plan("", 1, 1000)).await.expect("it begins");
        check(&chunks.message().await.expect("it comes").expect("a message"), 0, 1000);
    });
}

#[test]
fn a_response_that_is_too_long_is_not_given() {
    everywhere(async |from| {
        let world = World::new();
        let client = world.client(from, &responses(FIRST + 200)).await;
        let echoed = client.echo(chunk(0, 200)).await.expect("it is as long as it may be");
        check(&echoed, 0, 200);
        let length = if from == From::Grpc { 0 } else { FIRST + 201 };
        is_too_long(client.echo(chunk(0, 201)).await, length, FIRST + 200);
        assert_eq!(world.calls().await, 2, "{from:?}: it has run");
        let mut upload = client.collect();
        upload.send(chunk(0, 1000)).await.expect("requests may be longer");
        assert_eq!(upload.finish().await.expect("the sum is short").bytes(), 1000);
    });
}

#[test]
fn each_message_of_a_stream_is_judged() {
    everywhere(async |from| {
        let world = World::new();
        let client = world.client(from, &responses(OTHER + 200)).await;
        let mut chunks = client.produce(plan("", 3, 200)).await.expect("it begins");
        assert_eq!(flow::drain(&mut chunks, 200).await, Ok(3), "{from:?}");
        // The first is shorter by its number.
        let mut chunks = client.produce(plan("hold", 3, 201)).await.expect("it begins");
        check(&chunks.message().await.expect("it is short").expect("a message"), 0, 201);
        let length = if from == From::Grpc { 0 } else { OTHER + 201 };
        is_too_long(chunks.message().await, length, OTHER + 200);
        is_too_long(chunks.message().await, length, OTHER + 200);
        // The handler, which holds, was dropped.
        assert_eq!(world.calls().await, 2, "{from:?}");
    });
}

#[test]
fn a_request_of_a_stream_that_is_too_long_ends_the_call() {
    everywhere(async |from| {
        let world = World::new();
        let client = world.client(from, &requests(FIRST + 200)).await;
        let mut upload = client.collect();
        upload.send(chunk(0, 200)).await.expect("it is as long as it may be");
        is_too_long(upload.send(chunk(0, 201)).await, FIRST + 201, FIRST + 200);
        assert!(upload.send(chunk(1, 1)).await.is_err(), "the call is over");
        is_too_long(upload.finish().await, FIRST + 201, FIRST + 200);
        let (mut out, mut back) = client.chat().await.expect("it begins");
        out.send(chunk(0, 200)).await.expect("it is as long as it may be");
        let echoed = back.message().await.unwrap_or_else(|why| panic!("{from:?}: {why}"));
        check(&echoed.expect("a message"), 0, 200);
        is_too_long(out.send(chunk(0, 201)).await, FIRST + 201, FIRST + 200);
        is_too_long(back.message().await, FIRST + 201, FIRST + 200);
        assert_eq!(world.calls().await, 2, "{from:?}");
    });
}
