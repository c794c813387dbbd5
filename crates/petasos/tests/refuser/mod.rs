//! A gRPC server that takes no call.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;

use petasos_base::sync::{AtomicUsize, Ordering};

/// What a server does with every call.
#[derive(Clone, Copy)]
pub enum Refusal {
    ResetStream,
    GoAway,
}

/// A server that takes no call; how many it was asked to take.
pub fn refuser(refusal: Refusal) -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has ports");
    let address = listener.local_addr().expect("it is bound");
    let refused = Arc::new(AtomicUsize::new(0));
    let count = refused.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let count = count.clone();
            // A connection that breaks is over.
            std::thread::spawn(move || refuse(stream, refusal, &count).unwrap_or_default());
        }
    });
    (address, refused)
}

/// Frames of HTTP/2 (RFC 9113): length (3 bytes), type, flags, stream (4 bytes).
fn refuse(mut peer: TcpStream, refusal: Refusal, count: &AtomicUsize) -> std::io::Result<()> {
    const SETTINGS: [u8; 9] = [0, 0, 0, 4, 0, 0, 0, 0, 0];
    const SETTINGS_ACK: [u8; 9] = [0, 0, 0, 4, 1, 0, 0, 0, 0];
    const GO_AWAY: [u8; 17] = [0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let mut preface = [0; 24];
    peer.read_exact(&mut preface)?;
    peer.write_all(&SETTINGS)?;
    loop {
        let mut head = [0; 9];
        peer.read_exact(&mut head)?;
        let [a, b, c, kind, flags, stream @ ..] = head;
        let mut body = vec![0; u32::from_be_bytes([0, a, b, c]) as usize];
        peer.read_exact(&mut body)?;
        match (kind, flags & 1) {
            (4, 0) => peer.write_all(&SETTINGS_ACK)?,
            // A call's headers.
            (1, _) => {
                count.fetch_add(1, Ordering::SeqCst);
                match refusal {
                    Refusal::GoAway => peer.write_all(&GO_AWAY)?,
                    Refusal::ResetStream => {
                        let head = [&[0, 0, 4, 3, 0][..], &stream].concat();
                        peer.write_all(&[&head[..], &7u32.to_be_bytes()].concat())?;
                    }
                }
            }
            _ => {}
        }
    }
}
