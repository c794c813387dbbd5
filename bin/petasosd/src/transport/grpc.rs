//! Calls to gRPC servers, and from gRPC clients (ADR 25).
//!
//! Nothing of HTTP/2 runs in the daemon's thread. Calls that leave are futures of the facade's
//! runtime, those that come in are futures of the port's own thread, and both talk to the transport
//! through ports, as the futures in its loop do. What they say is in an inbox of its own: a future
//! in the loop has its waker there, so that the daemon does not sleep over it.
//!
//! # Bounds
//! - Calls that leave: [`OUTGOING_MAX`], [`OUTGOING_OF_ONE_MAX`] of one application.
//! - Calls that come in: [`INCOMING_MAX`], [`INCOMING_OF_ONE_MAX`] of one peer; connections,
//!   streams, headers and messages by [`port::config`].
//! - A call has one message at most in its port, and one in the inbox.

mod about;
mod calling;
mod port;
mod serving;

use std::future::poll_fn;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use petasos::grpc::{ClientConfig, ClientTls, Keepalive, PemFiles, Refusals, ServerTls};
use petasos::rt::ServiceRef;
use petasos::{Channel, Credentials, Loop, Security, ServiceChoice, Status, TlsConfig};

use super::known::Known;
use super::mail::{Inbox, Said};
use super::rooms::Rooms;
pub use calling::Call;
pub use port::Listen;
use port::Port;

/// As many calls to gRPC servers are under way at most.
const OUTGOING_MAX: usize = 8192;
/// The same, of one application.
const OUTGOING_OF_ONE_MAX: usize = 4096;
/// As many calls of gRPC clients are under way at most.
const INCOMING_MAX: usize = 4096;
/// The same, of one peer.
const INCOMING_OF_ONE_MAX: usize = 1024;
/// As much is heard in a turn at most.
const HEARD_MAX: usize = 256;
/// The longest message in either direction that leaves or comes with a call that leaves, in bytes:
/// applications take no longer ones.
const MESSAGE_BYTES_MAX: usize = 16 << 20;
/// A server that has gone without a word is noticed, if a call is under way. Servers of other
/// implementations close connections that ping more often than every five minutes.
const KEEPALIVE: Keepalive = Keepalive {
    interval: Duration::from_secs(330),
    timeout: Duration::from_secs(20),
    without_calls: false,
};

/// What the targets of gRPC servers begin with.
const SCHEMES: [&str; 2] = ["grpc://", "grpcs://"];

/// Whether a target is a gRPC server.
pub fn is_grpc(target: &str) -> bool {
    SCHEMES.iter().any(|scheme| target.starts_with(scheme))
}

/// Calls over gRPC.
pub struct Grpc {
    inbox: Arc<Inbox>,
    /// What remains to be heard in this turn.
    heard: usize,
    leaving: Rooms,
    client: ClientConfig,
    port: Option<Port>,
}

impl Grpc {
    /// Opens the port, if there is to be one.
    ///
    /// # Errors
    /// A text that says why it cannot.
    pub fn new(
        security: &Security,
        listen: Option<Listen>,
        event_loop: &Loop,
    ) -> Result<Grpc, String> {
        let inbox = Arc::new(Inbox::default());
        let heard = inbox.clone();
        drop(event_loop.spawn(poll_fn(move |cx| {
            heard.wake_with(cx.waker());
            Poll::<()>::Pending
        })));
        let port = listen.map(|listen| Port::open(listen, security, &inbox)).transpose()?;
        let leaving = Rooms::new(OUTGOING_MAX, OUTGOING_OF_ONE_MAX);
        Ok(Grpc { inbox, heard: 0, leaving, client: client_config(security)?, port })
    }

    /// Where gRPC clients connect, if anywhere.
    pub fn local_address(&self) -> Option<SocketAddr> {
        self.port.as_ref().map(Port::address)
    }

    /// Where gRPC clients call, if anywhere: a target.
    pub fn local_target(&self) -> Option<String> {
        self.port.as_ref().map(Port::target)
    }

    /// What counts what the port refuses, if there is one.
    pub fn refusals(&self) -> Option<Refusals> {
        self.port.as_ref().map(Port::refusals)
    }

    /// Lets gRPC clients connect at a socket of another process from now on.
    pub fn accept(&mut self) {
        self.port.iter_mut().for_each(Port::accept);
    }

    /// Another descriptor of the port's socket, if there is a port.
    ///
    /// # Errors
    /// The system has no descriptor left.
    pub fn share_listener(&self) -> std::io::Result<Option<OwnedFd>> {
        self.port.as_ref().map_or(Ok(None), Port::share_listener)
    }

    /// Leaves the port to another process: clients are told to connect again, and calls that run
    /// have this time to end.
    pub fn hand_over(&mut self, grace: Duration) {
        self.port.iter_mut().for_each(|port| port.hand_over(grace));
    }

    /// Whether the port was handed over and no client is connected any more. So if there is none.
    pub fn is_over(&self) -> bool {
        self.port.as_ref().is_none_or(Port::is_over)
    }

    /// Begins a turn, in which only so much is heard: futures on other threads say more meanwhile.
    pub fn begin_turn(&mut self) {
        self.heard = HEARD_MAX;
    }

    /// What a future has said.
    pub fn hear(&mut self) -> Option<Said> {
        self.heard = self.heard.checked_sub(1)?;
        self.inbox.pop()
    }

    /// Whether nothing is to be heard.
    pub fn is_quiet(&self) -> bool {
        self.inbox.is_empty()
    }

    /// Lets gRPC clients call these services, of which applications serve those with a descriptor
    /// now.
    pub fn publish<'a>(&self, all: impl Iterator<Item = (&'a Arc<Known>, Option<ServiceRef>)>) {
        if let Some(port) = &self.port {
            port.front.publish(all);
        }
    }

    /// Whether calls can go to a target, and why not.
    pub fn check(&self, target: &str) -> Result<(), Status> {
        let (scheme, list) = target.split_once("://").unwrap_or_default();
        if petasos::hosts(list).is_none() {
            let wrong = format!("`{target}` is not {scheme}://HOST:PORT");
            return Err(Status::invalid_argument(wrong));
        }
        if scheme == "grpcs" && self.client.tls.is_none() {
            let wrong = format!("`{target}` takes certificates of the service (--tls-cert)");
            return Err(Status::invalid_argument(wrong));
        }
        Ok(())
    }

    /// A channel to a target, which connects when it is called.
    pub fn channel(&self, target: &str) -> Result<Channel, Status> {
        // The service's own calls go through no service.
        let builder = Channel::builder(target).service(ServiceChoice::Direct);
        let channel = builder.grpc(self.client.clone()).connect_lazily();
        channel.map_err(|error| Status::invalid_argument(error.to_string()))
    }
}

/// How the service calls gRPC servers.
///
/// # Errors
/// What is wrong with its certificates.
pub fn client_config(security: &Security) -> Result<ClientConfig, String> {
    let mut config = ClientConfig::default();
    config.receive_bytes_max = MESSAGE_BYTES_MAX;
    config.keepalive = Some(KEEPALIVE);
    config.plaintext = matches!(security, Security::Plaintext);
    if let Security::Tls(tls) = security {
        let client = ClientTls::from_files(files(tls)?);
        config.tls = Some(client.map_err(|error| error.to_string())?);
    }
    Ok(config)
}

fn server_tls(security: &Security) -> Result<Option<ServerTls>, String> {
    let Security::Tls(tls) = security else { return Ok(None) };
    let server = ServerTls::from_files(files(tls)?).map_err(|error| error.to_string())?;
    Ok(Some(match &tls.allow {
        Some(names) => server.allow(names.clone()),
        None => server,
    }))
}

fn files(tls: &TlsConfig) -> Result<PemFiles, String> {
    match &tls.credentials {
        Credentials::Files(files) => Ok(files.clone()),
        _ => Err("gRPC takes certificates from files".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use petasos::LoopConfig;

    use super::super::mail;
    use super::*;

    #[test]
    fn what_is_heard_in_a_turn_is_bounded_and_the_rest_waits() {
        let event_loop = Loop::new(LoopConfig::default()).expect("loopback has ports");
        let mut grpc =
            Grpc::new(&Security::Loopback, None, &event_loop).expect("nothing is opened");
        let port = mail::Port::new(None);
        (0..HEARD_MAX + 10).for_each(|_| grpc.inbox.say(Said::Closed(port.clone())));
        assert!(grpc.hear().is_none(), "a turn has to begin");
        for heard in [HEARD_MAX, 10] {
            assert!(!grpc.is_quiet());
            grpc.begin_turn();
            assert_eq!(std::iter::from_fn(|| grpc.hear()).count(), heard);
        }
        assert!(grpc.is_quiet());
    }
}
