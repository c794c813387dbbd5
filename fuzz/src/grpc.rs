//! The gRPC port: a hostile client of a server, and a hostile server of a client, over HTTP/2.
//!
//! Streams of frames are told as they are (anything), or as a call whose messages are anything:
//! flags, lengths, compression. Whatever comes, the server answers another client afterwards.

use std::cell::OnceCell;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use petasos_buf::MsgBuf;
use petasos_call::{Codec, HEAD_BYTES, Metadata, Status};
use petasos_grpc::{
    BoxFuture, ClientConfig, ClientHead, Connection, Drain, GrpcConfig, MethodPath, Routes, Server,
    ServerCall,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;

use crate::{Input, Seed};

/// Longer than any input takes; one that does is a finding.
const PATIENCE: Duration = Duration::from_secs(20);
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;

thread_local! {
    static SCENE: OnceCell<(Runtime, SocketAddr)> = const { OnceCell::new() };
}

/// A byte for who is hostile and how, then what it sends.
pub fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    SCENE.with(|scene| {
        let (runtime, address) = scene.get_or_init(begin);
        let hostile = async {
            match input.u8() % 5 {
                0 => client(*address, vec![PREFACE.to_vec(), input.rest().to_vec()]).await,
                1 | 2 => client(*address, call(&mut input)).await,
                3 => server(input.rest().to_vec()).await,
                _ => server(answer(&mut input)).await,
            }
        };
        let ended = runtime.block_on(async { tokio::time::timeout(PATIENCE, hostile).await });
        ended.expect("what a peer sends must not keep us waiting");
    });
}

struct Echo;

impl Routes for Echo {
    fn serve(&self, _: &str, mut call: ServerCall) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            let status = loop {
                match call.requests.next().await {
                    Ok(Some(request)) => match call.responses.send(message(&request)).await {
                        Ok(()) => {}
                        Err(status) => break status,
                    },
                    Ok(None) => break Status::ok(),
                    Err(status) => break status,
                }
            };
            call.responses.end(status, Metadata::new());
        })
    }
}

fn message(bytes: &[u8]) -> MsgBuf {
    let mut buf = MsgBuf::new(HEAD_BYTES + bytes.len());
    buf.as_mut_slice()[HEAD_BYTES..].copy_from_slice(bytes);
    buf
}

fn begin() -> (Runtime, SocketAddr) {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_all().build().expect("there are descriptors");
    let address = runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback has ports");
        let address = listener.local_addr().expect("it is bound");
        let mut config = GrpcConfig::default();
        config.receive_bytes_max = 1 << 20;
        // Each input is a connection.
        config.handshakes_per_second = u32::MAX;
        tokio::spawn(Server::new(Arc::new(Echo), config, Drain::new()).serve(listener));
        address
    });
    (runtime, address)
}

/// Sends the pieces, and reads until the server has said all.
async fn client(address: SocketAddr, pieces: Vec<Vec<u8>>) {
    let mut stream = TcpStream::connect(address).await.expect("the server listens");
    for piece in pieces {
        if stream.write_all(&piece).await.is_err() {
            return;
        }
        tokio::task::yield_now().await;
    }
    let _ = stream.shutdown().await;
    let mut rest = Vec::new();
    let _ = stream.take(1 << 22).read_to_end(&mut rest).await;
}

/// Calls a server that says `said`, whatever it hears.
async fn server(said: Vec<u8>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback has ports");
    let address = listener.local_addr().expect("it is bound");
    let peer = async {
        let Ok((mut stream, _)) = listener.accept().await else { return };
        let mut heard = [0; 4096];
        let _ = stream.read(&mut heard).await;
        let _ = stream.write_all(&said).await;
        let _ = stream.shutdown().await;
        while stream.read(&mut heard).await.is_ok_and(|count| count > 0) {}
    };
    let caller = async {
        let mut config = ClientConfig::default();
        config.receive_bytes_max = 1 << 20;
        let Ok(connection) = Connection::connect(&address.to_string(), config).await else {
            return;
        };
        let path = MethodPath::new("/a.B/C").expect("a path");
        let begun = connection.call(&path, &ClientHead::default()).await;
        let Ok((mut writer, mut reader)) = begun else { return };
        let _ = writer.send(message(b"hello")).await;
        writer.close();
        while let Ok(Some(_)) = reader.next().await {}
    };
    // The peer ends when the caller has let go.
    tokio::join!(peer, caller);
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    bytes.extend([kind, flags]);
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// A field of a header list, without the dynamic table.
fn field(name: &[u8], value: &[u8]) -> Vec<u8> {
    let lengths = |bytes: &[u8]| [&[bytes.len() as u8 & 0x7f][..], bytes].concat();
    [&[0][..], &lengths(name), &lengths(value)].concat()
}

fn encoding(input: &mut Input<'_>) -> Vec<u8> {
    match input.u8() % 4 {
        0 => Vec::new(),
        1 => field(b"grpc-encoding", b"gzip"),
        2 => field(b"grpc-encoding", b"lz4"),
        _ => {
            let value = input.short();
            field(b"grpc-timeout", &value[..value.len().min(100)])
        }
    }
}

/// A call whose messages, in pieces, are anything.
fn call(input: &mut Input<'_>) -> Vec<Vec<u8>> {
    let mut list = vec![0x83, 0x86];
    list.extend(field(b":path", b"/a.B/C"));
    list.extend(field(b":authority", b"x"));
    list.extend(field(b"content-type", b"application/grpc"));
    list.extend(encoding(input));
    let mut pieces =
        vec![[PREFACE, &frame(SETTINGS, 0, 0, &[]), &frame(HEADERS, 4, 1, &list)].concat()];
    while !input.is_empty() {
        let piece = input.short();
        pieces.push(frame(DATA, u8::from(input.is_empty()), 1, piece));
    }
    pieces
}

/// An answer likewise.
fn answer(input: &mut Input<'_>) -> Vec<u8> {
    let mut list = vec![0x88];
    list.extend(field(b"content-type", b"application/grpc"));
    list.extend(encoding(input));
    let mut bytes = [frame(SETTINGS, 0, 0, &[]), frame(HEADERS, 4, 1, &list)].concat();
    let trailers = input.short().to_vec();
    while !input.is_empty() {
        bytes.extend(frame(DATA, 0, 1, input.short()));
    }
    bytes.extend(frame(HEADERS, 5, 1, &trailers));
    bytes
}

/// Calls and answers, plain and compressed.
pub fn seeds() -> Vec<Seed> {
    let framed = |flag: u8, body: &[u8]| {
        let length = (body.len() as u32).to_be_bytes();
        let bytes = [&[flag][..], &length, body].concat();
        [&[bytes.len() as u8][..], &bytes].concat()
    };
    let plain = framed(0, b"hello");
    let gzip = framed(1, &petasos_call::compress::compress(Codec::GZIP, &[7; 300], Vec::new()));
    let lz4 = framed(1, &petasos_call::compress::compress(Codec::LZ4, &[7; 300], Vec::new()));
    let bomb = framed(1, &petasos_call::compress::compress(Codec::GZIP, &[0; 100_000], Vec::new()));
    let ok = field(b"grpc-status", b"0");
    let trailers = [&[ok.len() as u8][..], &ok].concat();
    let raw = frame(SETTINGS, 0, 0, &[0, 3, 0, 0, 0, 1]);
    let whole = |parts: &[&[u8]]| parts.concat();
    vec![
        ("raw", whole(&[&[0], &raw, &frame(6, 0, 0, &[1; 8]), &frame(7, 0, 0, &[0; 8])])),
        ("call", whole(&[&[1, 0], &plain, &plain])),
        ("call-gzip", whole(&[&[1, 1], &gzip])),
        ("call-lz4", whole(&[&[1, 2], &lz4])),
        ("call-timeout", whole(&[&[1, 3, 4], b"100m", &plain])),
        ("bomb", whole(&[&[1, 1], &bomb])),
        ("raw-server", whole(&[&[3], &raw])),
        ("answer", whole(&[&[4, 0], &trailers, &plain])),
        ("answer-gzip", whole(&[&[4, 1], &trailers, &gzip])),
    ]
}
