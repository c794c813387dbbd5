//! A host that sends what it is told to, records what it receives, and echoes if asked.

#![allow(dead_code, reason = "each test file is a crate of its own and uses a part of this")]

use petasos_base::Time;
use petasos_netio::memory::MemoryIo;
use petasos_netio::{Ecn, PacketIo, TxPacket};
use petasos_sim::{HostSeat, LinkConfig, Topology, World, WorldConfig};

/// One received packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    pub at: u64,
    pub bytes: Vec<u8>,
    pub ecn: Ecn,
}

/// The host. The first byte of each packet is the sender's number.
pub struct Node {
    pub port: MemoryIo,
    pub number: u32,
    pub received: Vec<Received>,
    pub ran_at: Vec<u64>,
    pub echo: bool,
    /// Sends these bytes to this host at this time.
    pub plan: Vec<(Time, u32, Vec<u8>)>,
}

impl Node {
    pub fn new(seat: HostSeat) -> Node {
        Node {
            number: seat.number,
            port: seat.port,
            received: Vec::new(),
            ran_at: Vec::new(),
            echo: false,
            plan: Vec::new(),
        }
    }

    pub fn send(&mut self, to: u32, bytes: &[u8]) {
        let route = self.port.route(MemoryIo::address(to)).expect("a port has a route");
        assert_eq!(self.port.transmit(&[TxPacket { route, head: bytes, body: &[] }]), 1);
    }

    /// Sends `count` packets of `bytes` bytes, numbered from 0 in bytes 1 to 4.
    pub fn burst(&mut self, to: u32, count: u32, bytes: usize) {
        for index in 0..count {
            let mut packet = vec![0; bytes];
            packet[0] = self.number as u8;
            packet[1..5].copy_from_slice(&index.to_be_bytes());
            self.send(to, &packet);
        }
    }

    pub fn times(&self) -> Vec<u64> {
        self.received.iter().map(|packet| packet.at).collect()
    }

    /// The indices that [`Node::burst`] gave, in the order of arrival.
    pub fn indices(&self) -> Vec<u32> {
        let index = |bytes: &[u8]| u32::from_be_bytes(bytes[1..5].try_into().expect("four bytes"));
        self.received.iter().map(|packet| index(&packet.bytes)).collect()
    }
}

impl petasos_sim::Host for Node {
    fn run(&mut self, now: Time) -> Time {
        let at = now.as_nanos();
        self.ran_at.push(at);
        let first_new = self.received.len();
        for frame in self.port.receive().frames() {
            self.received.push(Received { at, bytes: frame.bytes.to_vec(), ecn: frame.ecn });
        }
        if self.echo {
            for index in first_new..self.received.len() {
                let mut bytes = self.received[index].bytes.clone();
                let to = u32::from(core::mem::replace(&mut bytes[0], self.number as u8));
                self.send(to, &bytes);
            }
        }
        for (_, to, bytes) in self.plan.extract_if(.., |(due, ..)| *due <= now).collect::<Vec<_>>()
        {
            self.send(to, &bytes);
        }
        self.plan.iter().map(|(due, ..)| *due).min().unwrap_or(Time::NEVER)
    }
}

/// 1 Gbit/s: one nanosecond per bit.
pub fn bit_per_nano(delay_nanos: u64) -> LinkConfig {
    LinkConfig::new(1, delay_nanos)
}

pub fn world(config: WorldConfig, topology: Topology) -> World<Node> {
    World::new(config, topology, Node::new)
}

pub fn nanos(nanos: u64) -> Time {
    Time::from_nanos(nanos)
}

/// Runs until no more events remain.
pub fn settle(world: &mut World<Node>) {
    assert_eq!(world.run_while(|_| true, Time::NEVER), petasos_sim::Stop::Idle);
    assert_eq!(world.in_flight(), 0);
    assert_eq!(world.stats().unaccounted(), 0);
}
