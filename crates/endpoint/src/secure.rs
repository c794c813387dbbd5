//! The security of a session: the peer's identity, and the keys of its packets (W27, C19).

use std::sync::Arc;

use petasos_seal::{End, KeyLife, Seal, Sealer, SessionSecret};
use petasos_tls::Identity;

/// What a session gets from a control connection over TLS.
#[derive(Clone, Debug)]
pub struct SessionSecurity {
    /// The peer's identity.
    pub identity: Arc<Identity>,
    /// The secret from which the keys of the session's packets are derived.
    pub secret: SessionSecret,
}

impl SessionSecurity {
    /// The state for `end` of a session; without keys if its packets are not `sealed`.
    pub(crate) fn keep(self, end: End, server_tag: u32, life: KeyLife, sealed: bool) -> Secure {
        let seal = sealed.then(|| Seal::new(&self.secret, end, server_tag, life));
        Secure { identity: self.identity, seal }
    }
}

/// The state at one end of a session.
#[derive(Debug)]
pub(crate) struct Secure {
    pub(crate) identity: Arc<Identity>,
    /// `None` if packets go through shared memory (C19).
    pub(crate) seal: Option<Seal>,
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
