//! Messages in other forms than the native one: between versions of a schema, and compressed.

use std::future::Future;
use std::net::{Ipv4Addr, SocketAddr};

use crate::flow;
use crate::flow::generated::{FlowClient, FlowServer};
use crate::greeter::generated as older;
use crate::versions::{Friendly, newer, older_name, other};
use petasos::rt::Service;
use petasos::{Channel, Code, Codec, Loop, LoopConfig, Request};

/// Runs `calls` in a loop that serves `service`, over a channel to it.
fn with<F: Future>(service: impl Service, calls: impl FnOnce(Channel) -> F) -> F::Output {
    with_codec(service, Codec::IDENTITY, calls)
}

fn with_codec<F: Future>(
    service: impl Service,
    codec: Codec,
    calls: impl FnOnce(Channel) -> F,
) -> F::Output {
    let listen = Some(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 0));
    let event_loop =
        Loop::new(LoopConfig { listen, ..LoopConfig::default() }).expect("loopback works");
    event_loop.serve(service).expect("the service is right");
    let target = format!("petasos://{}", event_loop.local_address().expect("the loop listens"));
    let channel = Channel::builder(&target).compress(codec).connect_lazily();
    event_loop.block_on(calls(channel.expect("the target is right")))
}

#[test]
fn r3_an_old_client_calls_a_new_server() {
    with(newer::GreeterServer::new(Friendly), async |channel| {
        let client = older::GreeterClient::new(channel);
        let greeting = client.greet(older_name("Ada")).await.expect("they understand each other");
        assert_eq!(greeting.text(), "hello, Ada");
        // What is the same in both still travels as it lies.
        let mut blob = older::Blob::new();
        blob.edit().set_bytes(vec![7; 5000]);
        let echo = client.echo(blob).await.expect("the same message in both");
        assert_eq!(echo.bytes(), [7; 5000]);
    });
}

#[test]
fn r3_a_new_client_calls_an_old_server() {
    with(older::GreeterServer::new(Friendly), async |channel| {
        let client = newer::GreeterClient::new(channel);
        let mut name = newer::Name::new();
        name.edit().set_name("Ada").set_title("Countess");
        let greeting = client.greet(name.clone()).await.expect("they understand each other");
        assert_eq!((greeting.text(), greeting.words()), ("hello, Ada", 0));
        let status = client.anew(name).await.expect_err("the old server lacks it");
        assert_eq!(status.code(), Code::Unimplemented);
    });
}

#[test]
fn r3_who_does_not_understand_is_told_why() {
    with(older::GreeterServer::new(Friendly), async |channel| {
        let client = other::GreeterClient::new(channel);
        let status = client.greet(other::Name::new()).await.expect_err("a name is no number");
        assert_eq!(status.code(), Code::FailedPrecondition);
        assert!(status.message().contains("hello.Name.name (field 1)"), "{status}");
    });
}

#[test]
fn r8_long_bodies_are_compressed_both_ways_and_come_back() {
    for codec in [Codec::GZIP, Codec::LZ4] {
        for bytes in [0, 10, 1500, 300_000] {
            with_codec(older::GreeterServer::new(Friendly), codec, async |channel| {
                let mut blob = older::Blob::new();
                blob.edit().set_bytes(vec![9; bytes]);
                let echo = older::GreeterClient::new(channel).echo(blob).await;
                assert_eq!(echo.expect("both speak it").bytes(), vec![9; bytes]);
            });
        }
    }
}

#[test]
fn r8_between_versions_too_and_with_metadata() {
    with_codec(newer::GreeterServer::new(Friendly), Codec::LZ4, async |channel| {
        let client = older::GreeterClient::new(channel);
        let long = "Ada".repeat(1000);
        let request = Request::new(older_name(&long)).with_metadata("user", "ada");
        let greeting = client.greet(request.expect("a fine key")).await.expect("both speak it");
        assert_eq!(greeting.text(), format!("hello, {long}"));
    });
}

#[test]
fn r8_streams_are_compressed_both_ways_and_come_back() {
    for codec in [Codec::GZIP, Codec::LZ4] {
        with_codec(FlowServer::new(flow::Service::default()), codec, async |channel| {
            let client = FlowClient::new(channel);
            let mut chunks = client.produce(flow::plan("", 3, 50_000)).await.expect("it begins");
            assert_eq!(flow::drain(&mut chunks, 50_000).await, Ok(3));
            let (mut out, mut back) = client.chat().await.expect("it begins");
            for (number, bytes) in [(0, 90_000), (1, 10), (2, 2000)] {
                out.send(flow::chunk(number, bytes)).await.expect("it is taken");
                let chunk = back.message().await.expect("it goes on").expect("there is one");
                flow::check(&chunk, number, bytes);
            }
        });
    }
}
