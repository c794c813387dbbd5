//! Keys, numbers, and AEAD encryption of packets: of sealed sessions (`docs/spec/wire.md`, W27 to
//! W31), and of sealed groups (`docs/spec/route.md`).
//!
//! A [`Seal`] is one end's half of a sealed session: a [`Sealer`] for sent packets and an
//! [`Opener`] for received ones. Both ends make it from the [`SessionSecret`] that they derive from
//! their control connection. The crate is sans-I/O: packets are byte slices, and there is no clock.
//!
//! Groups of workers behind a router have keys of their own, in [`group`].
//!
//! Invariants:
//! - a [`Sealer`] never uses a number twice, whatever packets it is given;
//! - an [`Opener`] gives out a packet's payload once, and only if the peer's sealer made it;
//! - neither allocates nor locks, but for the one key that begins 2^21 packets.
//!
//! Boundary rule: depends only on `wire`; knows nothing about sessions, buffers or sockets.

pub mod group;
mod key;
mod key_life;
mod opener;
mod sealer;

pub use key::{Cipher, SECRET_BYTES, SessionSecret};
pub use key_life::KeyLife;
pub use opener::{OpenError, Opener};
pub use petasos_wire::SEAL_BYTES;
pub use sealer::{NotNewer, Sealer};

/// The end of a session that a process has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The end that sends requests.
    Client,
    /// The end that answers requests.
    Server,
}

/// One end's half of a sealed session.
#[derive(Debug)]
pub struct Seal {
    /// For sent packets.
    pub sealer: Sealer,
    /// For received packets.
    pub opener: Opener,
}

impl Seal {
    /// The half of `end`, with the tag that the server chose for the session (W28).
    pub fn new(secret: &SessionSecret, end: End, server_tag: u32, life: KeyLife) -> Seal {
        let (to_server, to_client) = secret.directions(server_tag);
        let (own, far) = match end {
            End::Client => (to_server, to_client),
            End::Server => (to_client, to_server),
        };
        let cipher = secret.cipher();
        Seal { sealer: Sealer::new(cipher, own, life), opener: Opener::new(cipher, far, life) }
    }
}
