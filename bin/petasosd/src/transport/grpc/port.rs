//! The port for gRPC clients: a listener, and a thread that serves it.

use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use petasos::Security;
use petasos::grpc::{Drain, GrpcConfig, Refusals, Server};
use petasos_base::sync::{AtomicBool, Ordering};
use tokio::runtime::{Builder, Runtime};

use super::super::mail::Inbox;
use super::serving::Front;
use crate::common::run_anywhere;

/// What a port is opened with.
pub struct Listen {
    pub address: SocketAddr,
    /// The socket of another process.
    pub taken: Option<TcpListener>,
    /// The longest message of a client, in bytes, if it is not gRPC's usual length.
    pub message_bytes_max: Option<usize>,
}

/// Where gRPC clients call.
pub struct Port {
    address: SocketAddr,
    is_secure: bool,
    pub front: Arc<Front>,
    /// For a process that takes over; none once it has the port.
    shared: Option<TcpListener>,
    /// What is to serve once the process before this one leaves the port.
    waiting: Option<Serving>,
    drain: Drain,
    is_over: Arc<AtomicBool>,
    refusals: Refusals,
}

/// What the port's thread serves with.
struct Serving {
    listener: TcpListener,
    runtime: Runtime,
    server: Server,
}

impl Port {
    /// Begins to serve. Nothing is known yet. With the socket of another process, it waits until
    /// [`Port::accept`].
    ///
    /// # Errors
    /// A text that says why it cannot.
    pub fn open(listen: Listen, security: &Security, inbox: &Arc<Inbox>) -> Result<Port, String> {
        let Listen { address, taken, message_bytes_max } = listen;
        let failed = |error: &dyn std::fmt::Display| {
            format!("cannot serve gRPC clients at {address}: {error}")
        };
        let mut config = config();
        config.receive_bytes_max = message_bytes_max.unwrap_or(config.receive_bytes_max);
        config.plaintext = matches!(security, Security::Plaintext);
        config.tls = super::server_tls(security)?;
        if config.forbids(address.ip()) {
            let why = "beyond this host, that takes certificates (--tls-cert) or --plaintext";
            return Err(failed(&why));
        }
        let is_secure = config.tls.is_some();
        let front = Arc::new(Front::new(inbox.clone(), is_secure).map_err(|error| failed(&error))?);
        let waits = taken.is_some();
        let listener = taken.map_or_else(|| TcpListener::bind(address), Ok);
        let listener = listener.map_err(|error| failed(&error))?;
        listener.set_nonblocking(true).map_err(|error| failed(&error))?;
        let address = listener.local_addr().map_err(|error| failed(&error))?;
        let shared = listener.try_clone().map_err(|error| failed(&error))?;
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| failed(&error))?;
        let (drain, is_over) = (Drain::new(), Arc::default());
        let server = Server::new(front.clone(), config, drain.clone());
        let refusals = server.refusals();
        let (shared, waiting) = (Some(shared), Some(Serving { listener, runtime, server }));
        let mut port =
            Port { address, is_secure, front, shared, waiting, drain, is_over, refusals };
        if !waits {
            port.serve().map_err(|error| failed(&error))?;
        }
        Ok(port)
    }

    /// Serves from now on, if it does not yet.
    pub fn accept(&mut self) {
        if let Err(error) = self.serve() {
            eprintln!("petasosd: gRPC clients are not served: {error}");
        }
    }

    fn serve(&mut self) -> std::io::Result<()> {
        let Some(Serving { listener, runtime, server }) = self.waiting.take() else {
            return Ok(());
        };
        let is_over = self.is_over.clone();
        let run = move || {
            run_anywhere();
            runtime.block_on(run(listener, server));
            is_over.store(true, Ordering::Release);
        };
        std::thread::Builder::new().name("petasosd-grpc".to_owned()).spawn(run).map(drop)
    }

    /// Another descriptor of the socket; none once it was handed over.
    ///
    /// # Errors
    /// The system has no descriptor left.
    pub fn share_listener(&self) -> std::io::Result<Option<OwnedFd>> {
        let shared = self.shared.as_ref().map(TcpListener::try_clone).transpose()?;
        Ok(shared.map(OwnedFd::from))
    }

    /// Leaves the port to another process. Clients are told to begin no calls on their connections
    /// (GOAWAY), and calls that run have this time to end.
    pub fn hand_over(&mut self, grace: Duration) {
        self.shared = None;
        if self.waiting.take().is_some() {
            self.is_over.store(true, Ordering::Release);
        }
        self.drain.start(grace);
    }

    /// Whether it was handed over and no client is connected any more.
    pub fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    /// What counts what is refused.
    pub fn refusals(&self) -> Refusals {
        self.refusals.clone()
    }

    /// Where clients connect.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What clients call.
    pub fn target(&self) -> String {
        let scheme = if self.is_secure { "grpcs" } else { "grpc" };
        format!("{scheme}://{}", self.address)
    }
}

async fn run(listener: TcpListener, server: Server) {
    match tokio::net::TcpListener::from_std(listener) {
        Ok(listener) => server.serve(listener).await,
        Err(error) => eprintln!("petasosd: gRPC clients are not served: {error}"),
    }
}

/// Bounds of what clients may do. A message has gRPC's usual length at most, 4 MiB.
pub fn config() -> GrpcConfig {
    let mut config = GrpcConfig::default();
    config.streams_max = 128;
    config.connections_max = 1024;
    config.connections_per_address_max = 256;
    config.connections_per_name_max = 512;
    // One thread serves all.
    config.handshakes_per_second = 256;
    config.header_bytes_max = 16 << 10;
    config.idle_timeout = Some(Duration::from_secs(600));
    config
}
