//! Somebody between endpoints, who drops, repeats, alters, holds back and invents packets.

use petasos_netio::Ecn;
use petasos_netio::memory::{Captured, Hub, MemoryConfig};
use petasos_wire::{HEADER_BYTES, Kind};

use crate::Input;

/// Packets that wait to be delivered.
const PACKETS_MAX: usize = 512;

pub(crate) struct Network {
    pub(crate) hub: Hub,
    /// Packets on the way, oldest first.
    packets: Vec<Captured>,
    /// Whether somebody wrote packets of his own, which might start handlers.
    pub(crate) forged: bool,
}

impl Network {
    pub(crate) fn new(config: MemoryConfig) -> Network {
        Network { hub: Hub::captured(config), packets: Vec::new(), forged: false }
    }

    /// Takes what was sent; what nobody has room for is lost.
    pub(crate) fn collect(&mut self) {
        self.hub.take_captured(&mut self.packets);
        let excess = self.packets.len().saturating_sub(PACKETS_MAX);
        self.packets.drain(..excess);
    }

    /// Delivers the oldest packets.
    pub(crate) fn deliver(&mut self, count: usize) {
        for packet in self.packets.drain(..count.min(self.packets.len())) {
            self.hub.deliver(packet.to, &packet.bytes, Ecn::NotCapable);
        }
    }

    /// Drops a packet, repeats it, delivers it out of order, or alters a byte: 0 to 3.
    pub(crate) fn meddle(&mut self, what: u8, input: &mut Input<'_>) {
        let index = usize::from(input.u8());
        if self.packets.is_empty() {
            return;
        }
        let index = index % self.packets.len();
        match what {
            0 => drop(self.packets.remove(index)),
            1 => {
                let packet = &self.packets[index];
                let ecn = if input.bool() { Ecn::CongestionExperienced } else { Ecn::NotCapable };
                self.hub.deliver(packet.to, &packet.bytes, ecn);
            }
            2 => {
                let packet = self.packets.remove(index);
                self.hub.deliver(packet.to, &packet.bytes, Ecn::NotCapable);
            }
            _ => {
                self.forged = true;
                let packet = &mut self.packets[index];
                let (at, with) = (usize::from(input.u16()), input.u8());
                let at = at % packet.bytes.len();
                packet.bytes[at] ^= with;
            }
        }
    }

    /// A packet with a right tag, as only a peer, or who has seen one, can write it. Behind the
    /// header it has so many bytes of a real one.
    pub(crate) fn forge(&mut self, kept: usize, input: &mut Input<'_>) {
        self.forged = true;
        let Some(model) = self.packets.first() else { return };
        let mut bytes = model.bytes.clone();
        let Some(kind) = Kind::from_bits(input.u8() & 15) else { return };
        bytes[0] = bytes[0] & 0x0f | (kind as u8) << 4;
        bytes[1] = input.u8() & 0b11_1110;
        bytes[8] = input.u8() % 64;
        let rest = input.bytes(8);
        bytes[16..16 + rest.len()].copy_from_slice(rest);
        bytes.truncate(HEADER_BYTES + kept);
        let payload = usize::from(input.u16()) % 2_000;
        bytes.resize(bytes.len() + payload, input.u8());
        self.hub.deliver(model.to, &bytes, Ecn::NotCapable);
    }
}
