//! A server's gRPC port: the same services over HTTP/2.
//!
//! Connections are tasks of the Tokio runtime in which the server was started. Without one, they
//! are tasks of threads of the port, each with a single-threaded runtime.

use core::time::Duration;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::{fmt, io};

use petasos_grpc::{Drain, GrpcConfig, Refusals, Routes};
use tokio::runtime::{Builder, Handle, Runtime};

use super::ended::{Ending, ThreadGuard};
use crate::handler::grpc::Router;
use crate::joining::{StartError, find};

/// The requested gRPC port.
pub(super) struct Asked {
    pub(super) address: String,
    pub(super) config: GrpcConfig,
}

/// A service for the gRPC port only, whose messages are bytes.
pub(super) struct GrpcService {
    /// In the form `package.Service`.
    pub(super) name: String,
    pub(super) routes: Arc<dyn Routes>,
}

/// A port that is bound, but does not serve yet.
pub(super) struct BoundPort {
    listener: TcpListener,
    config: GrpcConfig,
    place: Place,
}

enum Place {
    Tokio(Handle),
    /// One runtime per thread.
    Own(Vec<Runtime>),
}

/// A serving port.
pub(super) struct Port {
    pub(super) address: SocketAddr,
    pub(super) refusals: Refusals,
    drain: Drain,
}

impl BoundPort {
    /// Binds the port. Uses `threads` threads unless there is a Tokio runtime.
    pub(super) fn new(asked: Asked, threads: usize) -> Result<BoundPort, StartError> {
        let address = find(&asked.address)?;
        if asked.config.forbids(address.ip()) {
            return Err(StartError::GrpcPlaintext(address));
        }
        let listener = TcpListener::bind(address);
        let listener = listener.and_then(|listener| {
            listener.set_nonblocking(true)?;
            Ok(listener)
        });
        let listener =
            listener.map_err(|error| StartError::Address(asked.address.clone(), error))?;
        let place = match Handle::try_current() {
            Ok(runtime) => Place::Tokio(runtime),
            Err(_) => {
                let new = |_| Builder::new_current_thread().enable_io().enable_time().build();
                Place::Own((0..threads.max(1)).map(new).collect::<io::Result<_>>()?)
            }
        };
        Ok(BoundPort { listener, config: asked.config, place })
    }

    /// The number of threads or tasks to wait for at the end.
    pub(super) fn count(&self) -> usize {
        match &self.place {
            Place::Tokio(_) => 1,
            Place::Own(runtimes) => runtimes.len(),
        }
    }

    /// Serves until the port is told to end.
    pub(super) fn serve(self, router: Router, ending: &Arc<Ending>) -> io::Result<Port> {
        let address = self.listener.local_addr()?;
        let (router, drain) = (Arc::new(router), Drain::new());
        let BoundPort { listener, config, place } = self;
        let server = petasos_grpc::Server::new(router, config, drain.clone());
        let refusals = server.refusals();
        let run = |listener: TcpListener| {
            let (server, ending) = (server.clone(), ending.clone());
            async move {
                let mut guard = ThreadGuard { ending: &ending, calls: None };
                match tokio::net::TcpListener::from_std(listener) {
                    Ok(listener) => server.serve(listener).await,
                    Err(error) => tracing::error!(%error, "the gRPC port cannot be served"),
                }
                guard.calls = Some(0);
            }
        };
        match place {
            Place::Tokio(runtime) => drop(runtime.spawn(run(listener))),
            Place::Own(runtimes) => {
                for (number, runtime) in runtimes.into_iter().enumerate() {
                    let thread = std::thread::Builder::new().name(format!("petasos-grpc-{number}"));
                    let spawned = listener.try_clone().map(&run).and_then(|serving| {
                        thread.spawn(move || runtime.block_on(serving)).map(drop)
                    });
                    if let Err(error) = spawned {
                        drain.start(Duration::ZERO);
                        return Err(error);
                    }
                }
            }
        }
        Ok(Port { address, refusals, drain })
    }
}

impl Port {
    /// Accepts no more calls, and ends the running ones after `grace`.
    pub(super) fn end(&self, grace: Duration) {
        self.drain.start(grace);
    }
}

impl fmt::Debug for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Asked").field("address", &self.address).finish_non_exhaustive()
    }
}
