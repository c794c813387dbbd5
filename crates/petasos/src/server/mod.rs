//! Servers: services on loops of their own, behind one address.
//!
//! A server has one node and some loops, each on a thread; sessions spread over them. All loops
//! serve the same services from their first session on. If the server was started within a Tokio
//! runtime, its threads have entered that, so that timers and sockets of the runtime work in
//! handlers.
//!
//! How it ends: the node tells its peers and refuses sessions, and each loop ends as
//! `Loop::end` says. The node ends with the last of the threads and the
//! [`Server`].

mod builder;
mod ended;
mod error;
#[cfg(feature = "grpc")]
mod grpc;
mod signals;

use core::fmt;
use core::time::Duration;
use std::net::SocketAddr;
use std::sync::Arc;

use petasos_endpoint::Node;

pub use builder::{Placement, ServerBuilder};
pub use ended::Ended;
use ended::Ending;
pub use error::StartError;
use petasos_runtime::SlowTurns;
use petasos_runtime::shared::{Command, Shared};
use petasos_runtime::slow::SlowCounts;

/// A server that runs. Dropping it ends it at once; [`Server::drain`] ends it gracefully.
pub struct Server {
    node: Node,
    loops: Vec<Arc<Shared>>,
    #[cfg(feature = "grpc")]
    grpc: Option<grpc::Port>,
    ending: Arc<Ending>,
    grace: Duration,
}

impl Server {
    /// How to make a server.
    pub fn builder() -> ServerBuilder {
        ServerBuilder::default()
    }

    /// Where other processes reach it; `None` if it does not listen.
    pub fn local_address(&self) -> Option<SocketAddr> {
        self.node.local_address()
    }

    /// Where gRPC clients reach it; `None` without [`ServerBuilder::grpc`].
    #[cfg(feature = "grpc")]
    pub fn grpc_address(&self) -> Option<SocketAddr> {
        self.grpc.as_ref().map(|port| port.address)
    }

    /// Turns of the server's loops in which tasks took more than a millisecond. Handlers on workers
    /// and of the gRPC port are not in loops.
    pub fn slow_turns(&self) -> SlowTurns {
        SlowCounts::sum(self.loops.iter().map(|runtime| &runtime.slow))
    }

    /// Ends the server: it takes no more sessions and calls, finishes the calls that run for as
    /// long as `grace`, and ends what is left with `UNAVAILABLE`. Awaiting it again, or in several
    /// places, tells of the same end. The server ends whether or not this is awaited, once it was
    /// polled.
    pub async fn drain(&self, grace: Duration) -> Ended {
        self.begin_end(grace);
        self.ending.wait().await
    }

    /// Ends the server without waiting for calls.
    pub async fn shut_down(self) -> Ended {
        self.drain(Duration::ZERO).await
    }

    /// Serves until the process is told to end (SIGINT, SIGTERM), and drains then, with the grace
    /// of [`ServerBuilder::grace`]. A second signal ends the process at once. Also ends if all
    /// threads of the server have failed.
    ///
    /// # Errors
    /// If the system does not let the process await signals; the server ends then.
    pub async fn until_signal(self) -> std::io::Result<Ended> {
        let signal = signals::next()?;
        self.ending.or(signal).await;
        Ok(self.drain(self.grace).await)
    }

    fn begin_end(&self, grace: Duration) {
        self.ending.begin();
        self.node.drain();
        for runtime in &self.loops {
            runtime.send(Command::Stop { grace });
        }
        #[cfg(feature = "grpc")]
        if let Some(port) = &self.grpc {
            port.end(grace);
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if !self.ending.has_begun() {
            self.begin_end(Duration::ZERO);
        }
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Server");
        debug.field("address", &self.local_address()).field("loops", &self.loops.len());
        debug.finish_non_exhaustive()
    }
}
