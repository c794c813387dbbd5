//! Streams that servers refuse begin elsewhere (R20).

use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::time::Duration;

use crate::flow::generated::{FlowClient, FlowServer};
use crate::flow::*;
use petasos::{Channel, Loop, LoopConfig, Server, Status, block_on};

/// Not where other tests listen: the address of a server that has gone must not be another's.
const ADDRESS: &str = "127.0.7.1:0";
#[cfg(feature = "grpc")]
const GRPC_ADDRESS: &str = "127.0.7.2:0";

fn serve(service: &Service, scheme: &str) -> Server {
    let server = Server::builder().add(FlowServer::new(service.clone()));
    let server = match scheme {
        #[cfg(feature = "grpc")]
        "grpc" => server.grpc(GRPC_ADDRESS, petasos::grpc::GrpcConfig::default()),
        _ => server.listen(ADDRESS),
    };
    server.start().expect("loopback has ports")
}

fn address_of(server: &Server) -> SocketAddr {
    #[cfg(feature = "grpc")]
    if let Some(address) = server.grpc_address() {
        return address;
    }
    server.local_address().expect("it listens")
}

fn target(servers: &[&Server], scheme: &str) -> String {
    let addresses = servers.iter().map(|server| address_of(server).to_string());
    format!("{scheme}://{}", addresses.collect::<Vec<_>>().join(","))
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
fn chat_while_servers_drain(scheme: &str, (chunks, bytes): (u32, usize), run: impl Fn(Stream<'_>)) {
    let (stays, goes) = (Service::default(), Service::default());
    let staying = serve(&stays, scheme);
    let going: Vec<Server> = (0..6).map(|_| serve(&goes, scheme)).collect();
    let all: Vec<&Server> = going.iter().chain([&staying]).collect();
    let mut client = None;
    run(Box::pin(async {
        let channel = Channel::connect(&target(&all, scheme)).await;
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
    chat_while_servers_drain("petasos", (5, 100), |stream| block_on(stream));
}

#[test]
fn r20_likewise_of_streams_of_more_than_one_exchange() {
    chat_while_servers_drain("petasos", (3, 150_000), |stream| block_on(stream));
}

#[test]
fn r20_likewise_in_a_loop() {
    let event_loop = Loop::new(LoopConfig::default()).expect("a loop starts");
    chat_while_servers_drain("petasos", (5, 100), |stream| event_loop.block_on(stream));
}

#[cfg(feature = "grpc")]
#[test]
fn r20_likewise_over_grpc() {
    // More than a window, and no more than is kept.
    for chunks in [(5, 100), (3, 80_000)] {
        chat_while_servers_drain("grpc", chunks, |stream| block_on(stream));
    }
}
