//! What a router writes: into first packets that it gives to a worker, and probes (RT1, RT22).

use super::RoutePolicy;
use super::block::lifetime_to_bits;
use super::word_at;
use crate::header::INDEX_MASK;
use crate::{FIRST_BYTES, GIVEN_NUMBERS, HEADER_BYTES, Header, Kind};

/// The bits of the first word that say what the packet is and how it is encoded; the others name
/// its receiver.
const FORM_MASK: u64 = 0xffff;
const LIFETIME_AT: usize = 56;

/// What the router changes in a first packet on its way from the client to a worker (RT1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Given {
    /// The worker's index of the router.
    pub session: u32,
    /// The worker's tag for the router.
    pub tag: u32,
    /// The given number, modulo [`GIVEN_NUMBERS`] (RT19).
    pub number: u32,
    /// What is left of the time until the call's deadline (RT6).
    pub lifetime_us: Option<u32>,
}

impl Given {
    /// Changes the first bytes of a packet that [`RoutedPacket::from_client`] has accepted. All
    /// other bits stay as the client has written them.
    ///
    /// With all fields 0 this gives the associated data of a sealed first packet (RT27).
    ///
    /// [`RoutedPacket::from_client`]: super::RoutedPacket::from_client
    #[inline]
    pub fn write_to(self, first: &mut [u8; FIRST_BYTES]) {
        debug_assert!(self.number < GIVEN_NUMBERS);
        let named = word_at(&Header::for_session(self.session, self.tag).to_bytes(), 0);
        let word = word_at(first, 0) & FORM_MASK | named & !FORM_MASK;
        first[..8].copy_from_slice(&word.to_le_bytes());
        let word = word_at(first, 16) & !INDEX_MASK | u64::from(self.number);
        first[16..HEADER_BYTES].copy_from_slice(&word.to_le_bytes());
        let lifetime = lifetime_to_bits(self.lifetime_us);
        first[LIFETIME_AT..LIFETIME_AT + 4].copy_from_slice(&lifetime.to_le_bytes());
    }
}

/// A given number without a request, by which a router asks for feedback (RT22).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    /// The worker's index of the router.
    pub session: u32,
    /// The worker's tag for the router.
    pub tag: u32,
    /// The given number, modulo [`GIVEN_NUMBERS`] (RT19).
    pub number: u32,
}

impl Probe {
    /// The whole packet. It is never sealed.
    pub fn to_bytes(self) -> [u8; FIRST_BYTES] {
        debug_assert!(self.number < GIVEN_NUMBERS);
        let header = Header::for_session(self.session, self.tag)
            .with_request(Kind::Routed, 0, 0)
            .with_client(self.number, 0, 0);
        let mut bytes = [0; FIRST_BYTES];
        bytes[..HEADER_BYTES].copy_from_slice(&header.to_bytes());
        bytes[HEADER_BYTES] = RoutePolicy::Probe as u8;
        bytes
    }
}
