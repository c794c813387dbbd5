//! Peers that do not keep to the protocol, or to what is decent.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::frames::{DATA, GOAWAY, RST_STREAM, begin, call_headers, frame};
use common::{Server, Service, at, head, message, open, run, unary};
use petasos_base::sync::{AtomicUsize, Ordering};
use petasos_call::{Code, Metadata, Status};
use petasos_grpc::{ClientConfig, ClientHead, GrpcConfig, Keepalive};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const FLOW_CONTROL_ERROR: u8 = 3;
const ENHANCE_YOUR_CALM: u8 = 11;

/// A server whose `/wait` takes messages and never ends.
async fn server(config: GrpcConfig) -> Server {
    let service = Service::new().with("/wait", |call| async move {
        std::future::pending::<()>().await;
        drop(call);
    });
    Server::start(service, config).await
}

/// Sends what the function makes for one number after the other, until the server ends the
/// connection; gives the reason that it had.
async fn flood(stream: TcpStream, bytes: impl Fn(u32) -> Vec<u8> + Send + 'static) -> Option<u8> {
    let (mut input, mut output) = stream.into_split();
    let writer = tokio::spawn(async move {
        for index in 0.. {
            if output.write_all(&bytes(index)).await.is_err() {
                return;
            }
        }
    });
    let mut reason = None;
    let mut head = [0; 9];
    while input.read_exact(&mut head).await.is_ok() {
        let [a, b, c, kind, ..] = head;
        let mut payload = vec![0; u32::from_be_bytes([0, a, b, c]) as usize];
        if input.read_exact(&mut payload).await.is_err() {
            break;
        }
        if kind == GOAWAY {
            reason = Some(payload[7]);
        }
    }
    drop(input);
    writer.await.unwrap();
    reason
}

/// Whether the server still answers others.
async fn check(server: &Server) {
    let connection = server.connect().await;
    assert_eq!(unary(&connection, "/echo", b"fine").await.unwrap(), "fine");
}

#[test]
fn calls_that_are_reset_as_fast_as_they_begin_end_the_connection() {
    run(async {
        let server = server(GrpcConfig::default()).await;
        let reason = flood(begin(&server).await, |index| {
            // Many at a time, so that resets are there before their calls are taken.
            let streams = (0..100).map(|n| index * 200 + 2 * n + 1);
            let begin_and_reset = streams.flat_map(|stream| {
                [call_headers(stream, "/wait"), frame(RST_STREAM, 0, stream, &[0, 0, 0, 8])]
            });
            begin_and_reset.collect::<Vec<_>>().concat()
        });
        assert_eq!(reason.await, Some(ENHANCE_YOUR_CALM));
        check(&server).await;
    });
}

#[test]
fn floods_of_empty_and_of_tiny_frames_end_the_connection() {
    run(async {
        let server = server(GrpcConfig::default()).await;
        for payload in [&[][..], &[0]] {
            let mut stream = begin(&server).await;
            stream.write_all(&call_headers(1, "/wait")).await.unwrap();
            let many = frame(DATA, 0, 1, payload).repeat(1000);
            let reason = flood(stream, move |_| many.clone()).await;
            // Bytes that nobody has read in time overrun the window, which ends it as well.
            let bounds = match payload {
                [] => &[ENHANCE_YOUR_CALM][..],
                _ => &[ENHANCE_YOUR_CALM, FLOW_CONTROL_ERROR],
            };
            assert!(reason.is_some_and(|reason| bounds.contains(&reason)), "{reason:?}");
            check(&server).await;
        }
    });
}

#[test]
fn what_is_no_http2_ends_the_connection() {
    run(async {
        let server = server(GrpcConfig::default()).await;
        for bytes in [&b"GET / HTTP/1.1\r\nHost: here\r\n\r\n"[..], &[0xff; 1000]] {
            let mut stream = TcpStream::connect(server.address).await.unwrap();
            stream.write_all(bytes).await.unwrap();
            // Either end of it will do: bytes that were not read make it a reset.
            let _ = stream.read_to_end(&mut Vec::new()).await;
            check(&server).await;
        }
    });
}

#[test]
fn header_lists_that_are_too_long_are_refused() {
    run(async {
        let server = server(GrpcConfig::default()).await;
        let connection = server.connect().await;
        let mut metadata = Metadata::new();
        metadata.append("long", &"x".repeat(60_000)).unwrap();
        let head = ClientHead { metadata, ..ClientHead::default() };
        let status = match connection.call(&at("/echo"), &head).await {
            Ok((_writer, mut reader)) => reader.next().await.unwrap_err(),
            Err(status) => status,
        };
        assert_ne!(status.code(), Code::Ok);
        check(&server).await;
    });
}

#[test]
fn a_client_that_never_reads_costs_a_window_and_a_message() {
    const MESSAGE_BYTES: usize = 100_000;
    run(async {
        let sent = Arc::new(AtomicUsize::new(0));
        let (ended, mut end) = tokio::sync::mpsc::unbounded_channel();
        let count = sent.clone();
        let service = Service::new().with("/pour", move |mut call| {
            let (count, ended) = (count.clone(), ended.clone());
            async move {
                while call.responses.send(message(&[7; MESSAGE_BYTES])).await.is_ok() {
                    count.fetch_add(1, Ordering::Relaxed);
                }
                ended.send(()).unwrap();
                call.responses.end(Status::ok(), Metadata::new());
            }
        });
        let config = GrpcConfig::default();
        let window_bytes = ClientConfig::default().stream_window_bytes as usize;
        let kept = (window_bytes + config.send_buffer_bytes).div_ceil(MESSAGE_BYTES);
        let server = Server::start(service, config).await;
        let connection = server.connect().await;
        let (_writer, mut reader) = open(&connection, "/pour").await;
        reader.head().await.unwrap();
        // The stream's window is full, and the handler waits; other calls go on.
        for _ in 0..100 {
            assert_eq!(unary(&connection, "/echo", b"fine").await.unwrap(), "fine");
        }
        reader.cancel();
        end.recv().await.unwrap();
        assert!(sent.load(Ordering::Relaxed) <= kept + 1, "{sent:?} messages");
    });
}

#[test]
fn a_deadline_passes_for_clients_that_never_read() {
    run(async {
        let service = Service::new().with("/pour", |mut call| async move {
            while call.responses.send(message(&[7; 100_000])).await.is_ok() {}
        });
        let server = Server::start(service, GrpcConfig::default()).await;
        let connection = server.connect().await;
        let call = connection.call(&at("/pour"), &head(Some(Duration::from_millis(100)))).await;
        let (_writer, mut reader) = call.unwrap();
        reader.head().await.unwrap();
        tokio::time::sleep(Duration::from_millis(200)).await;
        let status = loop {
            match reader.next().await {
                Ok(Some(_)) => {}
                Ok(None) => panic!("the stream has no good end"),
                Err(status) => break status,
            }
        };
        assert_eq!(status.code(), Code::DeadlineExceeded);
        check(&server).await;
    });
}

#[test]
fn a_client_that_answers_no_ping_is_given_up() {
    run(async {
        let (interval, timeout) = (Duration::from_millis(20), Duration::from_millis(20));
        let mut config = GrpcConfig::default();
        config.keepalive = Some(Keepalive { interval, timeout, without_calls: false });
        let server = server(config).await;
        let mut stream = begin(&server).await;
        stream.read_to_end(&mut Vec::new()).await.unwrap();
    });
}

#[test]
fn a_client_that_never_begins_is_given_up() {
    run(async {
        let mut config = GrpcConfig::default();
        config.handshake_timeout = Duration::from_millis(20);
        let server = server(config).await;
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        let _ = stream.read_to_end(&mut Vec::new()).await;
    });
}
