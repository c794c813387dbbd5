//! Rings between the ports of a captured hub: a model of shared memory between processes of one
//! host.
//!
//! It models these properties of `petasos-netio-shm`, which needs files and sockets and so cannot
//! be replayed: frames on a ring arrive at once, in order, and are never lost; a full ring refuses
//! frames and delays nobody else; what a process wrote before it died can still be read, and what
//! is written to a dead process is lost; the receiver can tell on which way a frame came.

use std::net::SocketAddr;

use super::{Hub, MemoryIo, Shared};
use crate::{Ecn, Origin, Route, RouteError, TxPacket};

/// Configures the rings of a hub's ports.
#[derive(Clone, Copy, Debug)]
pub struct RingConfig {
    /// Ports share memory if their machines are equal.
    pub machines: u32,
    /// The most bytes of frames that wait in the ring from one port to another.
    pub ring_bytes: usize,
    /// Every `forge_every` frames, an altered copy arrives first on the other way (the network for
    /// rings, a ring for the network), as from an attacker; 0 for never.
    pub forge_every: u64,
}

/// A hub's state of its rings.
pub(super) struct Rings {
    config: RingConfig,
    /// The machine of each port.
    machines: Vec<u32>,
    /// Ports that have received frames over rings since [`Hub::take_rung`].
    rung: Vec<u32>,
    frames: u64,
    refused: u64,
    /// Ports whose processes have died.
    closed: Vec<u32>,
    /// Frames that arrived, by ring or network.
    arrived: u64,
}

/// Where an inbox's frames come from.
#[derive(Default)]
pub(super) struct Arrived {
    /// One origin per chunk.
    pub(super) origins: Vec<Origin>,
    /// Senders, and the bytes that wait in their rings.
    waiting: Vec<(u32, usize)>,
}

impl Arrived {
    fn waiting_of(&mut self, sender: u32) -> &mut usize {
        let known = self.waiting.iter().position(|(from, _)| *from == sender);
        let at = known.unwrap_or_else(|| {
            self.waiting.push((sender, 0));
            self.waiting.len() - 1
        });
        &mut self.waiting[at].1
    }

    #[inline]
    pub(super) fn clear(&mut self) {
        self.origins.clear();
        self.waiting.clear();
    }
}

/// Marks routes over rings.
const RING_BIT: u32 = 1 << 31;
/// The origin of all frames that came over the network.
const NETWORK: Origin = Origin(0);
/// How many leading bytes a forgery copies unaltered: the header, and the bytes that name a call.
const KEPT_BYTES: usize = 32;

impl Hub {
    /// Gives rings to the ports that are made from now on. The hub must be a captured one.
    pub fn with_rings(self, config: RingConfig) -> Hub {
        let rings = Rings {
            config,
            machines: Vec::new(),
            rung: Vec::new(),
            frames: 0,
            refused: 0,
            closed: Vec::new(),
            arrived: 0,
        };
        self.shared.borrow_mut().rings = Some(rings);
        self
    }

    /// A port of a process on the machine with this number, modulo the number of machines.
    pub fn port_on(&self, machine: u32) -> MemoryIo {
        let port = self.port();
        if let Some(rings) = &mut self.shared.borrow_mut().rings {
            rings.machines.resize(port.number as usize + 1, 0);
            rings.machines[port.number as usize] = machine % rings.config.machines;
        }
        port
    }

    /// Appends to `ports` the ports that have received frames over rings since the last call.
    pub fn take_rung(&self, ports: &mut Vec<u32>) {
        if let Some(rings) = &mut self.shared.borrow_mut().rings {
            ports.append(&mut rings.rung);
        }
    }

    /// Says that the process of a port has died: frames into its rings are lost.
    pub fn close_rings(&self, port: u32) {
        if let Some(rings) = &mut self.shared.borrow_mut().rings {
            rings.closed.push(port);
        }
    }

    /// How many frames rings accepted, and how often one was full.
    pub fn ring_stats(&self) -> (u64, u64) {
        self.shared.borrow().rings.as_ref().map_or((0, 0), |rings| (rings.frames, rings.refused))
    }
}

impl Shared {
    /// Puts a packet from the network into the inbox of a port that has rings.
    pub(super) fn deliver_beside_rings(&mut self, to: u32, bytes: &[u8], ecn: Ecn) -> bool {
        self.forge(to, bytes, Origin::RINGS);
        let delivered = self.deliver(to, bytes, &[], ecn);
        if delivered {
            self.ports[to as usize].inbox.arrived.origins.push(NETWORK);
        }
        delivered
    }

    /// Puts a packet into the ring to another port. Returns false if the ring is full.
    pub(super) fn ring(&mut self, from: u32, packet: &TxPacket<'_>) -> bool {
        let rings = self.rings.as_mut().expect("only ports with rings have such routes");
        let to = packet.route.0 & !RING_BIT;
        if rings.closed.contains(&to) {
            return true;
        }
        let waiting = self.ports[to as usize].inbox.arrived.waiting_of(from);
        if *waiting + packet.len() > rings.config.ring_bytes {
            rings.refused += 1;
            return false;
        }
        *waiting += packet.len();
        rings.frames += 1;
        rings.rung.push(to);
        let bytes = [packet.head, packet.body].concat();
        self.forge(to, &bytes, NETWORK);
        let inbox = &mut self.ports[to as usize].inbox;
        inbox.push(&bytes, &[], Ecn::NotCapable);
        inbox.arrived.origins.push(Origin::RINGS);
        true
    }

    /// For some frames, first puts an altered copy into the inbox, as if it came on the other way.
    fn forge(&mut self, to: u32, bytes: &[u8], origin: Origin) {
        let rings = self.rings.as_mut().expect("it is a hub with rings");
        rings.arrived += 1;
        let every = rings.config.forge_every;
        if every == 0 || !rings.arrived.is_multiple_of(every) {
            return;
        }
        let mut bytes = bytes.to_vec();
        bytes.iter_mut().skip(KEPT_BYTES).for_each(|byte| *byte = !*byte);
        let inbox = &mut self.ports[to as usize].inbox;
        inbox.push(&bytes, &[], Ecn::NotCapable);
        inbox.arrived.origins.push(origin);
    }
}

/// Whether a route leads over a ring.
#[inline]
pub(super) fn is_ring(route: Route) -> bool {
    route.0 & RING_BIT != 0
}

impl MemoryIo {
    /// The name by which ports on the same machine reach this one, if it has rings.
    pub fn ring_name(&self) -> Option<SocketAddr> {
        self.shared.borrow().rings.as_ref().map(|_| MemoryIo::address(self.number))
    }

    /// A route over the ring to the port with this name.
    ///
    /// # Errors
    /// If it is on another machine.
    pub fn ring_route(&mut self, name: SocketAddr) -> Result<Route, RouteError> {
        let route = crate::PacketIo::route(self, name)?;
        let shared = self.shared.borrow();
        let machine = |port: u32| Some(*shared.rings.as_ref()?.machines.get(port as usize)?);
        match (machine(self.number), machine(route.0)) {
            (Some(own), Some(other)) if own == other => Ok(Route(route.0 | RING_BIT)),
            _ => Err(RouteError::Unreachable(std::io::ErrorKind::NotFound.into())),
        }
    }

    /// See [`crate::PacketIo::origin`].
    pub(super) fn origin_of(&self, route: Route) -> Origin {
        match self.shared.borrow().rings {
            Some(_) if is_ring(route) => Origin::RINGS,
            Some(_) => NETWORK,
            None => Origin::UNTOLD,
        }
    }
}
