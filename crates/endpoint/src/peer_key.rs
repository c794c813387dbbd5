//! One key per peer, for quotas outside of this crate.

use core::hash::BuildHasher;
use std::hash::RandomState;
use std::net::IpAddr;
use std::sync::OnceLock;

use petasos_tls::Holder;

/// The name of a peer in the whole process: what counts as one peer for an endpoint's quotas (over
/// TLS one name, otherwise one address) has the same key at each endpoint. The default belongs to
/// nobody.
///
/// It is a hash with a secret of the process, so that no peer can choose another's key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PeerKey(u64);

impl PeerKey {
    /// The key of a peer at this address that has proved no name.
    pub fn of_address(ip: IpAddr) -> PeerKey {
        PeerKey::of(&Holder::of(ip, None))
    }

    pub(crate) fn of(holder: &Holder) -> PeerKey {
        static SECRET: OnceLock<RandomState> = OnceLock::new();
        PeerKey(SECRET.get_or_init(RandomState::new).hash_one(holder))
    }
}
