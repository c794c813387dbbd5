//! What one address may have of a server, so that others are served.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::frames::{
    ACK, DATA, END_STREAM, HEADERS, SETTINGS, WINDOW_UPDATE, call_headers, frame, greet, next,
};
use common::{Server, Service, at, message, open, run, unary};
use petasos_base::sync::{AtomicUsize, Ordering};
use petasos_call::{Code, Metadata, Status};
use petasos_grpc::{ClientConfig, ClientHead, Connection, GrpcConfig};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::{Instant, sleep};

const HOSTILE: [u8; 4] = [127, 0, 0, 2];
const OTHER: [u8; 4] = [127, 0, 0, 3];

async fn connect(server: &Server, from: [u8; 4]) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind((from, 0).into()).unwrap();
    socket.connect(server.address).await.unwrap()
}

/// Whether the server greets a connection from this address, which comes with it.
async fn greeted(server: &Server, from: [u8; 4]) -> (bool, TcpStream) {
    let mut stream = connect(server, from).await;
    // It may be closed already.
    let _ = stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await;
    let mut byte = [0];
    (stream.read(&mut byte).await.is_ok_and(|read| read == 1), stream)
}

#[test]
fn issue_10_one_address_leaves_connections_to_others() {
    run(async {
        let mut config = GrpcConfig::default();
        config.connections_per_address_max = 2;
        let server = Server::start(Service::new(), config).await;
        let (first, _first) = greeted(&server, HOSTILE).await;
        let (second, held) = greeted(&server, HOSTILE).await;
        assert!(first && second, "it has its share");
        assert!(!greeted(&server, HOSTILE).await.0, "and no more");
        assert_eq!(server.stats().address_connections_refused, 1);
        assert!(greeted(&server, OTHER).await.0, "others are served");
        drop(held);
        while !greeted(&server, HOSTILE).await.0 {}
    });
}

#[test]
fn issue_10_limits_hold_for_all_listeners_of_a_server() {
    run(async {
        let mut config = GrpcConfig::default();
        config.connections_per_address_max = 1;
        let one = Server::start(Service::new(), config).await;
        let other = one.listen_again().await;
        let (first, _held) = greeted(&one, HOSTILE).await;
        assert!(first && !greeted(&other, HOSTILE).await.0);
        assert!(greeted(&other, OTHER).await.0);
    });
}

#[test]
fn issue_10_one_address_begins_no_more_connections_than_its_rate() {
    const PER_SECOND: u32 = 5;
    run(async {
        let mut config = GrpcConfig::default();
        config.handshakes_per_second = PER_SECOND;
        let server = Server::start(Service::new(), config).await;
        let (start, mut served) = (Instant::now(), 0);
        for _ in 0..40 {
            served += u32::from(greeted(&server, HOSTILE).await.0);
        }
        let earned = start.elapsed().as_secs_f64() * f64::from(PER_SECOND);
        assert!(served >= PER_SECOND && f64::from(served) <= f64::from(PER_SECOND) + earned + 1.0);
        assert_eq!(server.stats().handshakes_refused, u64::from(40 - served));
        assert!(greeted(&server, OTHER).await.0, "others are served");
        // It is served again later.
        while !greeted(&server, HOSTILE).await.0 {
            sleep(Duration::from_millis(20)).await;
        }
    });
}

/// Opens calls of `/wait`, by hand, on a new connection.
async fn open_waiting(server: &Server, from: [u8; 4], calls: u32) -> TcpStream {
    let mut stream = connect(server, from).await;
    greet(&mut stream).await;
    for call in 0..calls {
        stream.write_all(&call_headers(2 * call + 1, "/wait")).await.unwrap();
    }
    stream
}

/// Waits until something is so.
async fn until(is_so: impl Fn() -> bool) {
    while !is_so() {
        sleep(Duration::from_millis(1)).await;
    }
}

#[test]
fn issue_10_calls_of_one_address_leave_others_theirs() {
    run(async {
        let mut config = GrpcConfig::default();
        config.calls_per_peer_max = 3;
        let running = Arc::new(AtomicUsize::new(0));
        let count = running.clone();
        let service = Service::new().with("/wait", move |call| {
            count.fetch_add(1, Ordering::SeqCst);
            let guard = Ended(count.clone());
            async move {
                std::future::pending::<()>().await;
                drop((call, guard));
            }
        });
        let server = Server::start(service, config).await;
        let first = open_waiting(&server, HOSTILE, 2).await;
        until(|| running.load(Ordering::SeqCst) == 2).await;
        let _second = open_waiting(&server, HOSTILE, 9).await;
        until(|| server.stats().calls_refused == 8).await;
        assert_eq!(running.load(Ordering::SeqCst), 3, "connections share one quota");
        let other = server.connect().await;
        assert_eq!(unary(&other, "/echo", b"fine").await.unwrap(), "fine");
        let waiting = [open(&other, "/wait").await, open(&other, "/wait").await];
        until(|| running.load(Ordering::SeqCst) == 5).await;
        let more = [open(&other, "/wait").await, open(&other, "/wait").await];
        let [_, (_writer, mut refused)] = more;
        let status = refused.next().await.unwrap_err();
        assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
        drop((first, waiting));
        // What has ended makes room.
        until(|| running.load(Ordering::SeqCst) <= 2).await;
        while unary(&other, "/echo", b"fine").await.is_err() {}
    });
}

struct Ended(Arc<AtomicUsize>);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[test]
fn issue_10_a_response_that_is_not_read_counts_as_a_call() {
    run(async {
        let mut config = GrpcConfig::default();
        config.calls_per_peer_max = 1;
        let service = Service::new().with("/long", |call| async move {
            let response = message(&[7; 300_000]);
            call.responses.finish(&Metadata::new(), response, &Metadata::new());
        });
        let server = Server::start(service, config).await;
        let mut client = ClientConfig::default();
        client.stream_window_bytes = 65_535;
        let connection = Connection::connect(&server.address.to_string(), client).await.unwrap();
        let (writer, mut reader) = open(&connection, "/long").await;
        writer.close();
        reader.head().await.unwrap();
        // The handler is over, but most of its response is still at the server.
        let status = unary(&connection, "/echo", b"").await.unwrap_err();
        assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
        assert_eq!(reader.single().await.unwrap().len(), 300_000);
        while unary(&connection, "/echo", b"").await.is_err() {}
    });
}

/// Whether a call of the hostile address gets a message, and not only a status.
async fn is_answered(server: &Server, path: &str) -> bool {
    let mut stream = connect(server, HOSTILE).await;
    greet(&mut stream).await;
    stream.write_all(&call_headers(1, path)).await.unwrap();
    loop {
        match next(&mut stream).await.unwrap() {
            (DATA, ..) => return true,
            (HEADERS, flags, _) if flags & END_STREAM != 0 => return false,
            _ => {}
        }
    }
}

#[test]
fn issue_10_responses_that_one_address_does_not_read_leave_memory_to_others() {
    const RESPONSE_BYTES: usize = 100_000;
    run(async {
        let mut config = GrpcConfig::default();
        config.bytes_per_peer_max = Some(2 * 1_000_000);
        let service = Service::new().with("/long", |call| async move {
            let response = message(&[7; RESPONSE_BYTES]);
            call.responses.finish(&Metadata::new(), response, &Metadata::new());
        });
        let server = Server::start(service, config).await;
        let mut hostile = connect(&server, HOSTILE).await;
        greet(&mut hostile).await;
        // Streams may be sent nothing.
        hostile.write_all(&frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 0])).await.unwrap();
        for call in 0..40 {
            hostile.write_all(&call_headers(2 * call + 1, "/long")).await.unwrap();
        }
        // Some tenths of its share are used up, and then calls do not even run.
        until(|| server.stats().calls_refused + server.stats().messages_refused >= 30).await;
        let other = server.connect().await;
        assert_eq!(unary(&other, "/long", b"").await.unwrap().len(), RESPONSE_BYTES);
        drop(hostile);
        // Afterwards it has its share again.
        while !is_answered(&server, "/long").await {}
    });
}

/// Connections with the least window, too.
#[test]
fn short_messages_that_wait_end_no_connection() {
    run(async {
        let (release, released) = tokio::sync::watch::channel(());
        let service = Service::new().with("/late", move |mut call| {
            let mut released = released.clone();
            async move {
                let _ = released.changed().await;
                let mut count = 0;
                while let Ok(Some(_)) = call.requests.next().await {
                    count += 1_u32;
                }
                let _ = call.responses.send(message(&count.to_be_bytes())).await;
                call.responses.end(Status::ok(), Metadata::new());
            }
        });
        let mut config = GrpcConfig::default();
        config.bytes_per_peer_max = Some(2 << 20);
        let server = Server::start(service, config).await;
        let connection = server.connect().await;
        let (mut calls, mut sent) = (Vec::new(), Vec::new());
        for _ in 0..4 {
            let (mut writer, reader) = open(&connection, "/late").await;
            let soon = Duration::from_millis(500);
            let mut count = 0_u32;
            // As many as the window takes.
            let bytes = [7; 24];
            while let Ok(outcome) = tokio::time::timeout(soon, writer.send(message(&bytes))).await {
                outcome.expect("the connection lives");
                count += 1;
            }
            calls.push((writer, reader));
            sent.push(count);
        }
        assert!(sent.iter().sum::<u32>() > 6000, "they fill the connection's window: {sent:?}");
        drop(release);
        for ((writer, mut reader), count) in calls.into_iter().zip(sent) {
            writer.close();
            assert_eq!(reader.next().await.unwrap().unwrap(), count.to_be_bytes()[..]);
        }
    });
}

/// How calls of `/keep` have begun: with a whole message, which they keep, or with an error.
#[derive(Clone, Default)]
struct Kept(Arc<[AtomicUsize; 2]>);

impl Kept {
    fn service(&self) -> Service {
        let kept = self.clone();
        Service::new().with("/keep", move |mut call| {
            let kept = kept.clone();
            async move {
                let request = call.requests.next().await;
                kept.note(request.as_ref().map(drop));
                if request.is_ok() {
                    std::future::pending::<()>().await;
                }
            }
        })
    }

    fn note(&self, outcome: Result<(), &Status>) {
        let index = match outcome {
            Ok(()) => 0,
            Err(status) if status.code() == Code::ResourceExhausted => 1,
            // The test has ended the connection.
            Err(_) => return,
        };
        self.0[index].fetch_add(1, Ordering::SeqCst);
    }

    /// Those that were kept, and those that were refused, before they ran or later.
    fn counts(&self, server: &Server) -> [usize; 2] {
        let [kept, refused] = [0, 1].map(|index| self.0[index].load(Ordering::SeqCst));
        [kept, refused + server.stats().calls_refused as usize]
    }
}

/// A message of `announced` bytes, of which `sent` follow, on a stream.
fn partial(stream: u32, announced: u32, sent: usize) -> Vec<u8> {
    let body = [&[0][..], &announced.to_be_bytes(), &vec![7; sent]].concat();
    body.chunks(16_384).flat_map(|chunk| frame(DATA, 0, stream, chunk)).collect()
}

/// Sends a part of a message on each of many streams.
async fn send_parts(server: &Server, announced: u32, sent: usize, streams: u32) -> TcpStream {
    let mut stream = connect(server, HOSTILE).await;
    greet(&mut stream).await;
    // Until windows are open: the streams' are once the server knows that its settings are known.
    while !matches!(next(&mut stream).await, Some((WINDOW_UPDATE, ..))) {}
    stream.write_all(&frame(SETTINGS, ACK, 0, &[])).await.unwrap();
    for number in (0..streams).map(|call| 2 * call + 1) {
        let call = [call_headers(number, "/keep"), partial(number, announced, sent)].concat();
        stream.write_all(&call).await.unwrap();
    }
    stream
}

#[test]
fn issue_10_messages_of_one_address_leave_memory_to_others() {
    const MESSAGE_BYTES: usize = 100_000;
    run(async {
        let mut config = GrpcConfig::default();
        config.bytes_per_peer_max = Some(2 * 1_000_000);
        // The hostile client does not wait for windows.
        config.stream_window_bytes = 4 << 20;
        let kept = Kept::default();
        let server = Server::start(kept.service(), config).await;
        // Whole messages that handlers hold, on two connections.
        let length = MESSAGE_BYTES as u32;
        let _first = send_parts(&server, length, MESSAGE_BYTES, 6).await;
        until(|| kept.counts(&server)[0] == 6).await;
        let _second = send_parts(&server, length, MESSAGE_BYTES, 6).await;
        until(|| kept.counts(&server)[0] + kept.counts(&server)[1] == 12).await;
        let [whole, refused] = kept.counts(&server);
        assert!((9..=10).contains(&whole), "{whole} messages of a tenth of the share each");
        assert_eq!(refused, 12 - whole);
        let other = server.connect().await;
        // As a request and as a response.
        let long = vec![1; 450_000];
        assert_eq!(unary(&other, "/echo", &long).await.unwrap(), long);
    });
}

#[test]
fn issue_10_parts_of_messages_of_one_address_leave_memory_to_others() {
    run(async {
        let mut config = GrpcConfig::default();
        config.bytes_per_peer_max = Some(2 * 1_000_000);
        // The hostile client does not wait for windows.
        config.stream_window_bytes = 4 << 20;
        let kept = Kept::default();
        let server = Server::start(kept.service(), config).await;
        // Each announces 4 MB and sends 100 kB.
        let hostile = send_parts(&server, 4_000_000, 100_000, 40).await;
        until(|| kept.counts(&server)[1] >= 30).await;
        let other = server.connect().await;
        // As a request and as a response.
        let long = vec![1; 450_000];
        assert_eq!(unary(&other, "/echo", &long).await.unwrap(), long);
        drop(hostile);
        // Afterwards the address has its share again.
        while kept.counts(&server)[0] == 0 {
            let seen = kept.counts(&server);
            let again = send_parts(&server, 900_000, 900_000, 1).await;
            until(|| kept.counts(&server) != seen).await;
            drop(again);
        }
    });
}

/// The window that the server opens to a new connection, in bytes.
async fn window_bytes(stream: &mut TcpStream) -> u64 {
    greet(stream).await;
    loop {
        match next(stream).await.unwrap() {
            (WINDOW_UPDATE, _, payload) => {
                let more: [u8; 4] = payload.try_into().unwrap();
                return 65_535 + u64::from(u32::from_be_bytes(more));
            }
            _ => continue,
        }
    }
}

#[test]
fn issue_10_windows_of_one_address_stay_within_its_memory() {
    const CONNECTIONS: u64 = 60;
    run(async {
        let mut config = GrpcConfig::default();
        config.bytes_per_peer_max = Some(64 << 20);
        let least = u64::from(config.stream_window_bytes);
        let server = Server::start(Service::new(), config).await;
        let (mut held, mut sum, mut last) = (Vec::new(), 0, u64::MAX);
        let first = window_bytes(&mut connect(&server, OTHER).await).await;
        for _ in 0..CONNECTIONS {
            let mut stream = connect(&server, HOSTILE).await;
            let bytes = window_bytes(&mut stream).await;
            assert!(bytes <= last && bytes >= least, "{bytes}");
            (sum, last) = (sum + bytes, bytes);
            held.push(stream);
        }
        // `h2` may add eight times as much to short frames.
        assert!(sum <= (32 << 20) / 9 + CONNECTIONS * least, "{sum}");
        assert!(first > least && window_bytes(&mut connect(&server, OTHER).await).await == first);
    });
}

#[test]
fn a_call_that_is_refused_has_not_run_and_leaves_the_connection_usable() {
    run(async {
        let mut config = GrpcConfig::default();
        config.calls_per_peer_max = 0;
        let server = Server::start(Service::new(), config).await;
        let connection = server.connect().await;
        for _ in 0..3 {
            let (writer, mut reader) =
                connection.call(&at("/echo"), &ClientHead::default()).await.unwrap();
            writer.close();
            let status = reader.next().await.unwrap_err();
            assert_eq!(status.code(), Code::ResourceExhausted);
        }
        assert_eq!(server.stats().calls_refused, 3);
        let text = server.stats().to_prometheus();
        assert!(text.contains("petasos_grpc_refusals_total{reason=\"calls\"} 3\n"), "{text}");
    });
}
