//! One connection of a server.

use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use h2::Reason;
use h2::server::Connection;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::{sleep_until, timeout};

use crate::payload::Payload;
use crate::server::{Peer, Routes, call};
use crate::{Drain, GrpcConfig, keepalive};

/// How long a peer may take to read that its connection ends.
pub(super) const FAREWELL: Duration = Duration::from_secs(1);

/// What all connections share.
pub(super) struct Server {
    pub(super) routes: Arc<dyn Routes>,
    pub(super) config: GrpcConfig,
    pub(super) drain: Drain,
}

impl Server {
    /// Serves a connection until it ends.
    pub(super) async fn run(&self, stream: TcpStream, address: SocketAddr) {
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%address, %error, "small packets may be delayed");
        }
        #[cfg(feature = "tls")]
        if let Some(tls) = &self.config.tls {
            let accepted = timeout(self.config.handshake_timeout, tls.accept(stream)).await;
            match accepted {
                Ok(Ok((stream, identity))) => {
                    self.speak(stream, Peer { address, identity }).await;
                }
                Ok(Err(error)) => tracing::warn!(%address, %error, "a client was refused"),
                Err(_) => tracing::warn!(%address, "a client took too long over TLS"),
            }
            return;
        }
        self.speak(stream, Peer { address, identity: None }).await;
    }

    async fn speak<T: AsyncRead + AsyncWrite + Unpin>(&self, stream: T, peer: Peer) {
        let address = peer.address;
        let begun = self.settings().handshake::<T, Payload>(stream);
        match timeout(self.config.handshake_timeout, begun).await {
            Ok(Ok(connection)) => self.drive(connection, peer).await,
            Ok(Err(error)) => tracing::debug!(%address, %error, "a client speaks no HTTP/2"),
            Err(_) => tracing::debug!(%address, "a client took too long over HTTP/2"),
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

    /// Accepts calls until the connection ends, or the server does.
    async fn drive<T>(&self, mut connection: Connection<T, Payload>, peer: Peer)
    where
        T: AsyncRead + AsyncWrite + Unpin,
    {
        let address = peer.address;
        let mut gone = pin!(keepalive::watch(connection.ping_pong(), self.config.keepalive));
        let mut drained = pin!(self.drain.clone().started());
        let mut end = None;
        loop {
            tokio::select! {
                biased;
                () = &mut gone => {
                    tracing::info!(%address, "a client answers no more");
                    return;
                }
                at = &mut drained, if end.is_none() => {
                    connection.graceful_shutdown();
                    end = Some(Box::pin(sleep_until(at)));
                }
                () = async { end.as_mut().expect("checked").await }, if end.is_some() => {
                    return part(connection).await;
                }
                accepted = connection.accept() => match accepted {
                    Some(Ok((request, respond))) => {
                        call::begin(&*self.routes, &self.config, &peer, request, respond);
                    }
                    Some(Err(error)) => {
                        tracing::debug!(%address, %error, "a connection failed");
                        return;
                    }
                    None => return,
                },
            }
        }
    }
}

/// Ends a connection with whatever still runs on it.
async fn part<T>(mut connection: Connection<T, Payload>)
where
    T: AsyncRead + AsyncWrite + Unpin,
{
    connection.abrupt_shutdown(Reason::NO_ERROR);
    let closed = std::future::poll_fn(|cx| connection.poll_closed(cx));
    // Whether the peer heard of it or not, the connection is over.
    let _ = timeout(FAREWELL, closed).await;
}
