//! Accepts connections and calls.
//!
//! Each connection has a task, in which its calls' handlers are first polled. [`call`] checks a
//! request and runs its handler, [`connection`] drives HTTP/2, [`life`] decides when the connection
//! ends, and [`peers`] limits what one peer has.

mod call;
mod connection;
mod life;
mod linger;
mod listener;
mod peers;
mod pings;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use petasos_call::Metadata;
use petasos_tls::Identity;
use tokio::net::{TcpListener, UnixListener};
use tokio::task::JoinSet;
use tokio::time::sleep_until;

use crate::{BoxFuture, Drain, FrameReader, FrameWriter, GrpcConfig, Refusals};
use connection::Shared;
use listener::Listener;

/// Handles calls.
pub trait Routes: Send + Sync + 'static {
    /// Begins to handle a call of `path`, such as `/routeguide.RouteGuide/GetFeature`. The client
    /// chooses the path; this method has to answer unknown ones with `UNIMPLEMENTED`.
    ///
    /// The future is dropped when the client gives the call up or its deadline passes. It must not
    /// block.
    fn serve(&self, path: &str, call: ServerCall) -> BoxFuture<'static, ()>;
}

/// A call at its server.
#[non_exhaustive]
pub struct ServerCall {
    /// The metadata that the client sent with the call.
    pub metadata: Metadata,
    /// How long the client waits. After that the call is ended.
    pub timeout: Option<Duration>,
    /// The client: the same for all calls of a connection.
    pub peer: Arc<Peer>,
    /// The client's messages.
    pub requests: FrameReader,
    /// Sends the response messages and the status.
    pub responses: FrameWriter,
}

/// The other end of a connection.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Peer {
    /// Its address. Over a Unix socket there is none: it is `127.0.0.1` with port 0 then.
    pub address: SocketAddr,
    /// The identity that it has proved; `None` without a client certificate.
    pub identity: Option<Arc<Identity>>,
    /// The process that has connected, as the system tells: over a Unix socket only.
    pub process: Option<Process>,
}

/// A process at the other end of a Unix socket, as it was when it connected.
///
/// It can give its connection to other processes: what it may do, they may do then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process {
    /// Its effective user.
    pub uid: u32,
    /// Its effective group.
    pub gid: u32,
    /// Its number; `None` if it cannot be seen from here.
    pub pid: Option<i32>,
}

/// Accepts connections at any number of listeners. Limits hold for all of these together.
#[derive(Clone)]
pub struct Server(Arc<Shared>);

impl Server {
    /// A server that does not listen yet, and serves until `drain` has started.
    pub fn new(routes: Arc<dyn Routes>, config: GrpcConfig, drain: Drain) -> Server {
        Server(Arc::new(Shared::new(routes, config, drain)))
    }

    /// Serves a port until `drain` has started and all calls that came to it have ended, or the
    /// grace period is over.
    ///
    /// Runs on the Tokio runtime that polls it, with time and I/O enabled. A connection that fails
    /// does not affect others; failures are logged. A listener keeps one of
    /// [`GrpcConfig::connections_max`] places for its next connection.
    pub async fn serve(self, listener: TcpListener) {
        self.serve_at(Listener::Tcp(listener)).await;
    }

    /// Like [`Server::serve`], at a Unix socket, without TLS. [`Peer::process`] says who calls, and
    /// each user counts as one address.
    pub async fn serve_unix(self, listener: UnixListener) {
        self.serve_at(Listener::Unix(listener)).await;
    }

    /// What this server refuses.
    pub fn refusals(&self) -> Refusals {
        self.0.refusals.clone()
    }

    async fn serve_at(self, listener: Listener) {
        let Server(server) = self;
        let mut tasks = JoinSet::new();
        let end = {
            let mut drained = std::pin::pin!(server.drain.clone().started());
            loop {
                // A client that is told to leave connects again at once: not to this server.
                let accepted = tokio::select! {
                    biased;
                    end = &mut drained => break end,
                    Some(_) = tasks.join_next() => continue,
                    accepted = listener.accept(&server.free) => accepted,
                };
                let (stream, permit) = accepted;
                let membership = match server.peers.admit(stream.holder()) {
                    Ok(membership) => membership,
                    Err(refusal) => {
                        server.refusals.count(refusal);
                        tracing::debug!(?stream, ?refusal, "a connection was refused");
                        continue;
                    }
                };
                let server = server.clone();
                tasks.spawn(async move {
                    server.run(stream, membership).await;
                    drop(permit);
                });
            }
        };
        drop(listener);
        finish(tasks, end).await;
    }
}

/// Waits for connections, which close by themselves at about `end`.
async fn finish(mut tasks: JoinSet<()>, end: tokio::time::Instant) {
    let late = sleep_until(end + 2 * life::FAREWELL);
    let all = async { while tasks.join_next().await.is_some() {} };
    tokio::select! {
        () = all => {}
        () = late => tracing::warn!("connections did not end in time, and are dropped"),
    }
}
