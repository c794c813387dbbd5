//! Finding neighbours' Ethernet addresses: ARP for IPv4 (RFC 826), neighbour solicitations and
//! advertisements for IPv6 (RFC 4861, sections 4.3, 4.4 and 7.2).
//!
//! Answers are made only for the endpoint's own address. What is learned is not authenticated, as
//! on any Ethernet: every host on the segment can lie. Caching and time limits are up to the
//! backend.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::checksum::{add_bytes, add_u16, finish, fold};
use crate::{ETHERNET_BYTES, ETHERTYPE_V6, Mac, V6_BYTES};

/// Bytes of the longest frame that this module makes.
pub const NEIGHBOUR_FRAME_BYTES: usize = ETHERNET_BYTES + V6_BYTES + MESSAGE_BYTES;

/// What a frame says about neighbours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Neighbour {
    /// Asks for the Ethernet address of `target`.
    Asks {
        /// The address that is asked for.
        target: IpAddr,
        /// The asker, to which the answer goes. Its address is `None` while it is still checking
        /// that no other host uses it.
        from: (Option<IpAddr>, Mac),
    },
    /// Says that `address` is at `mac`.
    Says {
        /// The address whose Ethernet address is given.
        address: IpAddr,
        /// The Ethernet address.
        mac: Mac,
    },
}

/// A frame with a neighbour message, ready to be sent.
#[derive(Clone, Copy, Debug)]
pub struct NeighbourFrame {
    bytes: [u8; NEIGHBOUR_FRAME_BYTES],
    len: usize,
}

impl Neighbour {
    /// Parses `frame`; `None` unless it is a valid message of either protocol.
    pub fn parse(frame: &[u8]) -> Option<Neighbour> {
        match frame.get(12..ETHERNET_BYTES)? {
            ethertype if ethertype == ETHERTYPE_ARP => parse_arp(frame),
            ethertype if ethertype == ETHERTYPE_V6 => parse_discovery(frame),
            _ => None,
        }
    }
}

impl NeighbourFrame {
    /// The frame that asks for `target`.
    ///
    /// # Panics
    /// If the addresses are of different families.
    pub fn question(local: (Mac, IpAddr), target: IpAddr) -> NeighbourFrame {
        match (local.1, target) {
            (IpAddr::V4(own), IpAddr::V4(target)) => {
                NeighbourFrame::arp(ARP_REQUEST, [0xff; 6], (local.0, own), ([0; 6], target))
            }
            (IpAddr::V6(own), IpAddr::V6(target)) => {
                let [.., a, b, c] = target.octets();
                let group = [0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, a, b, c];
                let mac = [0x33, 0x33, 0xff, a, b, c];
                let to = (mac, Ipv6Addr::from(group));
                NeighbourFrame::discovery(SOLICITATION, 0, (local.0, own), to, target)
            }
            _ => unreachable!("the caller has compared the families"),
        }
    }

    /// The frame that answers a question from `from` for `local`'s own address.
    ///
    /// # Panics
    /// If the addresses are of different families.
    pub fn answer(local: (Mac, IpAddr), from: (Option<IpAddr>, Mac)) -> NeighbourFrame {
        match (local.1, from.0) {
            (IpAddr::V4(own), None) => {
                let asker = (from.1, Ipv4Addr::UNSPECIFIED);
                NeighbourFrame::arp(ARP_REPLY, from.1, (local.0, own), asker)
            }
            (IpAddr::V4(own), Some(IpAddr::V4(asker))) => {
                NeighbourFrame::arp(ARP_REPLY, from.1, (local.0, own), (from.1, asker))
            }
            (IpAddr::V6(own), None) => {
                // RFC 4861, section 7.2.4: the answer goes to all nodes, unsolicited.
                let to = (ALL_NODES_MAC, ALL_NODES);
                NeighbourFrame::discovery(ADVERTISEMENT, OVERRIDE, (local.0, own), to, own)
            }
            (IpAddr::V6(own), Some(IpAddr::V6(asker))) => {
                let (to, flags) = ((from.1, asker), OVERRIDE | SOLICITED);
                NeighbourFrame::discovery(ADVERTISEMENT, flags, (local.0, own), to, own)
            }
            _ => unreachable!("the caller has compared the families"),
        }
    }

    /// The frame that tells everybody where `local`'s address is, unasked: an ARP announcement (RFC
    /// 5227, section 3) or an unsolicited advertisement (RFC 4861, section 7.2.6).
    pub fn announcement(local: (Mac, IpAddr)) -> NeighbourFrame {
        match local.1 {
            IpAddr::V4(own) => NeighbourFrame::question(local, own.into()),
            IpAddr::V6(_) => NeighbourFrame::answer(local, (None, local.0)),
        }
    }

    /// The frame's bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    fn new(to: Mac, from: Mac, ethertype: [u8; 2], len: usize) -> NeighbourFrame {
        let mut frame = NeighbourFrame { bytes: [0; NEIGHBOUR_FRAME_BYTES], len };
        frame.bytes[..6].copy_from_slice(&to);
        frame.bytes[6..12].copy_from_slice(&from);
        frame.bytes[12..14].copy_from_slice(&ethertype);
        frame
    }

    fn arp(
        operation: u8,
        to: Mac,
        sender: (Mac, Ipv4Addr),
        target: (Mac, Ipv4Addr),
    ) -> NeighbourFrame {
        let mut frame =
            NeighbourFrame::new(to, sender.0, ETHERTYPE_ARP, ETHERNET_BYTES + ARP_BYTES);
        let arp = &mut frame.bytes[ETHERNET_BYTES..ETHERNET_BYTES + ARP_BYTES];
        arp[..6].copy_from_slice(&ARP_KIND);
        arp[7] = operation;
        arp[8..14].copy_from_slice(&sender.0);
        arp[14..18].copy_from_slice(&sender.1.octets());
        arp[18..24].copy_from_slice(&target.0);
        arp[24..28].copy_from_slice(&target.1.octets());
        frame
    }

    fn discovery(
        kind: u8,
        flags: u8,
        local: (Mac, Ipv6Addr),
        to: (Mac, Ipv6Addr),
        target: Ipv6Addr,
    ) -> NeighbourFrame {
        let mut frame = NeighbourFrame::new(to.0, local.0, ETHERTYPE_V6, NEIGHBOUR_FRAME_BYTES);
        let (ip, message) = frame.bytes[ETHERNET_BYTES..].split_at_mut(V6_BYTES);
        ip[0] = 0x60;
        ip[5] = MESSAGE_BYTES as u8;
        ip[6] = PROTOCOL_ICMP6;
        ip[7] = HOP_LIMIT;
        ip[8..24].copy_from_slice(&local.1.octets());
        ip[24..40].copy_from_slice(&to.1.octets());
        message[0] = kind;
        message[4] = flags;
        message[8..24].copy_from_slice(&target.octets());
        // One option: the sender's Ethernet address, in one unit of eight bytes.
        message[24] = if kind == SOLICITATION { SOURCE_MAC } else { TARGET_MAC };
        message[25] = 1;
        message[26..32].copy_from_slice(&local.0);
        let field = finish(icmp_sum(&ip[8..40], message));
        message[2..4].copy_from_slice(&field);
        frame
    }
}

fn parse_arp(frame: &[u8]) -> Option<Neighbour> {
    let arp: &[u8; ARP_BYTES] = frame[ETHERNET_BYTES..].first_chunk()?;
    if arp[..6] != ARP_KIND || arp[6] != 0 {
        return None;
    }
    let address = |at: usize| Ipv4Addr::new(arp[at], arp[at + 1], arp[at + 2], arp[at + 3]);
    let mac = unicast(&arp[8..14])?;
    let sender = Some(address(14)).filter(|address| !address.is_unspecified()).map(IpAddr::V4);
    match arp[7] {
        ARP_REQUEST => Some(Neighbour::Asks { target: address(24).into(), from: (sender, mac) }),
        ARP_REPLY => Some(Neighbour::Says { address: sender?, mac }),
        _ => None,
    }
}

fn parse_discovery(frame: &[u8]) -> Option<Neighbour> {
    let ip: &[u8; V6_BYTES] = frame[ETHERNET_BYTES..].first_chunk()?;
    // A hop limit of 255 shows that no router forwarded the packet (RFC 4861, section 7.1).
    if ip[0] >> 4 != 6 || ip[6] != PROTOCOL_ICMP6 || ip[7] != HOP_LIMIT {
        return None;
    }
    let len = usize::from(u16::from_be_bytes([ip[4], ip[5]]));
    let message = frame.get(ETHERNET_BYTES + V6_BYTES..)?.get(..len)?;
    let (body, options) = message.split_at_checked(BODY_BYTES)?;
    if body[1] != 0 || fold(icmp_sum(&ip[8..40], message)) != 0xffff {
        return None;
    }
    let address = |bytes: &[u8]| bytes.try_into().ok().map(|bytes: [u8; 16]| Ipv6Addr::from(bytes));
    let (source, target) = (address(&ip[8..24])?, address(&body[8..24])?);
    match body[0] {
        SOLICITATION => {
            let known = Some(source).filter(|address| !address.is_unspecified());
            let mac = option(options, SOURCE_MAC).or_else(|| unicast(&frame[6..12]))?;
            Some(Neighbour::Asks { target: target.into(), from: (known.map(IpAddr::V6), mac) })
        }
        ADVERTISEMENT => {
            let mac = option(options, TARGET_MAC).or_else(|| unicast(&frame[6..12]))?;
            Some(Neighbour::Says { address: target.into(), mac })
        }
        _ => None,
    }
}

/// The Ethernet address in the first option of this kind.
fn option(mut options: &[u8], kind: u8) -> Option<Mac> {
    while let [found, units, ..] = *options {
        let (option, rest) = options.split_at_checked(8 * usize::from(units).max(1))?;
        if found == kind {
            return unicast(option.get(2..8)?);
        }
        options = rest;
    }
    None
}

fn unicast(bytes: &[u8]) -> Option<Mac> {
    let mac: Mac = bytes.try_into().ok()?;
    (mac[0] & 1 == 0).then_some(mac)
}

/// The sum of a message with its pseudo-header (RFC 8200, section 8.1).
fn icmp_sum(addresses: &[u8], message: &[u8]) -> u64 {
    let sum = add_u16(add_bytes(0, addresses), message.len() as u16);
    add_bytes(add_u16(sum, PROTOCOL_ICMP6.into()), message)
}

const ETHERTYPE_ARP: [u8; 2] = [0x08, 0x06];
const ARP_BYTES: usize = 28;
/// Hardware type Ethernet, protocol type IPv4, and the lengths of their addresses.
const ARP_KIND: [u8; 6] = [0, 1, 8, 0, 6, 4];
const ARP_REQUEST: u8 = 1;
const ARP_REPLY: u8 = 2;

const PROTOCOL_ICMP6: u8 = 58;
const HOP_LIMIT: u8 = 255;
const SOLICITATION: u8 = 135;
const ADVERTISEMENT: u8 = 136;
const SOLICITED: u8 = 0x40;
const OVERRIDE: u8 = 0x20;
const SOURCE_MAC: u8 = 1;
const TARGET_MAC: u8 = 2;
/// Bytes of either message without options, and with the one option that we send.
const BODY_BYTES: usize = 24;
const MESSAGE_BYTES: usize = BODY_BYTES + 8;
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
const ALL_NODES_MAC: Mac = [0x33, 0x33, 0, 0, 0, 1];

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MACS: [Mac; 2] = [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]];

    fn addresses(v6: bool) -> [IpAddr; 2] {
        let texts = if v6 { ["fd00::1", "fd00::ab:cd02"] } else { ["10.0.0.1", "10.0.0.2"] };
        texts.map(|text| text.parse().expect("an address"))
    }

    #[test]
    fn a_question_is_answered_by_whom_it_is_for() {
        for v6 in [false, true] {
            let [asker, target] = addresses(v6);
            let question = NeighbourFrame::question((MACS[0], asker), target);
            assert_eq!(question.bytes()[0] & 1, 1, "it is for several");
            let asked = Neighbour::parse(question.bytes());
            let from = (Some(asker), MACS[0]);
            assert_eq!(asked, Some(Neighbour::Asks { target, from }));
            let answer = NeighbourFrame::answer((MACS[1], target), from);
            assert_eq!(answer.bytes()[..6], MACS[0]);
            let said = Neighbour::parse(answer.bytes());
            assert_eq!(said, Some(Neighbour::Says { address: target, mac: MACS[1] }));
        }
    }

    /// Duplicate address detection, and ARP probes (RFC 5227).
    #[test]
    fn who_is_not_sure_of_its_address_is_answered_too() {
        for v6 in [false, true] {
            let own = addresses(v6)[1];
            let answer = NeighbourFrame::answer((MACS[1], own), (None, MACS[0]));
            let said = Neighbour::parse(answer.bytes());
            assert_eq!(said, Some(Neighbour::Says { address: own, mac: MACS[1] }));
        }
    }

    #[test]
    fn what_a_router_passed_on_or_a_group_claims_is_not_believed() {
        let [own, other] = addresses(true);
        let sound = NeighbourFrame::answer((MACS[1], own), (Some(other), MACS[0]));
        let mut routed = sound.bytes().to_vec();
        routed[ETHERNET_BYTES + 7] = 254;
        assert_eq!(Neighbour::parse(&routed), None);
        let group = NeighbourFrame::answer(([3; 6], own), (Some(other), MACS[0]));
        assert_eq!(Neighbour::parse(group.bytes()), None);
    }

    proptest! {
        #[test]
        fn hostile_bytes_are_survived(
            v6: bool,
            changes in proptest::collection::vec((12usize..86, any::<u8>()), 1..6),
            len in 0usize..90,
        ) {
            let [asker, target] = addresses(v6);
            let mut frame = NeighbourFrame::question((MACS[0], asker), target).bytes().to_vec();
            frame.resize(90, 0);
            changes.iter().for_each(|(at, byte)| frame[*at] = *byte);
            // Made correct again, so that the options are reached.
            if v6 {
                frame[56..58].fill(0);
                let field = finish(icmp_sum(&frame[22..54], &frame[54..86]));
                frame[56..58].copy_from_slice(&field);
            }
            let _ = Neighbour::parse(&frame);
            let _ = Neighbour::parse(&frame[..len]);
        }

        #[test]
        fn a_flipped_bit_of_a_discovery_is_noticed(at in 22usize..86, bit in 0u8..8) {
            let [own, other] = addresses(true);
            let answer = NeighbourFrame::answer((MACS[1], own), (Some(other), MACS[0]));
            let mut frame = answer.bytes().to_vec();
            frame[at] ^= 1 << bit;
            prop_assert_eq!(Neighbour::parse(&frame), None);
        }
    }
}
