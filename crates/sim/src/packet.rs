//! Packets in flight, in a bounded slab. Events carry an index, and payloads are moved once.

use petasos_base::Time;
use petasos_netio::Ecn;

use crate::link::Link;

/// Index of a packet in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PacketId(pub(crate) u32);

/// The content of a packet. The network moves it and asks for its length; only a link that flips
/// bits accesses the content.
pub(crate) trait Body: Clone {
    /// Length on the wire, without framing.
    fn payload_bytes(&self) -> usize;

    /// Applies damage from `link`.
    fn damage(&mut self, link: &mut Link);
}

impl Body for Vec<u8> {
    #[inline]
    fn payload_bytes(&self) -> usize {
        self.len()
    }

    fn damage(&mut self, link: &mut Link) {
        link.damage(self);
    }
}

/// A datagram in flight.
#[derive(Clone, Debug)]
pub(crate) struct Packet<B> {
    /// Payload.
    pub(crate) body: B,
    /// Sending host.
    pub(crate) from: u32,
    /// Receiving host.
    pub(crate) to: u32,
    /// The port that was addressed: the host's number, or the port of one life of the host.
    pub(crate) port: u32,
    /// ECN bits as they stand now.
    pub(crate) ecn: Ecn,
    /// Whether the receiver's checksum will reject it.
    pub(crate) damaged: bool,
    /// Whether its bytes were changed in a way that the checksum misses.
    pub(crate) altered: bool,
    /// When the last bit reaches the node that the packet is entering.
    pub(crate) tail_at: Time,
    /// Rate of the link that the packet is entering from, in bits per second.
    pub(crate) ingress_bps: u64,
}

/// All packets in flight.
#[derive(Debug)]
pub(crate) struct Packets<B> {
    slots: Vec<Option<Packet<B>>>,
    free: Vec<PacketId>,
    packets_max: usize,
}

impl<B> Packets<B> {
    pub(crate) fn new(packets_max: usize) -> Packets<B> {
        Packets { slots: Vec::new(), free: Vec::new(), packets_max }
    }

    /// Adds a packet. Returns `None` and drops the packet if the bound is reached.
    #[inline]
    pub(crate) fn insert(&mut self, packet: Packet<B>) -> Option<PacketId> {
        if let Some(id) = self.free.pop() {
            self.slots[id.0 as usize] = Some(packet);
            return Some(id);
        }
        if self.slots.len() >= self.packets_max {
            return None;
        }
        self.slots.push(Some(packet));
        Some(PacketId(self.slots.len() as u32 - 1))
    }

    #[inline]
    pub(crate) fn remove(&mut self, id: PacketId) -> Packet<B> {
        self.free.push(id);
        self.slots[id.0 as usize].take().expect("an event refers to a packet in flight")
    }

    #[inline]
    pub(crate) fn get(&self, id: PacketId) -> &Packet<B> {
        self.slots[id.0 as usize].as_ref().expect("an event refers to a packet in flight")
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, id: PacketId) -> &mut Packet<B> {
        self.slots[id.0 as usize].as_mut().expect("an event refers to a packet in flight")
    }

    /// Packets in flight.
    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }
}
