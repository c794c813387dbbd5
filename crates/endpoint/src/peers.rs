//! Who the peers of sessions are, and how they are reached.

use std::net::SocketAddr;
use std::sync::Arc;

use petasos_tls::Identity;

use crate::core::Context;
use crate::handler::{RequestHandle, ServerSessionId};
use crate::peer_key::PeerKey;
use crate::secure::is_sealed;
use crate::sessions::{ClientAddress, SessionId};

/// The client of a server session.
#[derive(Clone, Debug)]
pub struct ServedPeer {
    /// Its address for packets, as the client named it when it opened the session.
    pub address: SocketAddr,
    /// Whether packets come through shared memory.
    pub shared_memory: bool,
    /// The identity that its certificate has proved; `None` over plaintext.
    pub identity: Option<Arc<Identity>>,
}

impl<S> Context<S> {
    /// The client of a server session; `None` once the session is gone.
    pub fn served_peer(&self, session: ServerSessionId) -> Option<ServedPeer> {
        let Some(entry) = self.core.servers.get(session.index()) else {
            let client = self.core.group_client(session)?;
            let identity = client.told.as_ref().and_then(|told| told.identity.clone());
            return Some(ServedPeer { address: client.address, shared_memory: false, identity });
        };
        let entry = Some(entry).filter(|entry| entry.id == session)?;
        let ClientAddress { address, shared_memory, .. } = *entry.from;
        let identity = entry.secure.as_ref().map(|secure| secure.identity.clone());
        Some(ServedPeer { address, shared_memory, identity })
    }

    /// The key of the peer for which a server session counts; the default once the session is gone.
    pub fn served_peer_key(&self, session: ServerSessionId) -> PeerKey {
        let entry = self.core.servers.get(session.index());
        let holder = match entry.filter(|entry| entry.id == session) {
            Some(entry) => Some(entry.from.holder),
            None => self.core.group_client(session).map(|client| client.holder),
        };
        holder.map_or_else(PeerKey::default, |holder| self.core.holders.key(holder))
    }

    /// The key of the peer for which client session `session` counts: each dialled address is a
    /// peer. The default once the session is gone.
    pub fn session_peer_key(&self, session: SessionId) -> PeerKey {
        let entry = self.core.clients.get(session.index);
        let entry = entry.filter(|entry| entry.generation == session.generation);
        entry.map_or_else(PeerKey::default, |entry| self.core.holders.key(entry.holder))
    }

    /// The client that sent the request of `handle`: the identity that its certificate has proved.
    /// `None` over plaintext, or if the session is gone.
    pub fn peer(&self, handle: &RequestHandle) -> Option<&Arc<Identity>> {
        let Some(entry) = self.core.servers.get(handle.session.index()) else {
            return self.core.group_client(handle.session)?.told.as_ref()?.identity.as_ref();
        };
        let entry = Some(entry).filter(|entry| entry.id == handle.session)?;
        entry.secure.as_ref().map(|secure| &secure.identity)
    }

    /// The server of `session`: the identity that its certificate has proved. `None` over
    /// plaintext, of an attachment to a group, which has many, until the session is ready, or if it
    /// is gone.
    pub fn session_peer(&self, session: SessionId) -> Option<&Arc<Identity>> {
        let entry = self.core.clients.get(session.index)?;
        let entry = Some(entry).filter(|entry| entry.generation == session.generation)?;
        entry.secure.as_ref().map(|secure| &secure.identity)
    }

    /// Whether packets of `session` are encrypted: it was set up over TLS, and does not go through
    /// shared memory. Of an attachment to a group: whether its calls are.
    pub fn is_sealed(&self, session: SessionId) -> bool {
        if let Some(attachment) = self.core.group_attachment(session) {
            return attachment.keys.is_some();
        }
        let entry = self.core.clients.get(session.index);
        let entry = entry.filter(|entry| entry.generation == session.generation);
        is_sealed(entry.and_then(|entry| entry.secure.as_deref()))
    }
}
