//! First packets as they arrive: at the router from clients, at a worker from the router (RT1).

use core::net::SocketAddr;

use super::Void;
use super::block::{NUMBER_LOW_BITS, ReplyAddress, RoutePolicy, Words};
use crate::header::{FLAG_ECN_ECHO, FLAG_LATER};
use crate::{CLAIM_BYTES_MAX, Kind, Packet, SEAL_BYTES};

/// What all members of a group have agreed on about the form of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group {
    /// The most bytes of a message in a packet (RT8, RT32).
    pub payload_bytes: u32,
    /// Whether first packets end with the tag of an AEAD (RT27).
    pub is_sealed: bool,
}

/// A first packet whose form has been checked (RT1, RT2, RT4), so that no accessor can fail.
///
/// In a sealed group, nothing of it is authenticated yet, and the body is encrypted. The first 64
/// bytes are in the clear.
#[derive(Clone, Copy, Debug)]
pub struct RoutedPacket<'a> {
    /// Its payload is the body, without the tag.
    packet: Packet<'a>,
    block: Words,
    seal: Option<&'a [u8; SEAL_BYTES]>,
}

impl<'a> RoutedPacket<'a> {
    /// Checks a packet that the router has received from a client of `group`.
    ///
    /// # Errors
    /// See [`Void`]. A policy that no client may use is no error here: the packet is to be
    /// rejected, see [`RoutedPacket::policy`].
    #[inline]
    pub fn from_client(packet: Packet<'a>, group: Group) -> Result<RoutedPacket<'a>, Void> {
        let (block, rest) = split(packet)?;
        if packet.packet_index() != 0 || packet.session() != block.client() {
            return Err(Void::Client);
        }
        RoutedPacket::of(packet, block, rest, group)
    }

    /// Checks a packet that a worker has received from the router of `group`. A probe is never
    /// sealed.
    ///
    /// The number of a packet that is void is settled as well (RT21) if the packet carries the
    /// worker's marks: [`Packet::packet_index`] is that number.
    ///
    /// # Errors
    /// See [`Void`].
    #[inline]
    pub fn from_router(packet: Packet<'a>, group: Group) -> Result<RoutedPacket<'a>, Void> {
        let (block, rest) = split(packet)?;
        let is_probe = block.policy_number() == RoutePolicy::Probe as u8;
        let group = Group { is_sealed: group.is_sealed && !is_probe, ..group };
        RoutedPacket::of(packet, block, rest, group)
    }

    fn of(
        packet: Packet<'a>,
        block: Words,
        rest: &'a [u8],
        group: Group,
    ) -> Result<RoutedPacket<'a>, Void> {
        if packet.has_checksum() != group.is_sealed {
            return Err(Void::Seal);
        }
        let (body, seal) = match group.is_sealed {
            true => rest.split_last_chunk().map(|(body, seal)| (body, Some(seal))),
            false => Some((rest, None)),
        }
        .ok_or(Void::Short)?;
        if body.len() > group.payload_bytes as usize {
            return Err(Void::Long);
        }
        let routed = RoutedPacket { packet: packet.with_payload(body), block, seal };
        if body.len() < routed.carried_bytes() {
            return Err(Void::Short);
        }
        Ok(routed)
    }

    /// Bytes of the message that the packet has to carry (RT4).
    #[inline]
    fn carried_bytes(&self) -> usize {
        let bytes = self.packet.message_bytes() as usize;
        if self.is_claim() { bytes.min(CLAIM_BYTES_MAX) } else { bytes }
    }

    /// The header: `session` and `tag` are the router's for the client, or the worker's for the
    /// router. The payload is the [body](RoutedPacket::body).
    #[inline]
    pub fn header(&self) -> Packet<'a> {
        self.packet
    }

    /// How a worker is picked; `None` for a number that is not assigned (RT5). A client that asks
    /// for this, or for [`RoutePolicy::Probe`], is rejected.
    #[inline]
    pub fn policy(&self) -> Option<RoutePolicy> {
        RoutePolicy::from_number(self.block.policy_number())
    }

    /// From the router: whether the packet carries no request (RT22).
    #[inline]
    pub fn is_probe(&self) -> bool {
        self.policy() == Some(RoutePolicy::Probe)
    }

    /// The greatest goes first; below [`crate::PRIORITIES`] (RT24).
    #[inline]
    pub fn priority(&self) -> u8 {
        self.block.priority()
    }

    /// Whether the packet only asks for a worker (RT4).
    #[inline]
    pub fn is_claim(&self) -> bool {
        self.block.is_claim()
    }

    /// Where answers go, if the client is believed (RT26). It may be any address and port.
    #[inline]
    pub fn reply(&self) -> SocketAddr {
        self.block.reply()
    }

    /// Whether answers go to this address.
    #[inline]
    pub fn replies_to(&self, address: &ReplyAddress) -> bool {
        self.block.replies_to(address)
    }

    /// The number of the client at the router.
    #[inline]
    pub fn client(&self) -> u32 {
        self.block.client()
    }

    /// The epoch whose table and keys are used (RT30).
    #[inline]
    pub fn epoch(&self) -> u16 {
        self.block.epoch()
    }

    /// The client's index of the pair (RT10).
    #[inline]
    pub fn pair(&self) -> u32 {
        self.block.pair()
    }

    /// The client's tag of the pair (RT10).
    #[inline]
    pub fn pair_tag(&self) -> u32 {
        self.block.pair_tag()
    }

    /// The packet's number among the first packets of its attachment (RT3).
    #[inline]
    pub fn number(&self) -> u64 {
        self.block.number_high() << NUMBER_LOW_BITS | u64::from(self.packet.transmission())
    }

    /// From the router: the given number, modulo 2^20 (RT19). From a client it is 0.
    #[inline]
    pub fn given(&self) -> u32 {
        self.packet.packet_index()
    }

    /// Microseconds until the call's deadline, when the packet left its last sender (RT6). `None`
    /// is no limit.
    #[inline]
    pub fn lifetime_us(&self) -> Option<u32> {
        self.block.lifetime_us()
    }

    /// CRC32C of the key with [`RoutePolicy::Hash`] (RT5).
    #[inline]
    pub fn key_hash(&self) -> u32 {
        self.block.key_hash()
    }

    /// All bytes behind the block, with padding and without the tag. In a sealed group they are
    /// encrypted.
    #[inline]
    pub fn body(&self) -> &'a [u8] {
        self.packet.payload()
    }

    /// The tag at the end of a sealed packet (RT27).
    #[inline]
    pub fn seal(&self) -> Option<&'a [u8; SEAL_BYTES]> {
        self.seal
    }

    /// The same packet with its body decrypted.
    ///
    /// # Panics
    /// If `body` has another length than the encrypted one.
    #[inline]
    pub fn with_body(self, body: &'a [u8]) -> RoutedPacket<'a> {
        assert_eq!(body.len(), self.body().len(), "an AEAD keeps lengths");
        RoutedPacket { packet: self.packet.with_payload(body), ..self }
    }

    /// What the packet carries of the message, without padding: all of it, or of a claim at most
    /// [`CLAIM_BYTES_MAX`] bytes.
    #[inline]
    pub fn message(&self) -> &'a [u8] {
        &self.body()[..self.carried_bytes()]
    }
}

/// Checks what clients and routers send alike: kind, parts and flags.
#[inline]
fn split(packet: Packet<'_>) -> Result<(Words, &[u8]), Void> {
    if packet.kind() != Kind::Routed {
        return Err(Void::Kind);
    }
    let (block, rest) = packet.payload().split_first_chunk().ok_or(Void::Short)?;
    let block = Words::read(block);
    if packet.words[0] & (FLAG_ECN_ECHO | FLAG_LATER) != 0 || block.has_reserved_flag() {
        return Err(Void::Flag);
    }
    Ok((block, rest))
}
