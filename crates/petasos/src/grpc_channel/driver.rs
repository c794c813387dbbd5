//! Performs the actions of a gRPC channel's core: name look-ups, connections, timers.
//!
//! These tasks hold only weak references to the channel, so that it ends when nobody uses it.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::{Arc, Weak};

use petasos_base::Time;
use petasos_call::Status;
use petasos_call::channel::{Action, PeerIndex};
use petasos_grpc::{ClientConfig, Connection};
use tokio::sync::Notify;
use tokio::time::{Duration, Instant, sleep_until};

use super::{Inner, UNIX_TARGET};

/// The number of concurrent calls of a connection that the core assumes. HTTP/2 has its own limit;
/// calls above that wait in the HTTP/2 layer.
const SLOTS: u32 = 1 << 24;

/// Stands for the server of a channel to a Unix socket, which has no other.
const UNIX_ADDRESS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// Runs until the channel is dropped.
pub(super) async fn drive(channel: Weak<Inner>, changed: Arc<Notify>) {
    loop {
        let Some(inner) = channel.upgrade() else { return };
        let wait = inner.work(&channel);
        drop(inner);
        match wait.and_then(|wait| Instant::now().checked_add(wait)) {
            None => changed.notified().await,
            Some(at) => tokio::select! {
                () = changed.notified() => {}
                () = sleep_until(at) => {}
            },
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.changed.notify_one();
    }
}

impl Inner {
    /// Performs all actions that are due, and returns the time until the next one.
    fn work(&self, weak: &Weak<Inner>) -> Option<Duration> {
        let state = &mut *self.lock();
        let now = self.now();
        while let Some((ticket, outcome)) = state.core.poll_waiting(now, &mut state.rng) {
            match state.waiting.remove(&ticket).map(|tell| (tell.send(outcome), outcome)) {
                Some((Ok(()), _)) => {}
                // The connect is no longer wanted.
                _ => {
                    if let Ok(session) = outcome {
                        state.core.handle_ended(session, None, now);
                    }
                }
            }
        }
        let mut actions = std::mem::take(&mut state.actions);
        while let Some(action) = state.core.poll_action(now) {
            actions.push(action);
        }
        for action in actions {
            match action {
                Action::Connect { peer, address, .. } => {
                    let name = state.names.get(&address).cloned();
                    let name = name.unwrap_or_else(|| address.to_string());
                    self.runtime.spawn(connect(weak.clone(), peer, address, name));
                }
                Action::Close(session) => {
                    if let Some(entry) = state.connections.get_mut(session.number())
                        && entry.as_ref().is_some_and(|(known, _)| *known == session)
                    {
                        *entry = None;
                    }
                }
                // There are no probes over gRPC: a server's load is unknown until it is called.
                Action::Probe(session) => {
                    state.core.handle_probed(session, None, now, &mut state.rng);
                }
                Action::Resolve => {
                    self.runtime.spawn(resolve(weak.clone(), self.targets.clone()));
                }
            }
        }
        match state.core.next_timeout() {
            Time::NEVER => None,
            at => Some(Duration::from_nanos(at.nanos_since(now))),
        }
    }
}

/// Opens a connection, and waits for its end.
async fn connect(channel: Weak<Inner>, peer: PeerIndex, address: SocketAddr, name: String) {
    let Some(config) = channel.upgrade().map(|inner| inner.config.clone()) else { return };
    let made = make(address, &name, config).await;
    let Some(inner) = channel.upgrade() else { return };
    let session = {
        let state = &mut *inner.lock();
        let now = inner.now();
        match &made {
            Ok(connection) => {
                let session = state.core.handle_connected(peer, SLOTS, now);
                if let Some(session) = session {
                    let at = session.number();
                    state.connections.resize_with(state.connections.len().max(at + 1), || None);
                    state.connections[at] = Some((session, connection.clone()));
                    state.last_failure = None;
                }
                session
            }
            Err(status) => {
                state.core.handle_failed(peer, &mut state.rng);
                state.last_failure = Some(status.clone());
                None
            }
        }
    };
    inner.changed.notify_one();
    drop(inner);
    let (Ok(connection), Some(session)) = (made, session) else { return };
    let closed = connection.closed();
    drop(connection);
    closed.await;
    if let Some(inner) = channel.upgrade() {
        inner.lock().lose(session, inner.now());
        inner.changed.notify_one();
    }
}

async fn make(address: SocketAddr, name: &str, config: ClientConfig) -> Result<Connection, Status> {
    let made = match (name.strip_prefix(UNIX_TARGET), config.forbids(address.ip())) {
        (Some(path), _) => Connection::connect_unix(Path::new(path), config).await,
        (None, true) => Err(forbidden(address)),
        (None, false) => Connection::connect_to(address, name, config).await,
    };
    if let Err(status) = &made {
        tracing::warn!(%address, name, %status, "a gRPC server cannot be reached");
    }
    made
}

/// The error for a server that is not allowed without TLS, as for servers over datagrams.
#[cold]
fn forbidden(address: SocketAddr) -> Status {
    Status::unavailable(format!(
        "{address} is not on this host: without TLS that takes express consent"
    ))
}

/// Looks up the target names.
async fn resolve(channel: Weak<Inner>, targets: Vec<String>) {
    let mut found = Vec::new();
    let mut names = HashMap::new();
    let mut failure = None;
    for target in targets {
        if target.starts_with(UNIX_TARGET) {
            names.insert(UNIX_ADDRESS, target);
            found.push(UNIX_ADDRESS);
            continue;
        }
        match tokio::net::lookup_host(&target).await {
            Ok(addresses) => {
                for address in addresses {
                    names.entry(address).or_insert_with(|| target.clone());
                    found.push(address);
                }
            }
            Err(error) => {
                tracing::warn!(target, %error, "a gRPC server's name cannot be looked up");
                failure = Some(Status::unavailable(format!("{target}: {error}")));
            }
        }
    }
    let Some(inner) = channel.upgrade() else { return };
    let state = &mut *inner.lock();
    if found.is_empty() && failure.is_some() {
        state.last_failure = failure;
        state.core.handle_unresolved(inner.now(), &mut state.rng);
    } else {
        state.names.extend(names);
        state.core.handle_resolved(&found, inner.now());
    }
    inner.changed.notify_one();
}
