//! The routing block of 40 bytes behind the header of every first packet (RT2).
//!
//! ```text
//! word 3          policy:4  priority:4  flags:8  port:16  client:20  epoch:12
//! words 4, 5      address
//! word 6          pair:20  pair_tag:28  number_high:16
//! word 7          lifetime_us:32  key_hash:32
//! ```
//! Words count on from the header's. Their fields are listed from the least significant bit
//! upwards. Port and address are in network order, an IPv4 address is mapped into IPv6.

use core::net::{IpAddr, Ipv6Addr, SocketAddr};

use super::word_at;
use crate::{
    CLIENTS_MAX, EPOCHS, FIRST_NUMBERS, PRIORITIES, ROUTING_BLOCK_BYTES, SESSIONS_MAX, TAG_MAX,
    TRANSMISSION_NUMBERS,
};

const PRIORITY_SHIFT: u32 = 4;
const FLAG_CLAIM: u64 = 1 << 8;
pub(super) const FLAGS_RESERVED: u64 = 0xfe << 8;
const PORT_SHIFT: u32 = 16;
const CLIENT_SHIFT: u32 = 32;
const EPOCH_SHIFT: u32 = 52;
const PAIR_TAG_SHIFT: u32 = 20;
const NUMBER_HIGH_SHIFT: u32 = 48;
const KEY_HASH_SHIFT: u32 = 32;
/// Bits of a number that the header's transmission has (RT3).
pub(super) const NUMBER_LOW_BITS: u32 = 24;
/// In the place of the time left: there is no limit (RT6).
const NO_LIMIT: u32 = u32::MAX;

const _: () = assert!(1 << NUMBER_LOW_BITS == TRANSMISSION_NUMBERS);
const _: () = assert!(FIRST_NUMBERS == 1 << (NUMBER_LOW_BITS + u16::BITS));

/// How the router picks a worker (RT5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum RoutePolicy {
    /// By the policy of the group.
    #[default]
    Any = 0,
    /// The worker that has joined as primary.
    Primary = 1,
    /// By the hash of the key: the same worker for the same key while its load allows.
    Hash = 2,
    /// A router's [`Probe`](super::Probe). No client may send it.
    Probe = 15,
}

impl RoutePolicy {
    /// The policy with this number, if it is assigned. A router rejects others
    /// ([`RejectCode::UnknownPolicy`](crate::RejectCode::UnknownPolicy)).
    pub const fn from_number(number: u8) -> Option<RoutePolicy> {
        Some(match number {
            0 => RoutePolicy::Any,
            1 => RoutePolicy::Primary,
            2 => RoutePolicy::Hash,
            15 => RoutePolicy::Probe,
            _ => return None,
        })
    }
}

/// A routing block to be sent (RT2). Each number is within its width.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoutingBlock {
    /// How the router picks a worker.
    pub policy: RoutePolicy,
    /// The greatest is given first; below [`PRIORITIES`] (RT24).
    pub priority: u8,
    /// Whether the packet only asks for a worker (RT4).
    pub is_claim: bool,
    /// Where answers go: the data address of the client (RT26). Without an IPv6 scope.
    pub reply: SocketAddr,
    /// The number of the client at the router, which is the header's session on the way there.
    pub client: u32,
    /// The epoch whose table and keys are used (RT30); below [`EPOCHS`].
    pub epoch: u16,
    /// The client's index of the pair (RT10).
    pub pair: u32,
    /// The client's tag of the pair (RT10).
    pub pair_tag: u32,
    /// The packet's number (RT3), below [`FIRST_NUMBERS`]. Its lowest 24 bits are not here but in
    /// the header, see [`RoutingBlock::transmission`].
    pub number: u64,
    /// Microseconds until the call's deadline. `None`, and the greatest number, are no limit (RT6).
    pub lifetime_us: Option<u32>,
    /// CRC32C of the key with [`RoutePolicy::Hash`], otherwise 0 (RT5).
    pub key_hash: u32,
}

impl RoutingBlock {
    /// What the header has to carry as its transmission number (RT3).
    #[inline]
    pub const fn transmission(&self) -> u32 {
        self.number as u32 & (TRANSMISSION_NUMBERS - 1)
    }

    /// The block as bytes on the wire.
    #[inline]
    pub fn to_bytes(&self) -> [u8; ROUTING_BLOCK_BYTES] {
        let mut bytes = [0; ROUTING_BLOCK_BYTES];
        self.write_to(&mut bytes);
        bytes
    }

    /// Writes the block as bytes on the wire.
    #[inline]
    pub fn write_to(&self, bytes: &mut [u8; ROUTING_BLOCK_BYTES]) {
        debug_assert!(self.priority < PRIORITIES && self.client < CLIENTS_MAX);
        debug_assert!(self.epoch < EPOCHS && self.number < FIRST_NUMBERS);
        debug_assert!(self.pair < SESSIONS_MAX && self.pair_tag < TAG_MAX);
        let picked = self.policy as u64
            | u64::from(self.priority) << PRIORITY_SHIFT
            | if self.is_claim { FLAG_CLAIM } else { 0 }
            | u64::from(self.reply.port().to_be()) << PORT_SHIFT
            | u64::from(self.client) << CLIENT_SHIFT
            | u64::from(self.epoch) << EPOCH_SHIFT;
        let pair = u64::from(self.pair)
            | u64::from(self.pair_tag) << PAIR_TAG_SHIFT
            | (self.number >> NUMBER_LOW_BITS) << NUMBER_HIGH_SHIFT;
        let ends = u64::from(lifetime_to_bits(self.lifetime_us))
            | u64::from(self.key_hash) << KEY_HASH_SHIFT;
        bytes[..8].copy_from_slice(&picked.to_le_bytes());
        bytes[8..24].copy_from_slice(&mapped(self.reply.ip()).octets());
        bytes[24..32].copy_from_slice(&pair.to_le_bytes());
        bytes[32..].copy_from_slice(&ends.to_le_bytes());
    }
}

/// Where answers go, as it stands in a block: cheap to compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplyAddress {
    low: u64,
    high: u64,
    /// In network byte order.
    port: u16,
}

impl From<SocketAddr> for ReplyAddress {
    /// Without the scope of an IPv6 address, which a block does not have.
    fn from(address: SocketAddr) -> ReplyAddress {
        let octets = u128::from_le_bytes(mapped(address.ip()).octets());
        let (low, high) = (octets as u64, (octets >> 64) as u64);
        ReplyAddress { low, high, port: address.port().to_be() }
    }
}

/// A received routing block. Any 40 bytes are one; which flags are set is checked elsewhere.
#[derive(Clone, Copy, Debug)]
pub(super) struct Words([u64; 5]);

impl Words {
    #[inline]
    pub(super) fn read(bytes: &[u8; ROUTING_BLOCK_BYTES]) -> Words {
        // Not `map`, which is a loop with calls unless everything is optimized together.
        let word = |at| word_at(bytes, at);
        Words([word(0), word(8), word(16), word(24), word(32)])
    }

    #[inline]
    pub(super) fn has_reserved_flag(&self) -> bool {
        self.0[0] & FLAGS_RESERVED != 0
    }

    #[inline]
    pub(super) fn policy_number(&self) -> u8 {
        self.0[0] as u8 & 0xf
    }

    #[inline]
    pub(super) fn priority(&self) -> u8 {
        self.0[0] as u8 >> PRIORITY_SHIFT
    }

    #[inline]
    pub(super) fn is_claim(&self) -> bool {
        self.0[0] & FLAG_CLAIM != 0
    }

    #[inline]
    pub(super) fn reply(&self) -> SocketAddr {
        let port = u16::from_be((self.0[0] >> PORT_SHIFT) as u16);
        let low = u128::from(self.0[1]);
        let octets = (low | u128::from(self.0[2]) << 64).to_le_bytes();
        SocketAddr::new(Ipv6Addr::from(octets).to_canonical(), port)
    }

    #[inline]
    pub(super) fn replies_to(&self, address: &ReplyAddress) -> bool {
        let port = (self.0[0] >> PORT_SHIFT) as u16;
        (self.0[1], self.0[2], port) == (address.low, address.high, address.port)
    }

    #[inline]
    pub(super) fn client(&self) -> u32 {
        (self.0[0] >> CLIENT_SHIFT) as u32 & (CLIENTS_MAX - 1)
    }

    #[inline]
    pub(super) fn epoch(&self) -> u16 {
        (self.0[0] >> EPOCH_SHIFT) as u16
    }

    #[inline]
    pub(super) fn pair(&self) -> u32 {
        self.0[3] as u32 & (SESSIONS_MAX - 1)
    }

    #[inline]
    pub(super) fn pair_tag(&self) -> u32 {
        (self.0[3] >> PAIR_TAG_SHIFT) as u32 & (TAG_MAX - 1)
    }

    #[inline]
    pub(super) fn number_high(&self) -> u64 {
        self.0[3] >> NUMBER_HIGH_SHIFT
    }

    #[inline]
    pub(super) fn lifetime_us(&self) -> Option<u32> {
        let bits = self.0[4] as u32;
        (bits != NO_LIMIT).then_some(bits)
    }

    #[inline]
    pub(super) fn key_hash(&self) -> u32 {
        (self.0[4] >> KEY_HASH_SHIFT) as u32
    }
}

#[inline]
pub(super) const fn lifetime_to_bits(lifetime_us: Option<u32>) -> u32 {
    match lifetime_us {
        Some(bits) => bits,
        None => NO_LIMIT,
    }
}

#[inline]
fn mapped(ip: IpAddr) -> Ipv6Addr {
    match ip {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    }
}
