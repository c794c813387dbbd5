//! Groups of workers as the layers above see them (`docs/spec/route.md`).
//!
//! An attachment to a group's router is a session to which calls can be made: it has a
//! [`SessionId`](crate::SessionId), its calls end in continuations, and can be cancelled. Each goes
//! to the worker that the router picks. Requests that a router gives this endpoint come to its
//! handlers like any others; each client of a group is a session.

use core::fmt;
use std::net::IpAddr;

use petasos_control::Cipher as GroupCipher;
use petasos_netio::RouteError;
pub use petasos_proto::taken::MembershipId;
use petasos_seal::Cipher;
use petasos_seal::group::NotNext;
pub use petasos_wire::RoutePolicy;

/// Attachments to groups, which are in no table of sessions, have indices from this one on. So have
/// the clients of groups at a worker.
pub(crate) const GROUP: u32 = 1 << 30;
/// The most workers of a router that an endpoint knows (RT39).
pub(crate) const MEMBERS_MAX: usize = 1024;
/// The most routers that an endpoint is a worker of (RT39).
pub(crate) const MEMBERSHIPS_MAX: usize = 8;

/// How a call to a group is routed. The default is right for any call: it runs at most once, on any
/// worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Routing {
    /// How the router picks a worker (RT5).
    pub policy: RoutePolicy,
    /// What waits in the router goes in this order, the greatest first: 0 to 15, and what is above
    /// counts as 15 (RT24).
    pub priority: u8,
    /// CRC32C of the key, for [`RoutePolicy::Hash`]; otherwise 0.
    pub key_hash: u32,
    /// Whether the request may run more than once. It then goes to the worker at once, if it fits a
    /// packet. Others first ask for a worker, which takes a round trip more (RT4, RT15).
    pub is_idempotent: bool,
}

impl Routing {
    /// To the worker that has joined as primary.
    pub fn to_primary() -> Routing {
        Routing { policy: RoutePolicy::Primary, ..Routing::default() }
    }

    /// To the same worker as other calls with this key, while its load allows.
    pub fn by_key(key: &[u8]) -> Routing {
        let key_hash = crc32c::crc32c(key);
        Routing { policy: RoutePolicy::Hash, key_hash, ..Routing::default() }
    }
}

/// What the endpoint has told a router in its offer to join as a worker (RT34).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MembershipOffer {
    /// The membership, if the router grants it.
    pub id: MembershipId,
    /// The endpoint's index of the router, for first packets.
    pub session: u32,
    /// The endpoint's tag for the router.
    pub tag: u32,
}

/// A process that is a group's router.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouterProcess {
    /// Where its packets come from and go to, unless what it grants names other addresses.
    pub ip: IpAddr,
    /// What names the process (C4): keys of sealed groups belong to one.
    pub incarnation: u64,
}

/// The AEAD that a router has named (RT33).
pub(crate) fn cipher_of(cipher: GroupCipher) -> Cipher {
    match cipher {
        GroupCipher::Aes128Gcm => Cipher::Aes128Gcm,
        GroupCipher::ChaCha20Poly1305 => Cipher::ChaCha20Poly1305,
    }
}

/// Why something that a router has told could not be carried out.
#[derive(Debug)]
#[non_exhaustive]
pub enum GroupError {
    /// There is no such attachment or membership, or it has ended.
    Unknown,
    /// There are as many members, memberships or clients as the endpoint may have (RT39).
    Full,
    /// The routers are not of one group: their packets have different lengths (RT32).
    OtherGroup,
    /// The router names an epoch that is not newer than those that it has named, or has no secret
    /// for it although the group is sealed, or the reverse (RT30).
    Epoch,
    /// The packet I/O cannot reach an address.
    Unreachable(RouteError),
}

impl fmt::Display for GroupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GroupError::Unknown => f.write_str("there is no such attachment or membership"),
            GroupError::Full => f.write_str("the endpoint's limit for groups is reached"),
            GroupError::OtherGroup => f.write_str("the routers are of different groups"),
            GroupError::Epoch => f.write_str("the router's epoch does not follow the others"),
            GroupError::Unreachable(error) => write!(f, "an address cannot be reached: {error}"),
        }
    }
}

impl std::error::Error for GroupError {}

impl From<NotNext> for GroupError {
    fn from(_: NotNext) -> GroupError {
        GroupError::Epoch
    }
}

impl From<RouteError> for GroupError {
    fn from(error: RouteError) -> GroupError {
        GroupError::Unreachable(error)
    }
}
