//! A router's plane as a host of the simulated network. Its control is played by `control`.

use std::cell::RefCell;

use petasos_base::Time;
use petasos_netio::memory::MemoryIo;
use petasos_router::{Event, WorkerId};
use petasos_router_plane::{Plane, PlaneConfig};
use petasos_sim::{Host, HostSeat};

/// The payload of the group's packets.
pub(crate) const PAYLOAD_BYTES: u16 = 1024;
/// The most batches of a turn.
const BATCHES_MAX: u32 = 4;

/// One life of one router.
pub(crate) struct RouterHost {
    pub(crate) plane: Plane,
    pub(crate) io: MemoryIo,
    /// Workers that are no members any more, and were not ended yet.
    gone: RefCell<Vec<WorkerId>>,
}

impl RouterHost {
    pub(crate) fn new(seat: HostSeat) -> RouterHost {
        let config = PlaneConfig { payload_bytes: PAYLOAD_BYTES.into(), ..PlaneConfig::default() };
        let plane = Plane::new(&config, seat.seed).expect("the configuration is right");
        RouterHost { plane, io: seat.port, gone: RefCell::default() }
    }

    pub(crate) fn take_gone(&self) -> Vec<WorkerId> {
        self.gone.take()
    }

    /// Requests that wait, and that workers have and have not settled.
    pub(crate) fn unsettled(&self) -> (usize, u64) {
        let outstanding = |id| self.plane.worker(id).map_or(0, |it| it.account.outstanding());
        let all = self.plane.members().map(|(id, _)| outstanding(id));
        (self.plane.waiting(), all.sum())
    }
}

impl Host for RouterHost {
    fn run(&mut self, now: Time) -> Time {
        for _ in 0..BATCHES_MAX {
            if !self.plane.turn(&mut self.io, now) {
                break;
            }
        }
        while let Some(event) = self.plane.poll_event() {
            if let Event::Gone { worker, .. } | Event::Left { worker } = event {
                self.gone.get_mut().push(worker);
            }
        }
        self.plane.next_turn_at(now)
    }
}
