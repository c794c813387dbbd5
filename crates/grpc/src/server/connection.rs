//! One connection of a server.

use std::net::SocketAddr;
use std::sync::Arc;

use h2::Reason;
use h2::server::Connection;
use petasos_tls::Holder;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

use super::life::{Event, FAREWELL, Life};
use super::linger::Lingering;
use super::listener::{NOWHERE, Stream};
use super::peers::{Membership, Peers};
use super::pings::{Seen, Watched};
use crate::payload::Payload;
use crate::server::{Peer, Routes, call};
use crate::usage::{PeerUse, WINDOW_BYTES_MIN, Window};
use crate::{Drain, GrpcConfig, Refusals};

/// The part that all connections share.
pub(super) struct Shared {
    pub(super) routes: Arc<dyn Routes>,
    pub(super) config: GrpcConfig,
    pub(super) drain: Drain,
    /// Room for connections.
    pub(super) free: Arc<Semaphore>,
    pub(super) peers: Arc<Peers>,
    pub(super) refusals: Refusals,
}

impl Shared {
    pub(super) fn new(routes: Arc<dyn Routes>, config: GrpcConfig, drain: Drain) -> Shared {
        let free = Arc::new(Semaphore::new(config.connections_max));
        let refusals = Refusals::default();
        let peers = Arc::new(Peers::new(config.clone(), refusals.clone()));
        Shared { routes, config, drain, free, peers, refusals }
    }

    /// Serves a connection until it ends.
    pub(super) async fn run(&self, stream: Stream, membership: Membership) {
        match stream {
            Stream::Tcp(stream, address) => self.run_tcp(stream, address, membership).await,
            Stream::Unix(stream, process) => {
                let peer = Peer { address: NOWHERE, identity: None, process: Some(process) };
                self.speak(stream, peer, membership).await;
            }
        }
    }

    async fn run_tcp(&self, stream: TcpStream, address: SocketAddr, membership: Membership) {
        let process = None;
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%address, %error, "small packets may be delayed");
        }
        #[cfg(feature = "tls")]
        if let Some(tls) = &self.config.tls {
            match self.begun(tls.accept(stream)).await {
                Some(Ok((stream, identity))) => {
                    self.speak(stream, Peer { address, identity, process }, membership).await;
                }
                Some(Err(error)) => tracing::warn!(%address, %error, "a client was refused"),
                None => tracing::warn!(%address, "a client's TLS handshake took too long"),
            }
            return;
        }
        self.speak(stream, Peer { address, identity: None, process }, membership).await;
    }

    /// Whether a connection may stay once its client has proved, or not proved, a name.
    fn keeps(&self, membership: &mut Membership, peer: &Peer) -> bool {
        let Some(identity) = &peer.identity else { return true };
        let kept = membership.rename(Holder::of(peer.address.ip(), Some(identity)));
        if let Err(refusal) = kept {
            self.refusals.count(refusal);
            tracing::debug!(?peer, ?refusal, "a connection was refused");
        }
        kept.is_ok()
    }

    async fn speak<T>(&self, stream: T, peer: Peer, mut membership: Membership)
    where
        T: AsyncRead + AsyncWrite + Unpin,
    {
        let address = peer.address;
        if !self.keeps(&mut membership, &peer) {
            return;
        }
        let usage = membership.usage();
        let window = self.window(usage);
        let seen = Seen::default();
        let stream = Watched::new(Lingering::new(stream), seen.clone());
        match self.begun(self.settings(&window).handshake(stream)).await {
            Some(Ok(connection)) => self.drive(connection, seen, peer, usage).await,
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

    /// How many bytes a new connection's client may send before they are read: those that all of
    /// its calls may together, unless its peer has many connections.
    fn window(&self, usage: &Arc<PeerUse>) -> Window {
        let bytes_max = self.window_bytes_max();
        usage.window(self.config.stream_window_bytes.min(bytes_max), bytes_max)
    }

    /// The same for one call. If the connection has less than it might, a call that is not read
    /// leaves some to others.
    fn stream_window_bytes(&self, window: &Window) -> u32 {
        let bytes_max = self.config.stream_window_bytes;
        match window.bytes() < self.window_bytes_max() {
            true => bytes_max.min((window.bytes() / 4).max(WINDOW_BYTES_MIN)),
            false => bytes_max,
        }
    }

    fn window_bytes_max(&self) -> u32 {
        let config = &self.config;
        let of_all = config.stream_window_bytes.saturating_mul(config.streams_max);
        config.connection_window_bytes.min(of_all)
    }

    fn settings(&self, window: &Window) -> h2::server::Builder {
        let config = &self.config;
        let mut settings = h2::server::Builder::new();
        settings
            .max_concurrent_streams(config.streams_max)
            .max_header_list_size(config.header_bytes_max)
            .initial_window_size(self.stream_window_bytes(window))
            .initial_connection_window_size(window.bytes())
            .data_frame_budget(window.frames_bytes_max())
            .max_send_buffer_size(config.send_buffer_bytes);
        settings
    }

    /// Accepts calls until the connection ends or the server shuts down.
    async fn drive<T>(
        &self,
        mut connection: Connection<Watched<T>, Payload>,
        seen: Seen,
        peer: Peer,
        usage: &Arc<PeerUse>,
    ) where
        T: AsyncRead + AsyncWrite + Unpin,
    {
        let (address, peer) = (peer.address, Arc::new(peer));
        let mut life = Life::new(&self.config, &self.drain, seen, &mut connection);
        loop {
            match std::future::poll_fn(|cx| life.poll(cx, &mut connection)).await {
                Event::Call(request, respond) => {
                    call::begin(&*self.routes, &self.config, (&peer, usage), request, respond);
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
