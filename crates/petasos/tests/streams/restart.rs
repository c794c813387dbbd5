//! Streams that servers refuse begin elsewhere (R20).

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use crate::flow::generated::{FlowClient, FlowServer};
use crate::flow::*;
use petasos::{Channel, Loop, LoopConfig, Server, Status, block_on};

fn serve(service: &Service) -> Server {
    let server = Server::builder().add(FlowServer::new(service.clone()));
    // Not where other tests listen: the address of a server that has gone must not be another's.
    server.listen("127.0.7.1:0").start().expect("loopback has ports")
}

fn target(servers: &[&Server]) -> String {
    let address = |server: &&Server| server.local_address().expect("it listens").to_string();
    format!("petasos://{}", servers.iter().map(address).collect::<Vec<_>>().join(","))
}

/// A stream each way: requests are sent before anything is known of the server.
async fn chat(client: &FlowClient, chunks: u32, bytes: usize) -> Result<(), Status> {
    let (mut out, mut back) = client.chat().await?;
    for number in 0..chunks {
        out.send(chunk(number, bytes)).await?;
    }
    out.close();
    for number in 0..chunks {
        let chunk = back.message().await?;
        check(&chunk.expect("there is one for each"), number, bytes);
    }
    let end = back.message().await?;
    assert!(end.is_none(), "no chunk comes twice");
    Ok(())
}

type Stream<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

/// Chats go on beginning while servers go; none fails.
fn chat_while_servers_drain(chunks: u32, bytes: usize, run: impl Fn(Stream<'_>)) {
    let (stays, goes) = (Service::default(), Service::default());
    let staying = serve(&stays);
    let going: Vec<Server> = (0..6).map(|_| serve(&goes)).collect();
    let all: Vec<&Server> = going.iter().chain([&staying]).collect();
    let mut client = None;
    run(Box::pin(async {
        let channel = Channel::connect(&target(&all)).await;
        client = Some(FlowClient::new(channel.expect("the servers are up")));
    }));
    let client = client.expect("it is connected");
    let draining = std::thread::spawn(move || {
        for server in going {
            std::thread::sleep(Duration::from_millis(20));
            block_on(server.drain(PATIENCE));
        }
    });
    while !draining.is_finished() {
        run(Box::pin(async {
            chat(&client, chunks, bytes).await.expect("it begins elsewhere");
        }));
    }
    draining.join().expect("it does not panic");
    assert!(goes.seen().begun > 0 && stays.seen().begun > 0, "both had streams");
}

#[test]
fn r20_what_a_draining_server_refuses_begins_elsewhere() {
    chat_while_servers_drain(5, 100, |stream| block_on(stream));
}

#[test]
fn r20_likewise_of_streams_of_more_than_one_exchange() {
    chat_while_servers_drain(3, 150_000, |stream| block_on(stream));
}

#[test]
fn r20_likewise_in_a_loop() {
    let event_loop = Loop::new(LoopConfig::default()).expect("a loop starts");
    chat_while_servers_drain(5, 100, |stream| event_loop.block_on(stream));
}
