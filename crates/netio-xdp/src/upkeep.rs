//! Work to be done from time to time. A counter decides when to read the clock.

use std::net::IpAddr;

use petasos_base::Time;
use rustix::time::{ClockId, clock_gettime};

use petasos_netio_frame::RouteTable;
use petasos_netlink::{NeighbourState, Netlink};

/// Keeps neighbours fresh. The kernel believes in a neighbour for about 30 s after it has heard of
/// it, but does not see the traffic of this backend. So it is told that each hop is in use every
/// 15 s, and what it learns is read once a second.
pub(crate) struct Upkeep {
    calls: u32,
    due: Time,
    /// The hop that was refreshed last.
    last: Option<IpAddr>,
}

impl Upkeep {
    pub(crate) fn new() -> Upkeep {
        Upkeep { calls: 0, due: now().plus_nanos(INTERVAL_NS), last: None }
    }

    /// Counts a call; true in every 64th.
    #[inline]
    pub(crate) fn tick(&mut self) -> bool {
        self.calls = self.calls.wrapping_add(1);
        self.calls.is_multiple_of(CALLS)
    }

    /// Whether a second has passed since the last time it had.
    pub(crate) fn is_due(&mut self) -> bool {
        let now = now();
        let due = now >= self.due;
        if due {
            self.due = now.plus_nanos(INTERVAL_NS);
        }
        due
    }

    /// Reads what the kernel has learnt and refreshes a part of the hops. Returns how many have
    /// changed their address.
    pub(crate) fn run(
        &mut self,
        netlink: &mut Netlink,
        interface: u32,
        routes: &mut RouteTable,
    ) -> u64 {
        let changes = read_changes(netlink, interface, routes);
        for _ in 0..routes.hops().div_ceil(REFRESH_INTERVALS) {
            let Some(hop) = routes.hop_after(self.last) else { break };
            self.last = Some(hop);
            // An interface that is down has no neighbours; it may be up the next time.
            let _ = netlink.resolve(interface, hop);
        }
        changes
    }
}

/// Reads the changes of neighbours. A neighbour that is gone keeps its address, because there is no
/// better one.
pub(crate) fn read_changes(netlink: &mut Netlink, interface: u32, routes: &mut RouteTable) -> u64 {
    let mut changes = 0;
    let complete = netlink.changes(|neighbour| {
        if let NeighbourState::Known(mac) = neighbour.state
            && neighbour.interface == interface
        {
            changes += u64::from(routes.set_mac(neighbour.address, mac));
        }
    });
    if !complete {
        // Some changes were lost, so all hops are queried one by one.
        let mut hop = None;
        for _ in 0..routes.hops() {
            hop = routes.hop_after(hop);
            let Some(address) = hop else { break };
            if let Ok(Some(neighbour)) = netlink.neighbour(interface, address)
                && let NeighbourState::Known(mac) = neighbour.state
            {
                changes += u64::from(routes.set_mac(address, mac));
            }
        }
    }
    changes
}

/// The time of the last tick of the kernel's timer, at most some milliseconds ago. It is the
/// cheapest clock, and need not be virtual, because neighbours never are.
pub(crate) fn now() -> Time {
    let time = clock_gettime(ClockId::MonotonicCoarse);
    Time::from_nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

const CALLS: u32 = 64;
const INTERVAL_NS: u64 = 1_000_000_000;
/// Intervals in which every hop is refreshed once.
const REFRESH_INTERVALS: usize = 15;
