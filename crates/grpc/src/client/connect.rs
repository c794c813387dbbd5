//! Opens connections.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use http::uri::{Authority, Scheme};
use petasos_call::Status;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::watch;
use tokio::time::timeout;

use super::greeting::Greeted;
use super::{Connection, Shared};
use crate::payload::Payload;
use crate::places::Share;
use crate::{ClientConfig, keepalive};

impl Connection {
    /// Connects to `host:port`, with TLS if it is configured. A task on the Tokio runtime that
    /// polls this future drives the connection.
    ///
    /// # Errors
    /// `UNAVAILABLE`: the server cannot be reached, does not speak HTTP/2, takes too long, or one
    /// end does not trust the other's certificate. `INVALID_ARGUMENT`: `target` is not of this
    /// form.
    pub async fn connect(target: &str, config: ClientConfig) -> Result<Connection, Status> {
        let authority = parse(target)?;
        Self::timed(TcpStream::connect(authority.to_string()), authority, config).await
    }

    /// Connects to an address. Calls name the server `target` (`host:port`), and its certificate
    /// must have that name.
    ///
    /// # Errors
    /// As [`Connection::connect`].
    pub async fn connect_to(
        address: SocketAddr,
        target: &str,
        config: ClientConfig,
    ) -> Result<Connection, Status> {
        Self::timed(TcpStream::connect(address), parse(target)?, config).await
    }

    /// Connects to a Unix socket, without TLS. Calls name the server `localhost`.
    ///
    /// # Errors
    /// `UNAVAILABLE`, as of [`Connection::connect`]. `PERMISSION_DENIED`: the system does not let
    /// this process connect.
    pub async fn connect_unix(path: &Path, config: ClientConfig) -> Result<Connection, Status> {
        let failed = |error: io::Error| {
            let what = format!("{} cannot be reached: {error}", path.display());
            match error.kind() {
                io::ErrorKind::PermissionDenied => Status::permission_denied(what),
                _ => Status::unavailable(what),
            }
        };
        let (authority, limit) = (Authority::from_static("localhost"), config.connect_timeout);
        let made = timeout(limit, async {
            let stream = UnixStream::connect(path).await.map_err(failed)?;
            Self::over(stream, Scheme::HTTP, authority, config).await
        });
        let late =
            || Status::unavailable(format!("connecting to {} took too long", path.display()));
        made.await.unwrap_or_else(|_| Err(late()))
    }

    async fn timed(
        stream: impl Future<Output = io::Result<TcpStream>>,
        authority: Authority,
        config: ClientConfig,
    ) -> Result<Connection, Status> {
        let late = Status::unavailable(format!("connecting to {authority} took too long"));
        let made = timeout(config.connect_timeout, Self::reach(stream, authority, config));
        made.await.unwrap_or(Err(late))
    }

    async fn reach(
        stream: impl Future<Output = io::Result<TcpStream>>,
        authority: Authority,
        config: ClientConfig,
    ) -> Result<Connection, Status> {
        let failed = |error: io::Error| {
            Status::unavailable(format!("{authority} cannot be reached: {error}"))
        };
        let stream = stream.await.map_err(failed)?;
        stream.set_nodelay(true).map_err(failed)?;
        #[cfg(feature = "tls")]
        if let Some(tls) = &config.tls {
            let host = authority.host().trim_start_matches('[').trim_end_matches(']');
            let stream = tls.connect(host, stream).await.map_err(|error| {
                tracing::warn!(%authority, %error, "a TLS handshake failed");
                Status::unavailable(format!("no TLS connection to {authority}: {error}"))
            })?;
            return Self::over(stream, Scheme::HTTPS, authority, config).await;
        }
        Self::over(stream, Scheme::HTTP, authority, config).await
    }

    /// Starts HTTP/2 on an open stream, and waits until the server speaks it, too.
    async fn over<T>(
        stream: T,
        scheme: Scheme,
        authority: Authority,
        config: ClientConfig,
    ) -> Result<Connection, Status>
    where
        T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let silent = |why: &dyn std::fmt::Display| {
            Status::unavailable(format!("{authority} does not speak HTTP/2: {why}"))
        };
        let (stream, greeted) = Greeted::new(stream);
        let begun = settings(&config).handshake::<Greeted<T>, Payload>(stream).await;
        let (requests, connection) = begun.map_err(|error| silent(&error))?;
        let (ended, alive) = watch::channel(());
        let (calls, keepalive) = (Arc::new(()), config.keepalive);
        let unpacking = Share::default();
        let unheard = silent(&"it ended the connection, or sent something else");
        let shared = Shared { scheme, authority, config, alive, calls: calls.clone(), unpacking };
        let shared = Arc::new(shared);
        let users = Arc::downgrade(&shared);
        let has_calls = move || {
            // This closure holds one, and the handles that can begin calls hold one together.
            Arc::strong_count(&calls) > 1 + usize::from(users.strong_count() > 0)
        };
        tokio::spawn(drive(connection, keepalive, has_calls, ended));
        // The connection's task ends with its last user, so also if nobody waits here any more.
        greeted.await.map_err(|_| unheard)?;
        Ok(Connection { requests, shared })
    }
}

fn parse(target: &str) -> Result<Authority, Status> {
    let authority = Authority::try_from(target).ok().filter(|a| a.port_u16().is_some());
    authority
        .ok_or_else(|| Status::invalid_argument(format!("`{target}` is not of the form host:port")))
}

/// The most concurrent calls before the server has announced its limit. It should accept this many
/// (RFC 9113, 6.5.2), and may refuse more.
const STREAMS_AT_FIRST: usize = 100;

fn settings(config: &ClientConfig) -> h2::client::Builder {
    let mut settings = h2::client::Builder::new();
    settings
        .enable_push(false)
        .initial_max_send_streams(STREAMS_AT_FIRST)
        .max_header_list_size(config.header_bytes_max)
        .initial_window_size(config.stream_window_bytes)
        .initial_connection_window_size(config.connection_window_bytes)
        .max_send_buffer_size(config.send_buffer_bytes);
    settings
}

/// Drives a connection until it ends, or the server stops answering. Calls learn of it from their
/// streams.
async fn drive<T>(
    mut connection: h2::client::Connection<T, Payload>,
    times: Option<crate::Keepalive>,
    has_calls: impl Fn() -> bool,
    ended: watch::Sender<()>,
) where
    T: AsyncRead + AsyncWrite + Unpin,
{
    let pings = connection.ping_pong();
    let always = times.is_some_and(|times| times.without_calls);
    let is_wanted = || always || has_calls();
    tokio::select! {
        outcome = connection => {
            if let Err(error) = outcome {
                tracing::debug!(%error, "a connection failed");
            }
        }
        () = keepalive::watch(pings, times, is_wanted) => {
            tracing::info!("a server has stopped answering");
        }
    }
    drop(ended);
}
