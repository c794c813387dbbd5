//! The port for gRPC clients: a listener, and a thread that serves it.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use petasos::Security;
use petasos::grpc::{Drain, GrpcConfig, Routes, serve};
use tokio::runtime::Builder;

use super::super::mail::Inbox;
use super::serving::Front;

/// Where gRPC clients call.
pub struct Port {
    address: SocketAddr,
    is_secure: bool,
    pub front: Arc<Front>,
}

impl Port {
    /// Begins to serve. Nothing is known yet.
    ///
    /// # Errors
    /// A text that says why it cannot.
    pub fn open(
        address: SocketAddr,
        security: &Security,
        inbox: &Arc<Inbox>,
    ) -> Result<Port, String> {
        let failed = |error: &dyn std::fmt::Display| {
            format!("cannot serve gRPC clients at {address}: {error}")
        };
        let mut config = config();
        config.plaintext = matches!(security, Security::Plaintext);
        config.tls = super::server_tls(security)?;
        if config.forbids(address.ip()) {
            let why = "beyond this host, that takes certificates (--tls-cert) or --plaintext";
            return Err(failed(&why));
        }
        let is_secure = config.tls.is_some();
        let front = Arc::new(Front::new(inbox.clone(), is_secure).map_err(|error| failed(&error))?);
        let listener = TcpListener::bind(address).map_err(|error| failed(&error))?;
        listener.set_nonblocking(true).map_err(|error| failed(&error))?;
        let address = listener.local_addr().map_err(|error| failed(&error))?;
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| failed(&error))?;
        let (routes, thread) = (front.clone(), std::thread::Builder::new());
        let run = move || runtime.block_on(run(listener, routes, config));
        let thread = thread.name("petasosd-grpc".to_owned()).spawn(run);
        thread.map_err(|error| failed(&error))?;
        Ok(Port { address, is_secure, front })
    }

    /// What clients call.
    pub fn target(&self) -> String {
        let scheme = if self.is_secure { "grpcs" } else { "grpc" };
        format!("{scheme}://{}", self.address)
    }
}

async fn run(listener: TcpListener, routes: Arc<dyn Routes>, config: GrpcConfig) {
    match tokio::net::TcpListener::from_std(listener) {
        Ok(listener) => serve(listener, routes, config, Drain::new()).await,
        Err(error) => eprintln!("petasosd: gRPC clients are not served: {error}"),
    }
}

/// Bounds of what clients may do. A message has gRPC's usual length at most, 4 MiB.
pub fn config() -> GrpcConfig {
    let mut config = GrpcConfig::default();
    config.streams_max = 128;
    config.connections_max = 1024;
    config.connections_per_address_max = 256;
    config.header_bytes_max = 16 << 10;
    config.idle_timeout = Some(Duration::from_secs(600));
    config
}
