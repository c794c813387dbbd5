//! When connections end: idle ones, old ones, those of clients that ping too often, and a draining
//! server's.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

mod common;

use std::time::Duration;

use common::frames::{self, GOAWAY, PING, begin, frame};
use common::{Server, Service, open, run, unary};
use petasos_call::{Code, Metadata, Status};
use petasos_grpc::{ClientConfig, Connection, GrpcConfig, Keepalive, PingLimit};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

const SHORT: Duration = Duration::from_millis(50);
const LONG: Duration = Duration::from_secs(3600);
const ENHANCE_YOUR_CALM: u8 = 11;
const ACK: u8 = 1;

/// A server with `/echo`, `/wait`, which never answers, and `/slow`, which takes six times `SHORT`.
async fn server(change: impl FnOnce(&mut GrpcConfig)) -> Server {
    let mut config = GrpcConfig::default();
    change(&mut config);
    let service = Service::new()
        .with("/wait", |call| async move {
            std::future::pending::<()>().await;
            drop(call);
        })
        .with("/slow", |mut call| async move {
            call.responses.head(Metadata::new());
            tokio::time::sleep(6 * SHORT).await;
            call.responses.end(Status::ok(), Metadata::new());
        });
    Server::start(service, config).await
}

/// Calls `/slow`, which answers nothing but its status.
async fn slow(connection: &Connection) -> Result<(), Status> {
    let (writer, mut reader) = open(connection, "/slow").await;
    writer.close();
    reader.next().await.map(|message| assert_eq!(message, None))
}

/// Reads until the server ends the stream; gives the words and the code of its last GOAWAY.
async fn last_words(stream: &mut TcpStream) -> Option<(u8, Vec<u8>)> {
    let mut last = None;
    while let Some((kind, _, payload)) = frames::next(stream).await {
        if kind == GOAWAY {
            last = Some((payload[7], payload[8..].to_vec()));
        }
    }
    last
}

#[test]
fn connections_without_calls_are_left_in_time() {
    run(async {
        let server = server(|config| config.idle_timeout = Some(SHORT)).await;
        let connection = server.connect().await;
        slow(&connection).await.unwrap();
        assert!(!connection.is_closed(), "a connection with calls is not idle");
        connection.closed().await;
        let status = unary(&connection, "/echo", b"late").await.unwrap_err();
        assert_eq!(status.code(), Code::Unavailable);
        // A client that does not answer is left, too.
        assert_eq!(last_words(&mut begin(&server).await).await, Some((0, Vec::new())));
    });
}

#[test]
fn calls_of_old_connections_end_in_peace() {
    run(async {
        let server = server(|config| config.age_max = Some(SHORT)).await;
        let connection = server.connect().await;
        slow(&connection).await.unwrap();
        connection.closed().await;
    });
}

#[test]
fn calls_of_old_connections_end_with_their_grace() {
    run(async {
        let set = |config: &mut GrpcConfig| {
            (config.age_max, config.age_grace) = (Some(SHORT), Some(SHORT));
        };
        let server = server(set).await;
        let connection = server.connect().await;
        let (_writer, mut reader) = open(&connection, "/wait").await;
        assert_eq!(reader.next().await.unwrap_err().code(), Code::Unavailable);
        connection.closed().await;
    });
}

#[test]
fn clients_that_ping_too_often_are_told_so() {
    run(async {
        let server = server(|_| {}).await;
        let mut stream = begin(&server).await;
        stream.write_all(&frame(PING, 0, 0, &[7; 8]).repeat(4)).await.unwrap();
        let words = last_words(&mut stream).await;
        assert_eq!(words, Some((ENHANCE_YOUR_CALM, b"too_many_pings".to_vec())));
    });
}

#[test]
fn pings_that_are_allowed_are_answered() {
    run(async {
        let limit = PingLimit { interval_min: Duration::ZERO, without_calls: true };
        for limit in [None, Some(limit)] {
            let server = server(|config| config.ping_limit = limit).await;
            let mut stream = begin(&server).await;
            for number in 0..20 {
                stream.write_all(&frame(PING, 0, 0, &[number; 8])).await.unwrap();
                loop {
                    let (kind, flags, payload) = frames::next(&mut stream).await.unwrap();
                    if kind == PING {
                        assert_eq!((flags, payload), (ACK, vec![number; 8]));
                        break;
                    }
                }
            }
        }
    });
}

#[test]
fn clients_ping_only_while_they_have_calls() {
    run(async {
        let server = server(|_| {}).await;
        let connect = |without_calls| {
            let mut config = ClientConfig::default();
            let interval = Duration::from_millis(10);
            config.keepalive = Some(Keepalive { interval, timeout: LONG, without_calls });
            let target = server.address.to_string();
            async move { Connection::connect(&target, config).await.unwrap() }
        };
        connect(true).await.closed().await;
        let connection = connect(false).await;
        tokio::time::sleep(4 * SHORT).await;
        assert!(!connection.is_closed(), "nothing is asked of a connection without calls");
        let (_writer, mut reader) = open(&connection, "/wait").await;
        assert_eq!(reader.next().await.unwrap_err().code(), Code::Unavailable);
    });
}

#[test]
fn a_drain_does_not_wait_for_clients_without_calls() {
    run(async {
        let server = server(|_| {}).await;
        let connection = server.connect().await;
        unary(&connection, "/echo", b"once").await.unwrap();
        // One answers nothing, and one never begins.
        let mut silent = begin(&server).await;
        while frames::next(&mut silent).await.unwrap().0 == frames::SETTINGS {
            silent.write_all(&frame(PING, 0, 0, &[0; 8])).await.unwrap();
        }
        let _mute = TcpStream::connect(server.address).await.unwrap();
        let (_writer, mut reader) = open(&server.connect().await, "/slow").await;
        reader.head().await.unwrap();
        server.drain.start(LONG);
        assert_eq!(reader.next().await, Ok(None), "what runs may end");
        server.task.await.unwrap();
        assert_eq!(last_words(&mut silent).await, Some((0, Vec::new())));
        connection.closed().await;
    });
}

/// Otherwise a client takes the server for one that cannot be reached, and waits before it tries
/// again.
#[test]
fn a_client_that_connects_as_a_server_drains_is_told_to_connect_elsewhere() {
    run(async {
        let server = server(|_| {}).await;
        let mut late = TcpStream::connect(server.address).await.unwrap();
        // The server has accepted the connection when it serves the next one.
        unary(&server.connect().await, "/echo", b"once").await.unwrap();
        server.drain.start(LONG);
        tokio::time::sleep(SHORT).await;
        frames::greet(&mut late).await;
        assert_eq!(last_words(&mut late).await, Some((0, Vec::new())));
        server.task.await.unwrap();
    });
}
