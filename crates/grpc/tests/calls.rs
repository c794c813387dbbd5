//! Calls between our own two ends.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

mod common;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use common::frames::{DATA, GOAWAY, SETTINGS, frame, next};
use common::{Server, Service, at, head, message, open, run, unary};
use petasos_call::{Code, Metadata, Retry, Status};
use petasos_grpc::{
    ClientConfig, ClientHead, Compression, Connection, FrameReader, FrameWriter, GrpcConfig,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::{Notify, mpsc};

/// Far longer than any test.
const LONG: Duration = Duration::from_secs(600);

/// Sends when it is dropped.
struct Dropped(mpsc::UnboundedSender<()>);

impl Drop for Dropped {
    fn drop(&mut self) {
        let _ = self.0.send(());
    }
}

/// A service with `/wait`, whose handlers wait for ever and say when they are dropped.
fn waiting() -> (Service, mpsc::UnboundedReceiver<()>) {
    let (sender, dropped) = mpsc::unbounded_channel();
    let service = Service::new().with("/wait", move |mut call| {
        let dropped = Dropped(sender.clone());
        async move {
            call.responses.head(Metadata::new());
            std::future::pending::<()>().await;
            drop((call, dropped));
        }
    });
    (service, dropped)
}

#[test]
fn messages_of_all_sizes_come_back() {
    run(async {
        let server = Server::start(Service::new(), GrpcConfig::default()).await;
        let connection = server.connect().await;
        for compression in [Compression::Identity, Compression::Gzip] {
            for bytes in [0, 1, 1023, 1024, 70_000, 4 << 20] {
                let sent: Vec<u8> = (0..bytes).map(|index| (index / 7) as u8).collect();
                let head = ClientHead { compression, ..ClientHead::default() };
                let (mut writer, mut reader) = connection.call(&at("/echo"), &head).await.unwrap();
                writer.send(message(&sent)).await.unwrap();
                writer.close();
                assert!(reader.single().await.unwrap() == sent, "{bytes} bytes");
            }
        }
    });
}

/// Three turns of each of so many calls, all at once.
async fn converse(calls: Vec<(FrameWriter, FrameReader)>) {
    let turns = calls.into_iter().map(|(mut writer, mut reader)| {
        tokio::spawn(async move {
            for turn in 0..3_u8 {
                writer.send(message(&[turn])).await.unwrap();
                assert_eq!(reader.next().await.unwrap().as_deref(), Some(&[turn][..]));
            }
            writer.close();
            assert_eq!(reader.next().await.unwrap(), None);
        })
    });
    for turn in turns.collect::<Vec<_>>() {
        turn.await.unwrap();
    }
}

/// More calls than a server takes at a time: some wait, and come to their turn.
const MANY: usize = 300;

async fn many(connection: &Connection) -> Vec<(FrameWriter, FrameReader)> {
    let mut calls = Vec::new();
    for _ in 0..MANY {
        calls.push(open(connection, "/echo").await);
    }
    calls
}

#[test]
fn a_conversation_goes_in_turns_over_many_calls_at_once() {
    run(async {
        let server = Server::start(Service::new(), GrpcConfig::default()).await;
        let connection = server.connect().await;
        converse(many(&connection).await).await;
    });
}

#[test]
fn a_connection_is_open_once_its_server_speaks() {
    run(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let target = listener.local_addr().unwrap().to_string();
        let connecting = tokio::spawn(async move {
            Connection::connect(&target, ClientConfig::default()).await.unwrap()
        });
        // The system has accepted it, but nobody has read anything so far, nor said.
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert!(!connecting.is_finished());
        let _server = Server::start_on(listener, Service::new(), GrpcConfig::default());
        converse(many(&connecting.await.unwrap()).await).await;
    });
}

#[test]
fn a_server_that_speaks_something_else_or_hangs_up_is_not_connected_to() {
    run(async {
        for words in [&b"HTTP/1.1 400 Bad Request\r\n\r\n"[..], b"", b"\0\0\0\x04"] {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let target = listener.local_addr().unwrap().to_string();
            tokio::spawn(async move {
                let (mut stream, _) = listener.accept().await.unwrap();
                stream.write_all(words).await.unwrap();
                let _ = stream.read(&mut [0; 100]).await;
            });
            let connected = Connection::connect(&target, ClientConfig::default()).await;
            let status = connected.err().expect("nobody speaks HTTP/2");
            assert_eq!(status.code(), Code::Unavailable);
            assert!(status.message().contains("does not speak HTTP/2"), "{status}");
        }
    });
}

#[test]
fn metadata_and_status_arrive() {
    run(async {
        let service = Service::new().with("/fail", |mut call| async move {
            let mut trailers = Metadata::new();
            let text = call.metadata.get("key").unwrap_or("none").to_owned();
            trailers.append("trailing", &text).unwrap();
            call.responses.head(call.metadata.clone());
            let status = Status::aborted("tränen").with_details(vec![8, 10]);
            call.responses.end(status, trailers);
        });
        let server = Server::start(service, GrpcConfig::default()).await;
        let connection = server.connect().await;
        let mut metadata = Metadata::new();
        metadata.append("key", "value").unwrap();
        metadata.append_bin("raw-bin", &[0, 255]).unwrap();
        let head = ClientHead { metadata, ..ClientHead::default() };
        let (_writer, mut reader) = connection.call(&at("/fail"), &head).await.unwrap();
        let initial = reader.head().await.unwrap();
        assert_eq!(
            (initial.get("key"), initial.get_bin("raw-bin")),
            (Some("value"), Some(&[0, 255][..]))
        );
        let status = reader.next().await.unwrap_err();
        assert_eq!((status.code(), status.message()), (Code::Aborted, "tränen"));
        assert_eq!(status.details(), [8, 10]);
        assert_eq!(reader.trailers().get("trailing"), Some("value"));
        assert_eq!(reader.next().await.unwrap_err(), status);
    });
}

#[test]
fn handlers_that_fail_end_their_own_call_only() {
    run(async {
        let service = Service::new()
            .with("/panic", |_| async { panic!("on purpose") })
            .with("/late-panic", |_call| async {
                tokio::task::yield_now().await;
                panic!("on purpose")
            })
            .with("/silent", |_| async {});
        let server = Server::start(service, GrpcConfig::default()).await;
        let connection = server.connect().await;
        for path in ["/panic", "/late-panic", "/silent"] {
            assert_eq!(unary(&connection, path, b"").await.unwrap_err().code(), Code::Internal);
        }
        let unknown = unary(&connection, "/unknown", b"").await.unwrap_err();
        assert_eq!(unknown.code(), Code::Unimplemented);
        assert_eq!(unary(&connection, "/echo", b"still").await.unwrap(), "still");
    });
}

#[test]
fn one_message_means_one() {
    run(async {
        let server = Server::start(Service::new(), GrpcConfig::default()).await;
        let connection = server.connect().await;
        for requests in [0, 2] {
            let (mut writer, mut reader) = open(&connection, "/echo").await;
            for _ in 0..requests {
                writer.send(message(b"m")).await.unwrap();
            }
            writer.close();
            assert_eq!(reader.single().await.unwrap_err().code(), Code::Unimplemented);
        }
    });
}

#[test]
fn messages_that_are_too_long_are_refused_by_either_end() {
    run(async {
        let mut config = GrpcConfig::default();
        config.receive_bytes_max = 1000;
        let server = Server::start(Service::new(), config).await;
        let connection = server.connect().await;
        assert_eq!(unary(&connection, "/echo", &[0; 1000]).await.unwrap().len(), 1000);
        let status = unary(&connection, "/echo", &[0; 1001]).await.unwrap_err();
        assert_eq!(status.code(), Code::ResourceExhausted);
        let head = ClientHead { receive_bytes_max: Some(10), ..ClientHead::default() };
        let (mut writer, mut reader) = connection.call(&at("/echo"), &head).await.unwrap();
        writer.send(message(&[0; 11])).await.unwrap();
        assert_eq!(reader.next().await.unwrap_err().code(), Code::ResourceExhausted);
    });
}

#[test]
fn a_deadline_ends_both_ends() {
    run(async {
        let (service, mut dropped) = waiting();
        let server = Server::start(service, GrpcConfig::default()).await;
        let connection = server.connect().await;
        let call = connection.call(&at("/wait"), &head(Some(Duration::from_millis(50)))).await;
        let (mut writer, mut reader) = call.unwrap();
        assert_eq!(reader.next().await.unwrap_err().code(), Code::DeadlineExceeded);
        dropped.recv().await.unwrap();
        let refused = writer.send(message(b"late")).await.unwrap_err();
        assert_eq!(refused.code(), Code::DeadlineExceeded);
    });
}

#[test]
fn giving_up_reaches_the_handler() {
    run(async {
        let (service, mut dropped) = waiting();
        let server = Server::start(service, GrpcConfig::default()).await;
        let connection = server.connect().await;
        let (_writer, mut reader) = open(&connection, "/wait").await;
        reader.head().await.unwrap();
        reader.cancel();
        assert_eq!(reader.next().await.unwrap_err().code(), Code::Cancelled);
        dropped.recv().await.unwrap();
        let (_writer, mut reader) = open(&connection, "/wait").await;
        reader.head().await.unwrap();
        drop(reader);
        dropped.recv().await.unwrap();
        let (_writer, mut reader) = open(&connection, "/wait").await;
        reader.head().await.unwrap();
        drop((connection, reader, _writer));
        dropped.recv().await.unwrap();
    });
}

#[test]
fn draining_lets_calls_end_and_takes_no_others() {
    run(async {
        let go = Arc::new(Notify::new());
        let waits = go.clone();
        let service = Service::new().with("/slow", move |mut call| {
            let go = waits.clone();
            async move {
                call.responses.head(Metadata::new());
                go.notified().await;
                let _ = call.responses.send(message(b"done")).await;
                call.responses.end(Status::ok(), Metadata::new());
            }
        });
        let server = Server::start(service, GrpcConfig::default()).await;
        let connection = server.connect().await;
        let (_writer, mut reader) = open(&connection, "/slow").await;
        reader.head().await.unwrap();
        server.drain.start(LONG);
        assert!(server.drain.is_started());
        while unary(&connection, "/echo", b"").await.is_ok() {}
        let refused = unary(&connection, "/echo", b"").await.unwrap_err();
        assert_eq!(refused.code(), Code::Unavailable);
        go.notify_one();
        assert_eq!(reader.single().await.unwrap(), "done");
        drop((_writer, reader));
        server.task.await.unwrap();
        connection.closed().await;
        assert!(connection.is_closed());
        let target = server.address.to_string();
        let gone = Connection::connect(&target, ClientConfig::default()).await;
        assert_eq!(gone.err().unwrap().code(), Code::Unavailable);
    });
}

#[test]
fn when_the_grace_is_over_calls_end_as_unavailable() {
    run(async {
        let (service, mut dropped) = waiting();
        let server = Server::start(service, GrpcConfig::default()).await;
        let connection = server.connect().await;
        let (_writer, mut reader) = open(&connection, "/wait").await;
        reader.head().await.unwrap();
        server.drain.start(Duration::ZERO);
        assert_eq!(reader.next().await.unwrap_err().code(), Code::Unavailable);
        dropped.recv().await.unwrap();
        server.task.await.unwrap();
    });
}

#[test]
fn a_writer_waits_for_a_reader_and_goes_on_with_it() {
    run(async {
        let server = Server::start(Service::new(), GrpcConfig::default()).await;
        let connection = server.connect().await;
        let (mut writer, mut reader) = open(&connection, "/echo").await;
        let sent = tokio::spawn(async move {
            for index in 0..64_u8 {
                writer.send(message(&[index; 1 << 17])).await.unwrap();
            }
            writer.close();
        });
        for index in 0..64_u8 {
            let echo = reader.next().await.unwrap();
            assert!(echo == Some(Bytes::from(vec![index; 1 << 17])), "message {index}");
        }
        assert_eq!(reader.next().await.unwrap(), None);
        sent.await.unwrap();
    });
}

/// A server that takes a call's headers, reads no more than its first window, and goes away.
async fn go_away_within_a_call(listener: TcpListener) {
    let (mut stream, _) = listener.accept().await.unwrap();
    stream.read_exact(&mut [0; 24]).await.unwrap();
    stream.write_all(&frame(SETTINGS, 0, 0, &[])).await.unwrap();
    let mut bytes = 0;
    while bytes < 65_535 {
        let (kind, _, payload) = next(&mut stream).await.unwrap();
        bytes += if kind == DATA { payload.len() } else { 0 };
    }
    // No stream was taken, and nothing was wrong.
    stream.write_all(&frame(GOAWAY, 0, 0, &[0; 8])).await.unwrap();
    let _ = stream.read_to_end(&mut Vec::new()).await;
}

#[test]
fn who_writes_to_a_server_that_goes_away_learns_that_it_is_unavailable() {
    run(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let target = listener.local_addr().unwrap().to_string();
        tokio::spawn(go_away_within_a_call(listener));
        let connection = Connection::connect(&target, ClientConfig::default()).await.unwrap();
        let (mut writer, mut reader) = open(&connection, "/any").await;
        let status = loop {
            if let Err(status) = writer.send(message(&[7; 10_000])).await {
                break status;
            }
        };
        assert_eq!(status.code(), Code::Unavailable, "{status}");
        assert_eq!(reader.next().await.unwrap_err().code(), Code::Unavailable);
        assert_eq!(reader.failed_below(), Some(Retry::Elsewhere));
    });
}
