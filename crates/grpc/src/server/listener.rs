//! Where connections come from: TCP, or a Unix socket.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use petasos_tls::Holder;
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::sleep;

use super::Process;

/// A socket that connections come to.
pub(super) enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

/// A connection, and who is at its other end.
#[derive(Debug)]
pub(super) enum Stream {
    Tcp(TcpStream, SocketAddr),
    Unix(UnixStream, Process),
}

/// The address of clients that have none.
pub(super) const NOWHERE: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

impl Listener {
    /// The next connection, once the limit allows another.
    pub(super) async fn accept(&self, free: &Arc<Semaphore>) -> (Stream, OwnedSemaphorePermit) {
        let permit = free.clone().acquire_owned().await.expect("the semaphore is never closed");
        loop {
            match self.accept_one().await {
                Ok(stream) => return (stream, permit),
                Err(error) if is_of_one_connection(&error) => {}
                Err(error) => {
                    // No descriptors or no memory are left; other connections may free some.
                    tracing::warn!(%error, "a connection cannot be accepted");
                    sleep(Duration::from_millis(50)).await;
                }
            }
        }
    }

    async fn accept_one(&self) -> io::Result<Stream> {
        match self {
            Listener::Tcp(listener) => {
                listener.accept().await.map(|(stream, address)| Stream::Tcp(stream, address))
            }
            Listener::Unix(listener) => {
                let (stream, _) = listener.accept().await?;
                let peer = stream.peer_cred()?;
                let (uid, gid, pid) = (peer.uid(), peer.gid(), peer.pid());
                let process = Process { uid, gid, pid: pid.filter(|pid| *pid > 0) };
                Ok(Stream::Unix(stream, process))
            }
        }
    }
}

impl Stream {
    /// For whom the connection counts.
    pub(super) fn holder(&self) -> Holder {
        match self {
            Stream::Tcp(_, address) => Holder::of(address.ip(), None),
            Stream::Unix(_, process) => Holder::User(process.uid),
        }
    }
}

fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}
