//! Servers: services on dedicated loops, behind one address.
//!
//! A server has one node and several loops, each on its own thread; sessions are spread over the
//! loops. All loops serve the same services from their first session on. If the server was started
//! within a Tokio runtime, its threads have entered that runtime, so that its timers and sockets
//! work in handlers.
//!
//! When a server shuts down, the node notifies its peers and refuses sessions, and each loop ends
//! as described at `Loop::end`. The node ends when the last thread has ended and the [`Server`] is
//! dropped.

mod builder;
mod ended;
#[cfg(feature = "grpc")]
mod grpc;
mod signals;

use core::fmt;
use core::time::Duration;
use std::net::SocketAddr;
use std::sync::{Arc, mpsc};

use petasos_endpoint::{AtRouter, Node};

use crate::joining::Names;
pub use builder::{Placement, ServerBuilder};
pub use ended::Ended;
use ended::Ending;
use petasos_runtime::SlowTurns;
use petasos_runtime::local::current_with;
use petasos_runtime::shared::{Command, Shared};
use petasos_runtime::slow::SlowCounts;

/// A running server. Dropping it ends it at once; [`Server::drain`] shuts it down gracefully.
pub struct Server {
    node: Node,
    /// Where it is called through the managed service.
    address: Option<SocketAddr>,
    loops: Vec<Arc<Shared>>,
    #[cfg(feature = "grpc")]
    grpc: Option<grpc::Port>,
    ending: Arc<Ending>,
    grace: Duration,
    /// Ends with the server.
    names: Option<Names>,
}

impl Server {
    /// A builder for a server.
    pub fn builder() -> ServerBuilder {
        ServerBuilder::default()
    }

    /// The address where other processes reach the server; `None` if it does not listen.
    pub fn local_address(&self) -> Option<SocketAddr> {
        self.address.or_else(|| self.node.local_address())
    }

    /// The address where gRPC clients reach the server; `None` without [`ServerBuilder::grpc`].
    #[cfg(feature = "grpc")]
    pub fn grpc_address(&self) -> Option<SocketAddr> {
        self.grpc.as_ref().map(|port| port.address)
    }

    /// What the gRPC port has refused; `None` without [`ServerBuilder::grpc`].
    #[cfg(feature = "grpc")]
    pub fn grpc_stats(&self) -> Option<petasos_grpc::GrpcStats> {
        self.grpc.as_ref().map(|port| port.refusals.stats())
    }

    /// The turns of the server's loops in which tasks took more than a millisecond. Handlers on
    /// workers and on the gRPC port are not counted.
    pub fn slow_turns(&self) -> SlowTurns {
        SlowCounts::sum(self.loops.iter().map(|runtime| &runtime.slow))
    }

    /// What the server has at the routers of the groups that it joins: an entry for each loop and
    /// router. Waits for a turn of each loop. Loops that have ended have none, nor has the one in
    /// which this is called.
    pub fn routers(&self) -> Vec<AtRouter> {
        let (tell, told) = mpsc::channel();
        for runtime in self.loops.iter().filter(|it| current_with(it.loop_id).is_none()) {
            runtime.send(Command::Routers(tell.clone()));
        }
        drop(tell);
        told.into_iter().flatten().collect()
    }

    /// Shuts the server down: it accepts no more sessions and calls, lets running calls finish for
    /// up to `grace`, and ends the rest with `UNAVAILABLE`. Calling this several times waits for
    /// the same shutdown. Once this future was polled, the server shuts down even if the future is
    /// dropped.
    pub async fn drain(&self, grace: Duration) -> Ended {
        self.begin_end(grace);
        self.ending.wait().await
    }

    /// Ends the server without waiting for calls.
    pub async fn shut_down(self) -> Ended {
        self.drain(Duration::ZERO).await
    }

    /// Serves until the process gets SIGINT or SIGTERM, then drains with the grace period of
    /// [`ServerBuilder::grace`]. A second signal ends the process at once. Also returns if all
    /// threads of the server have failed.
    ///
    /// # Errors
    /// If the system does not let the process wait for signals. The server ends then.
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
