//! The network as a whole: moves packets from host to host, one event at a time.
//!
//! A packet's path: it waits in the output port of a node ([`Port`], with room from the node's
//! [`Buffer`]), is sent onto the link (its fate is drawn then), arrives at the next node, and so on
//! until it reaches its host. Invariants: a packet in flight is in exactly one place, an event or a
//! port's queue; a port has one `Sent` event if it is sending, and none otherwise.

use std::collections::VecDeque;

use petasos_base::{Rng, Time};
use petasos_netio::Ecn;

use crate::link::{Fate, Link, round_up};
use crate::packet::{Body, Packet, PacketId, Packets};
use crate::switch::{Buffer, CUT_THROUGH_BYTES};
use crate::topology::node_index;
use crate::{EventQueue, Forwarding, Framing, PortStats, Stats, SwitchConfig, Topology};

/// An event of the network.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    /// The port at the start of this link has sent a packet in full.
    Sent { link: u32 },
    /// A packet is at a switch, ready for its output port.
    Arrived { node: u32, packet: PacketId },
    /// A packet is at its host.
    Delivered { packet: PacketId },
    /// An action of the script is due.
    Act { action: u32 },
}

/// Links, buffers and the packets among them.
pub(crate) struct Network<B> {
    pub(crate) queue: EventQueue<Event>,
    pub(crate) packets: Packets<B>,
    pub(crate) stats: Stats,
    pub(crate) ports: Vec<Port>,
    /// Group of each host during a partition; empty without one.
    pub(crate) groups: Vec<u32>,
    /// One for each node.
    buffers: Vec<Buffer>,
    topology: Topology,
    framing: Framing,
    flow_salt: u64,
}

/// An output port and the link that starts there.
pub(crate) struct Port {
    pub(crate) link: Link,
    pub(crate) stats: PortStats,
    from: u32,
    to: u32,
    waiting: VecDeque<PacketId>,
    /// Frame bytes waiting or being sent.
    held_bytes: u64,
    /// Frame bytes being sent, 0 if none.
    sending_bytes: u64,
}

impl<B: Body> Network<B> {
    pub(crate) fn new(
        topology: Topology,
        framing: Framing,
        (packets_max, actions_max): (usize, usize),
        mut rng: Rng,
    ) -> Network<B> {
        let flow_salt = rng.next_u64();
        let ports: Vec<Port> = topology
            .links
            .iter()
            .map(|&(from, to, config)| Port {
                link: Link::new(config, rng.next_u64()),
                stats: PortStats::default(),
                from: node_index(topology.hosts, from),
                to: node_index(topology.hosts, to),
                waiting: VecDeque::new(),
                held_bytes: 0,
                sending_bytes: 0,
            })
            .collect();
        let nics = (0..topology.hosts).map(|_| Buffer::new(topology.nic));
        let buffers =
            nics.chain(topology.switches.iter().map(|switch| Buffer::new(switch.buffer))).collect();
        Network {
            queue: EventQueue::new(packets_max + ports.len() + actions_max),
            packets: Packets::new(packets_max),
            stats: Stats::default(),
            ports,
            groups: Vec::new(),
            buffers,
            topology,
            framing,
            flow_salt,
        }
    }

    pub(crate) fn topology(&self) -> &Topology {
        &self.topology
    }

    /// Frame bytes held by node `node`.
    pub(crate) fn buffered_bytes(&self, node: u32) -> u64 {
        self.buffers[node as usize].used_bytes()
    }

    /// A host passes a packet to its network card. A packet to itself arrives at once.
    #[inline]
    pub(crate) fn send(&mut self, now: Time, packet: Packet<B>) {
        let (from, to) = (packet.from, packet.to);
        if !self.groups.is_empty() && self.groups[from as usize] != self.groups[to as usize] {
            self.stats.dropped_partition += 1;
            return;
        }
        let Some(id) = self.packets.insert(packet) else {
            self.stats.dropped_in_flight_max += 1;
            return;
        };
        if from == to {
            self.push(now, Event::Delivered { packet: id });
        } else {
            self.forward(now, from, id);
        }
    }

    /// A packet is at `node`, which forwards it towards its host.
    #[inline]
    pub(crate) fn forward(&mut self, now: Time, node: u32, id: PacketId) {
        let packet = self.packets.get(id);
        let flow_hash = || self.flow_hash(node, packet);
        let Some(link) = self.topology.routes.next(node, packet.to, flow_hash) else {
            self.packets.remove(id);
            self.stats.dropped_unroutable += 1;
            return;
        };
        // A faster outgoing link would run out of data in the middle of a packet that is still
        // arriving.
        let outruns = self.ports[link as usize].link.config.rate_bps > packet.ingress_bps;
        if outruns && now < packet.tail_at {
            let tail_at = packet.tail_at;
            self.push(tail_at, Event::Arrived { node, packet: id });
            return;
        }
        self.enqueue(now, node, link, id);
    }

    fn enqueue(&mut self, now: Time, node: u32, link: u32, id: PacketId) {
        let packet = self.packets.get_mut(id);
        let frame_bytes = self.framing.frame_bytes(packet.body.payload_bytes());
        let (buffer, port) = (&mut self.buffers[node as usize], &mut self.ports[link as usize]);
        if !buffer.take(port.held_bytes, frame_bytes) {
            port.stats.drops += 1;
            self.stats.dropped_buffer += 1;
            self.packets.remove(id);
            return;
        }
        port.held_bytes += frame_bytes;
        port.stats.queue_bytes_max = port.stats.queue_bytes_max.max(port.held_bytes);
        let capable = matches!(packet.ecn, Ecn::Capable0 | Ecn::Capable1);
        if capable && buffer.marks(port.held_bytes) {
            packet.ecn = Ecn::CongestionExperienced;
            port.stats.marks += 1;
            self.stats.marked += 1;
        }
        if port.sending_bytes > 0 {
            port.waiting.push_back(id);
        } else {
            self.start(now, link, id, false);
        }
    }

    /// The port has sent a packet in full: its room is free, and the next one starts.
    #[inline]
    pub(crate) fn sent(&mut self, now: Time, link: u32) {
        let port = &mut self.ports[link as usize];
        port.held_bytes -= port.sending_bytes;
        self.buffers[port.from as usize].give_back(port.sending_bytes);
        port.sending_bytes = 0;
        if let Some(id) = port.waiting.pop_front() {
            self.start(now, link, id, true);
        }
    }

    /// Puts a packet onto an idle link. `back_to_back`: it waited for the end of another.
    fn start(&mut self, now: Time, link: u32, id: PacketId, back_to_back: bool) {
        let frame_bytes = self.framing.frame_bytes(self.packets.get(id).body.payload_bytes());
        let port = &mut self.ports[link as usize];
        // A frame of no bytes (no framing, empty payload) cannot exist: transmit refuses it.
        port.sending_bytes = frame_bytes;
        port.stats.packets += 1;
        port.stats.frame_bytes += frame_bytes;
        let wire_bytes = frame_bytes + self.framing.gap_bytes;
        let (start_ps, duration_ps) = port.link.occupy(now, wire_bytes, back_to_back);
        let free_at = port.link.free_at();
        self.push(free_at, Event::Sent { link });
        self.launch(link, id, start_ps, duration_ps);
    }

    /// Determines the fate of a packet on its link.
    fn launch(&mut self, link: u32, id: PacketId, start_ps: u64, duration_ps: u64) {
        let port = &mut self.ports[link as usize];
        if port.link.cut {
            self.stats.dropped_cut += 1;
            self.packets.remove(id);
            return;
        }
        if port.link.faults.is_clean() {
            self.schedule_arrival(link, id, start_ps, duration_ps, 0);
            return;
        }
        let fate = port.link.fate();
        if fate.lost {
            self.stats.dropped_loss += 1;
            self.packets.remove(id);
            return;
        }
        self.strike(link, id, &fate);
        let copy = fate.copy_after_nanos.and_then(|later| Some((self.copy(id)?, later)));
        let held_nanos = fate.held_nanos.unwrap_or(0);
        self.stats.reordered += u64::from(held_nanos > 0);
        self.schedule_arrival(link, id, start_ps, duration_ps, held_nanos);
        if let Some((copy, later)) = copy {
            self.schedule_arrival(link, copy, start_ps, duration_ps, held_nanos + later);
        }
    }

    fn strike(&mut self, link: u32, id: PacketId, fate: &Fate) {
        if !fate.corrupt {
            return;
        }
        self.stats.corrupted += 1;
        let packet = self.packets.get_mut(id);
        packet.damaged |= !fate.undetected;
        packet.altered |= fate.undetected;
        packet.body.damage(&mut self.ports[link as usize].link);
    }

    fn copy(&mut self, id: PacketId) -> Option<PacketId> {
        let copy = self.packets.get(id).clone();
        let copy = self.packets.insert(copy);
        self.stats.duplicated += u64::from(copy.is_some());
        copy
    }

    /// `late_nanos`: how much later than in order the packet arrives.
    fn schedule_arrival(
        &mut self,
        link: u32,
        id: PacketId,
        start_ps: u64,
        duration_ps: u64,
        late_nanos: u64,
    ) {
        let port = &mut self.ports[link as usize];
        let (node, ingress_bps) = (port.to, port.link.config.rate_bps);
        let Some(switch) = switch_at(&self.topology, node) else {
            let arrival = port.link.arrival(start_ps + duration_ps, 0);
            self.push(arrival.plus_nanos(late_nanos), Event::Delivered { packet: id });
            return;
        };
        let head_ps = match switch.forwarding {
            Forwarding::StoreAndForward => duration_ps,
            Forwarding::CutThrough => {
                let head_bytes = self.framing.gap_bytes + CUT_THROUGH_BYTES;
                duration_ps.min(port.link.serialisation_ps(head_bytes))
            }
        };
        let arrival = port.link.arrival(start_ps + head_ps, switch.latency_nanos);
        let arrival = arrival.plus_nanos(late_nanos);
        let packet = self.packets.get_mut(id);
        packet.ingress_bps = ingress_bps;
        packet.tail_at = arrival.plus_nanos(round_up(duration_ps - head_ps).as_nanos());
        self.push(arrival, Event::Arrived { node, packet: id });
    }

    #[inline]
    pub(crate) fn push(&mut self, time: Time, event: Event) {
        self.queue.push(time, event).expect("one event per packet, link and action fits");
    }

    #[inline]
    fn flow_hash(&self, node: u32, packet: &Packet<B>) -> u64 {
        let flow = u64::from(packet.from) << 32 | u64::from(packet.port);
        let salted = self.flow_salt ^ u64::from(node).wrapping_mul(0xd6e8_feb8_6659_fd93);
        Rng::new(flow ^ salted).next_u64()
    }
}

/// The switch that `node` is, unless it is a host.
fn switch_at(topology: &Topology, node: u32) -> Option<&SwitchConfig> {
    node.checked_sub(topology.hosts).map(|number| &topology.switches[number as usize])
}
