//! What makes a session secure: who the peer is, and the keys of its packets (W27, C19).

use std::net::SocketAddr;
use std::sync::Arc;

use petasos_seal::{End, KeyLife, Seal, Sealer, SessionSecret};
use petasos_tls::Identity;
use petasos_wire::Packet;

use crate::context::Context;
use crate::core::Core;
use crate::handler::RequestHandle;
use crate::sessions::{ClientAddress, SessionId};

/// What a control connection over TLS gives a session.
#[derive(Clone, Debug)]
pub struct SessionSecurity {
    /// Who the peer is.
    pub identity: Arc<Identity>,
    /// What the keys of the session's packets are derived from.
    pub secret: SessionSecret,
}

impl SessionSecurity {
    /// What `end` keeps of a session; without keys if its packets are not `sealed`.
    pub(crate) fn keep(self, end: End, server_tag: u32, life: KeyLife, sealed: bool) -> Secure {
        let seal = sealed.then(|| Seal::new(&self.secret, end, server_tag, life));
        Secure { identity: self.identity, seal }
    }
}

/// What one end of a session keeps.
#[derive(Debug)]
pub(crate) struct Secure {
    identity: Arc<Identity>,
    /// `None` if packets go through shared memory (C19).
    seal: Option<Seal>,
}

/// The sealer of a session, if it is sealed.
#[inline]
pub(crate) fn sealer(secure: &mut Option<Box<Secure>>) -> Option<&mut Sealer> {
    Some(&mut secure.as_mut()?.seal.as_mut()?.sealer)
}

/// Whether a session's packets are sealed.
#[inline]
pub(crate) fn is_sealed(secure: Option<&Secure>) -> bool {
    secure.is_some_and(|secure| secure.seal.is_some())
}

impl<S> Core<S> {
    /// The keys of the session that `packet` names with the right tag, if that is sealed. What has
    /// another tag is not worth opening.
    pub(crate) fn seal_of(&mut self, packet: &Packet<'_>) -> Option<&mut Seal> {
        let secure = match packet.from_server() {
            true => {
                let entry = self.clients.get_mut(packet.session())?;
                entry.secure.as_mut().filter(|_| entry.tag == packet.tag())
            }
            false => {
                let entry = self.servers.get_mut(packet.session())?;
                entry.secure.as_mut().filter(|_| entry.tag == packet.tag())
            }
        };
        secure?.seal.as_mut()
    }
}

/// Who has a session that requests come in.
#[derive(Clone, Debug)]
pub struct ServedPeer {
    /// Its address for packets, as it said when it opened the session.
    pub address: SocketAddr,
    /// Whether packets come through shared memory.
    pub shared_memory: bool,
    /// What it has proved with its certificate; `None` over plaintext.
    pub identity: Option<Arc<Identity>>,
}

impl<S> Context<S> {
    /// Who has a session, named as in [`RequestKey::session`](crate::RequestKey::session); `None`
    /// once it is gone.
    pub fn served_peer(&self, (index, generation): (u32, u32)) -> Option<ServedPeer> {
        let entry = self.core.servers.get(index)?;
        let entry = Some(entry).filter(|entry| entry.generation == generation)?;
        let ClientAddress { address, shared_memory, .. } = *entry.from;
        let identity = entry.secure.as_ref().map(|secure| secure.identity.clone());
        Some(ServedPeer { address, shared_memory, identity })
    }

    /// Who sent the request that `handle` names: what the client has proved with its certificate.
    /// `None` over plaintext, or if the session is gone.
    pub fn peer(&self, handle: &RequestHandle) -> Option<&Arc<Identity>> {
        let entry = self.core.servers.get(handle.session)?;
        let entry = Some(entry).filter(|entry| entry.generation == handle.generation)?;
        entry.secure.as_ref().map(|secure| &secure.identity)
    }

    /// Who serves `session`: what the server has proved with its certificate. `None` over
    /// plaintext, until the session is ready, or if it is gone.
    pub fn session_peer(&self, session: SessionId) -> Option<&Arc<Identity>> {
        let entry = self.core.clients.get(session.index)?;
        let entry = Some(entry).filter(|entry| entry.generation == session.generation)?;
        entry.secure.as_ref().map(|secure| &secure.identity)
    }

    /// Whether packets of `session` are encrypted: it was set up over TLS, and does not go through
    /// shared memory.
    pub fn is_sealed(&self, session: SessionId) -> bool {
        let entry = self.core.clients.get(session.index);
        let entry = entry.filter(|entry| entry.generation == session.generation);
        is_sealed(entry.and_then(|entry| entry.secure.as_deref()))
    }
}
