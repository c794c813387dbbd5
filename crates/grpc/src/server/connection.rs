//! One connection of a server.

use std::net::SocketAddr;
use std::sync::Arc;

use h2::Reason;
use h2::server::Connection;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use super::life::{Event, FAREWELL, Life};
use super::listener::{NOWHERE, Stream};
use super::pings::{Seen, Watched};
use crate::payload::Payload;
use crate::server::{Peer, Routes, call};
use crate::unpacking::Share;
use crate::{Drain, GrpcConfig};

/// The part that all connections share.
pub(super) struct Server {
    pub(super) routes: Arc<dyn Routes>,
    pub(super) config: GrpcConfig,
    pub(super) drain: Drain,
}

impl Server {
    /// Serves a connection until it ends.
    pub(super) async fn run(&self, stream: Stream) {
        match stream {
            Stream::Tcp(stream, address) => self.run_tcp(stream, address).await,
            Stream::Unix(stream, process) => {
                let process = Some(process);
                self.speak(stream, Peer { address: NOWHERE, identity: None, process }).await;
            }
        }
    }

    async fn run_tcp(&self, stream: TcpStream, address: SocketAddr) {
        let process = None;
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%address, %error, "small packets may be delayed");
        }
        #[cfg(feature = "tls")]
        if let Some(tls) = &self.config.tls {
            match self.begun(tls.accept(stream)).await {
                Some(Ok((stream, identity))) => {
                    self.speak(stream, Peer { address, identity, process }).await;
                }
                Some(Err(error)) => tracing::warn!(%address, %error, "a client was refused"),
                None => tracing::warn!(%address, "a client's TLS handshake took too long"),
            }
            return;
        }
        self.speak(stream, Peer { address, identity: None, process }).await;
    }

    async fn speak<T: AsyncRead + AsyncWrite + Unpin>(&self, stream: T, peer: Peer) {
        let address = peer.address;
        let seen = Seen::default();
        let stream = Watched::new(stream, seen.clone());
        match self.begun(self.settings().handshake(stream)).await {
            Some(Ok(connection)) => self.drive(connection, seen, peer).await,
            Some(Err(error)) => tracing::debug!(%address, %error, "a client does not speak HTTP/2"),
            None => tracing::debug!(%address, "a client's HTTP/2 handshake took too long"),
        }
    }

    /// Waits for a client's handshake, until it takes too long. If the server shuts down, the
    /// client has [`FAREWELL`] to finish it: then it learns that it has to connect elsewhere, and
    /// does not take the server for one that cannot be reached.
    async fn begun<R>(&self, beginning: impl Future<Output = R>) -> Option<R> {
        let shut_down = async {
            self.drain.clone().started().await;
            sleep(FAREWELL).await;
        };
        tokio::select! {
            biased;
            begun = timeout(self.config.handshake_timeout, beginning) => begun.ok(),
            () = shut_down => None,
        }
    }

    fn settings(&self) -> h2::server::Builder {
        let config = &self.config;
        let mut settings = h2::server::Builder::new();
        settings
            .max_concurrent_streams(config.streams_max)
            .max_header_list_size(config.header_bytes_max)
            .initial_window_size(config.stream_window_bytes)
            .initial_connection_window_size(config.connection_window_bytes)
            .max_send_buffer_size(config.send_buffer_bytes);
        settings
    }

    /// Accepts calls until the connection ends or the server shuts down.
    async fn drive<T>(
        &self,
        mut connection: Connection<Watched<T>, Payload>,
        seen: Seen,
        peer: Peer,
    ) where
        T: AsyncRead + AsyncWrite + Unpin,
    {
        let (address, peer, unpacking) = (peer.address, Arc::new(peer), Share::default());
        let mut life = Life::new(&self.config, &self.drain, seen, &mut connection);
        loop {
            match std::future::poll_fn(|cx| life.poll(cx, &mut connection)).await {
                Event::Call(request, respond) => {
                    let of_connection = (&peer, &unpacking);
                    call::begin(&*self.routes, &self.config, of_connection, request, respond);
                }
                Event::Part(reason) => {
                    tracing::info!(%address, %reason, "closing a connection");
                    return part(connection, reason).await;
                }
                Event::Over(None) => return,
                Event::Over(Some(error)) => {
                    tracing::debug!(%address, %error, "a connection failed");
                    return;
                }
            }
        }
    }
}

/// Closes a connection with all calls that still run on it.
async fn part<T>(mut connection: Connection<T, Payload>, reason: Reason)
where
    T: AsyncRead + AsyncWrite + Unpin,
{
    connection.abrupt_shutdown(reason);
    let closed = std::future::poll_fn(|cx| connection.poll_closed(cx));
    // Whether the peer was told or not, the connection is over.
    let _ = timeout(FAREWELL, closed).await;
}
