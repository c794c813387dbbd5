//! Accepts connections and calls.
//!
//! Each connection has a task, in which its calls' handlers are polled first; [`call`] judges a
//! request and runs its handler, [`connection`] drives HTTP/2, [`life`] knows when that ends, and
//! [`quota`] leaves connections to other addresses.

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

/// Whoever handles calls.
pub trait Routes: Send + Sync + 'static {
    /// Begins to handle a call of `path`, such as `/routeguide.RouteGuide/GetFeature`; the paths
    /// are the client's choice, and it is for this to answer unknown ones with `UNIMPLEMENTED`.
    ///
    /// The future is dropped when the client gives the call up or its deadline passes. It must not
    /// block.
    fn serve(&self, path: &str, call: ServerCall) -> BoxFuture<'static, ()>;
}

/// A call at its server.
#[non_exhaustive]
pub struct ServerCall {
    /// What the client sent with the call.
    pub metadata: Metadata,
    /// How long the client waits; the call is ended then.
    pub timeout: Option<Duration>,
    /// Who calls: the same for all calls of a connection.
    pub peer: Arc<Peer>,
    /// The client's messages.
    pub requests: FrameReader,
    /// Takes the messages and the status that answer them.
    pub responses: FrameWriter,
}

/// The other end of a connection.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Peer {
    /// Where it connects from.
    pub address: SocketAddr,
    /// Who it proved to be; none without a client certificate.
    pub identity: Option<Arc<Identity>>,
}

/// Serves until `drain` is given and all calls have ended, or its grace is over.
///
/// Runs on the Tokio runtime that polls it, with time and I/O enabled. A connection that fails
/// harms no other; what fails is logged.
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

/// The next connection, when there may be another.
async fn accept(listener: &TcpListener, free: &Arc<Semaphore>) -> Accepted {
    let permit = free.clone().acquire_owned().await.expect("the semaphore is never closed");
    loop {
        match listener.accept().await {
            Ok((stream, address)) => return (stream, address, permit),
            Err(error) if is_of_one_connection(&error) => {}
            Err(error) => {
                // No descriptors or memory are left. Others may free some.
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

/// Connections end by themselves by `end`, give or take the time it takes to say so.
async fn finish(mut tasks: JoinSet<()>, end: tokio::time::Instant) {
    let late = sleep_until(end + 2 * life::FAREWELL);
    let all = async { while tasks.join_next().await.is_some() {} };
    tokio::select! {
        () = all => {}
        () = late => tracing::warn!("connections did not end in time, and are dropped"),
    }
}
