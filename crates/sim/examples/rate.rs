//! Measures the speed of the simulator: `cargo run --release -p petasos-sim --example rate`.
//!
//! A hundred hosts on two tiers of switches, each with 16 echoes outstanding to hosts elsewhere.

use petasos_base::{Clock, Time};
use petasos_netio::memory::MemoryIo;
use petasos_netio::{PacketIo, Route, TxPacket};
use petasos_sim::{Action, FaultProfile, HostSeat, LeafSpine, Links, Topology, World, WorldConfig};

/// Sends what it receives back to the sender, whose number is in the first four bytes.
struct Echo {
    port: MemoryIo,
    packet: Vec<u8>,
    begun: bool,
}

impl Echo {
    fn new(seat: HostSeat) -> Echo {
        let mut packet = vec![0; 64];
        packet[..4].copy_from_slice(&seat.number.to_be_bytes());
        Echo { port: seat.port, packet, begun: false }
    }

    fn send(&mut self, to: u32) {
        self.port.transmit(&[TxPacket { route: Route(to), head: &self.packet, body: &[] }]);
    }
}

impl petasos_sim::Host for Echo {
    fn run(&mut self, _now: Time) -> Time {
        if !self.begun {
            self.begun = true;
            (1..=16).for_each(|i| self.send((self.port.number() + i * 6) % 100));
        }
        let sender = |bytes: &[u8]| u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        let senders: Vec<u32> =
            self.port.receive().frames().map(|frame| sender(frame.bytes)).collect();
        senders.into_iter().for_each(|to| self.send(to));
        Time::NEVER
    }
}

fn main() {
    let faulty = FaultProfile { reorder: 0.01, ..FaultProfile::clean() };
    for (name, profile) in [("clean", FaultProfile::clean()), ("reordering", faulty)] {
        let topology = Topology::leaf_spine(&LeafSpine::hundred_hosts());
        let mut world = World::new(WorldConfig::default(), topology, Echo::new);
        world.apply(Action::Faults { links: Links::All, profile });
        let clock = Clock::system();
        let start = clock.now();
        world.run_until(Time::from_nanos(5_000_000));
        let seconds = clock.now().nanos_since(start) as f64 / 1e9;
        let stats = world.stats();
        println!(
            "{name}: {} packets, {} events, {} host runs in {seconds:.2} s: {:.2} M packets/s, \
             {:.2} M events/s",
            stats.delivered,
            stats.events,
            stats.host_runs,
            stats.delivered as f64 / seconds / 1e6,
            stats.events as f64 / seconds / 1e6,
        );
    }
}
