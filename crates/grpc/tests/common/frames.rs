//! HTTP/2 by hand.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::Server;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Types of frames.
pub const DATA: u8 = 0;
pub const HEADERS: u8 = 1;
pub const RST_STREAM: u8 = 3;
pub const SETTINGS: u8 = 4;
pub const PING: u8 = 6;
pub const GOAWAY: u8 = 7;
pub const WINDOW_UPDATE: u8 = 8;

pub const ACK: u8 = 1;
pub const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    bytes.extend([kind, flags]);
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// The headers of a call, as HPACK has them without its tables' dynamic part.
pub fn call_headers(stream: u32, path: &str) -> Vec<u8> {
    let mut fields = vec![0x83, 0x86];
    for (name, value) in [(4_u8, path), (1, "localhost")] {
        fields.extend([name, value.len() as u8]);
        fields.extend(value.as_bytes());
    }
    // Names beyond 15 take a second byte.
    let content = b"application/grpc";
    fields.extend([0x0f, 31 - 15, content.len() as u8]);
    fields.extend(content);
    frame(HEADERS, END_HEADERS, stream, &fields)
}

/// A connection that has begun, by hand.
pub async fn begin(server: &Server) -> TcpStream {
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    greet(&mut stream).await;
    stream
}

/// Begins a connection.
pub async fn greet(stream: &mut TcpStream) {
    stream.write_all(PREFACE).await.unwrap();
    stream.write_all(&frame(SETTINGS, 0, 0, &[])).await.unwrap();
}

/// The next frame's type, flags and payload; none at the stream's end.
pub async fn next(stream: &mut TcpStream) -> Option<(u8, u8, Vec<u8>)> {
    let mut head = [0; 9];
    stream.read_exact(&mut head).await.ok()?;
    let [a, b, c, kind, flags, ..] = head;
    let mut payload = vec![0; u32::from_be_bytes([0, a, b, c]) as usize];
    stream.read_exact(&mut payload).await.ok()?;
    Some((kind, flags, payload))
}
