//! Accepts connections and calls.
//!
//! Each connection has a task, in which its calls' handlers are first polled. [`call`] checks a
//! request and runs its handler, [`connection`] drives HTTP/2, [`life`] decides when the connection
//! ends, and [`quota`] limits the connections of one address.

mod call;
mod connection;
mod life;
mod pings;
mod quota;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use petasos_call::Metadata;
use petasos_tls::Identity;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{sleep, sleep_until};

use crate::{BoxFuture, Drain, FrameReader, FrameWriter, GrpcConfig};
use quota::Quota;

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
    /// Its address.
    pub address: SocketAddr,
    /// The identity that it has proved; `None` without a client certificate.
    pub identity: Option<Arc<Identity>>,
}

/// Serves until `drain` has started and all calls have ended, or the grace period is over.
///
/// Runs on the Tokio runtime that polls it, with time and I/O enabled. A connection that fails does
/// not affect others; failures are logged.
pub async fn serve(
    listener: TcpListener,
    routes: Arc<dyn Routes>,
    config: GrpcConfig,
    drain: Drain,
) {
    let mut tasks = JoinSet::new();
    let end = {
        let mut drained = std::pin::pin!(drain.clone().started());
        let free = Arc::new(Semaphore::new(config.connections_max));
        let quota = Quota::new(config.connections_per_address_max);
        let server = Arc::new(connection::Server { routes, config, drain });
        loop {
            let accepted = tokio::select! {
                end = &mut drained => break end,
                accepted = accept(&listener, &free) => accepted,
                Some(_) = tasks.join_next() => continue,
            };
            let (stream, address, permit) = accepted;
            let Some(counted) = quota.take(address) else {
                tracing::debug!(%address, "the address has too many connections");
                continue;
            };
            let server = server.clone();
            tasks.spawn(async move {
                server.run(stream, address).await;
                drop((permit, counted));
            });
        }
    };
    drop(listener);
    finish(tasks, end).await;
}

type Accepted = (TcpStream, SocketAddr, tokio::sync::OwnedSemaphorePermit);

/// The next connection, once the limit allows another.
async fn accept(listener: &TcpListener, free: &Arc<Semaphore>) -> Accepted {
    let permit = free.clone().acquire_owned().await.expect("the semaphore is never closed");
    loop {
        match listener.accept().await {
            Ok((stream, address)) => return (stream, address, permit),
            Err(error) if is_of_one_connection(&error) => {}
            Err(error) => {
                // No descriptors or no memory are left; other connections may free some.
                tracing::warn!(%error, "a connection cannot be accepted");
                sleep(Duration::from_millis(50)).await;
            }
        }
    }
}

fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
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
