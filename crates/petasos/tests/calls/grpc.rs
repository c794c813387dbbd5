//! The same service over HTTP/2: a server's gRPC port, and channels to it.
#![cfg(feature = "grpc")]

use std::time::Duration;

use crate::greeter::generated::{GreeterClient, GreeterServer};
use crate::greeter::*;
use petasos::grpc::GrpcConfig;
use petasos::{Channel, Code, Request, Server};

fn serve(service: &Service, config: GrpcConfig) -> Server {
    let server = Server::builder().add(GreeterServer::new(service.clone()));
    server.grpc("127.0.0.1:0", config).start().expect("loopback has ports")
}

fn target(server: &Server) -> String {
    format!("grpc://{}", server.grpc_address().expect("it has a gRPC port"))
}

/// Runs a test, which fails rather than hangs.
fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let patience = Duration::from_secs(50);
    let runtime = runtime.expect("a runtime starts");
    runtime.block_on(async { tokio::time::timeout(patience, test).await.expect("it hangs") });
}

fn release(service: &Service) {
    let held = {
        let mut seen = service.seen();
        seen.release = true;
        std::mem::take(&mut seen.held)
    };
    held.into_iter().for_each(std::task::Waker::wake);
}

#[test]
fn unary_calls_bring_what_they_bring_over_datagrams() {
    run(async {
        let service = Service::default();
        let server = serve(&service, GrpcConfig::default());
        let channel = Channel::connect(&target(&server)).await.expect("the server listens");
        let client = GreeterClient::new(channel);
        let request = Request::new(name("you")).with_metadata("from", "me").unwrap();
        let response = client.greet(request).await.expect("the handler answers");
        assert_eq!(response.text(), "hello, you");
        assert_eq!(response.metadata().get("to"), Some("me"));
        assert_eq!(response.trailers().get("end"), Some("me"));
        assert_eq!(service.seen().metadata.as_deref(), Some("me"));
        let status = client.greet(name("")).await.expect_err("nobody is named");
        assert_eq!((status.code(), status.message()), (Code::InvalidArgument, "nobody is named"));
        assert_eq!(status.details(), [1, 2, 3]);
        assert_eq!(status.metadata().get("why"), Some("empty"));
        let long = vec![7; 300_000];
        let echo = client.echo(blob(&long)).await.expect("the handler answers");
        assert!(echo.bytes() == long);
    });
}

#[test]
fn panics_and_unknown_methods_have_their_status() {
    run(async {
        let service = Service::default();
        let server = serve(&service, GrpcConfig::default());
        let channel = Channel::connect(&target(&server)).await.expect("the server listens");
        let client = GreeterClient::new(channel);
        for text in ["panic", "hold and panic"] {
            let call = client.greet(name(text));
            release(&service);
            let status = call.await.expect_err("the handler panics");
            assert_eq!(status.code(), Code::Internal, "{status}");
        }
        assert!(client.greet(name("x")).await.is_ok(), "no other call was harmed");
        let empty = Server::builder().grpc("127.0.0.1:0", GrpcConfig::default()).start().unwrap();
        let client = GreeterClient::new(Channel::connect(&target(&empty)).await.unwrap());
        let status = client.greet(name("x")).await.expect_err("nothing is served");
        assert_eq!(status.code(), Code::Unimplemented);
    });
}

#[test]
fn deadlines_and_cancels_reach_the_handler() {
    run(async {
        let service = Service::default();
        let server = serve(&service, GrpcConfig::default());
        let channel = Channel::connect(&target(&server)).await.expect("the server listens");
        let client = GreeterClient::new(channel);
        let request = Request::new(name("hold")).with_timeout(Duration::from_millis(50));
        let status = client.greet(request).await.expect_err("it is held");
        assert_eq!(status.code(), Code::DeadlineExceeded);
        let told = service.seen().timeout.expect("the server knows the timeout");
        assert!(told <= Duration::from_millis(50));
        until(|| service.seen().dropped == 1).await;
        let call = client.greet(name("hold"));
        until(|| service.seen().begun == 2).await;
        drop(call);
        until(|| service.seen().dropped == 2).await;
        let late = Request::new(name("x")).with_timeout(Duration::ZERO);
        let status = client.greet(late).await.expect_err("no time is left");
        assert_eq!(status.code(), Code::DeadlineExceeded);
        assert_eq!(service.seen().begun, 2, "it was not sent");
    });
}

#[test]
fn messages_that_are_too_long_are_refused() {
    run(async {
        let mut config = GrpcConfig::default();
        config.receive_bytes_max = 1000;
        let server = serve(&Service::default(), config);
        let mut config = petasos::grpc::ClientConfig::default();
        config.receive_bytes_max = 500;
        let channel = Channel::builder(&target(&server)).grpc(config).connect().await.unwrap();
        let client = GreeterClient::new(channel);
        for bytes in [1000, 600] {
            let status = client.echo(blob(&vec![1; bytes])).await.expect_err("it is too long");
            assert_eq!(status.code(), Code::ResourceExhausted, "{bytes}");
        }
        assert!(client.echo(blob(&[1; 400])).await.is_ok());
    });
}

/// Waits for what another thread does.
async fn until(what: impl Fn() -> bool) {
    while !what() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Servers that restart, or limit the age of connections, have not failed.
#[test]
fn calls_do_not_fail_while_a_server_sends_its_clients_to_other_connections() {
    run(async {
        let mut config = GrpcConfig::default();
        config.age_max = Some(Duration::from_millis(10));
        let server = serve(&Service::default(), config);
        let channel = Channel::connect(&target(&server)).await.expect("the server listens");
        let client = GreeterClient::new(channel);
        // Some twenty connections, each younger than what a failure would make the next one wait.
        let mut calls = 0;
        let calling = async {
            loop {
                client.greet(name("you")).await.expect("another connection is opened");
                calls += 1;
            }
        };
        let over: Result<(), _> = tokio::time::timeout(Duration::from_secs(1), calling).await;
        assert!(over.is_err(), "it goes on until then");
        assert!(calls > 20, "{calls} is too few");
    });
}
