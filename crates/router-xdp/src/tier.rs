//! The program as the tier of a plane.

use std::net::SocketAddr;
use std::sync::Arc;

use petasos_netio_xdp::wait_for_runs;
use petasos_router::{SharedCounts, SharedSlots, WorkerCounts};
use petasos_router_plane::{Tier, TierMember, TierPacket, TierStats};

use crate::layout::WORKERS_MAX;
use crate::program::{PlaceCounts, PlaceNames, RouterProgram};

/// A program in front of a plane over UDP, which gets what the program passes to the kernel.
///
/// Workers and clients with IPv6 addresses are the plane's alone. The plane has at most
/// [`WORKERS_MAX`] workers.
#[derive(Debug)]
pub struct ProgramTier {
    program: Arc<RouterProgram>,
}

impl ProgramTier {
    /// Of a program for the plane's address. It has no clients and workers.
    pub fn new(program: Arc<RouterProgram>) -> ProgramTier {
        ProgramTier { program }
    }
}

impl Tier for ProgramTier {
    fn workers_max(&self) -> usize {
        WORKERS_MAX
    }

    fn slots(&self) -> Box<dyn SharedSlots> {
        Box::new(ProgramSlots { program: self.program.clone(), used: [false; WORKERS_MAX] })
    }

    fn start(&mut self, is_on: bool) {
        self.program.start(is_on);
    }

    fn attach(&mut self, client: u32, tag: u32, address: SocketAddr) {
        if let SocketAddr::V4(address) = address {
            self.program.attach_client(client, tag, address);
        }
    }

    fn detach(&mut self, client: u32) {
        self.program.detach_client(client);
    }

    fn take_number(&mut self, client: u32, number: u64) -> Option<bool> {
        self.program.take_number(client, number)
    }

    fn set_epochs(&mut self, epochs: [Option<u16>; 2]) {
        self.program.set_epochs(epochs);
    }

    fn join(&mut self, member: &TierMember) {
        let TierMember { place, named, own_tag, secret, .. } = *member;
        if let SocketAddr::V4(address) = member.address {
            let names = PlaceNames { address, named, own_tag, secret };
            self.program.name_place(place, &names);
        }
    }

    fn set_waiting(&mut self, is_waiting: bool) {
        self.program.set_above(is_waiting);
    }

    fn doze(&mut self) {
        self.program.doze();
    }

    fn stats(&self) -> TierStats {
        self.program.stats()
    }

    fn parked(&self) -> usize {
        self.program.parked() as usize
    }

    fn take_parked(&mut self) -> Option<TierPacket> {
        // What the kernel does not give now, it may the next time.
        self.program.take_parked().ok().flatten()
    }

    fn take_returned(&mut self) -> Option<TierPacket> {
        self.program.take_returned().ok().flatten()
    }
}

/// The slots of the program's workers.
struct ProgramSlots {
    program: Arc<RouterProgram>,
    /// Places that had a worker.
    used: [bool; WORKERS_MAX],
}

impl SharedSlots for ProgramSlots {
    fn begin(&mut self, place: usize, bound: u16) {
        if core::mem::replace(&mut self.used[place], true) {
            // A run that has begun before the worker's predecessor was gone may still give to it.
            // Without waiting, a number would be missing at the new one, which writes it off.
            let _ = wait_for_runs();
        }
        self.program.begin_place(place, bound);
    }

    fn end(&mut self, place: usize) {
        self.program.end_place(place);
    }

    fn set_limit(&mut self, place: usize, limit: u16, share: u8) {
        self.program.set_limit(place, limit, share);
    }

    fn counts(&self, place: usize) -> SharedCounts {
        let PlaceCounts { given, told } = self.program.counts(place);
        SharedCounts { given, told }
    }

    fn take(&mut self, place: usize) -> Option<u64> {
        self.program.take_slot(place)
    }

    fn take_probe(&mut self, place: usize) -> u64 {
        self.program.take_probe(place)
    }

    fn tell(
        &mut self,
        place: usize,
        before: &WorkerCounts,
        told: &WorkerCounts,
        received: u64,
    ) -> bool {
        self.program.tell(place, before, told, received)
    }
}
