//! Calls of endpoints.

use petasos_base::{Clock, VirtualClock};
use petasos_endpoint::Backend;

use crate::PlaneFactory;
use crate::group::Group;

const CLIENTS: usize = 2;
const WORKERS: usize = 3;

/// Of all kinds: with requests of no, one and several packets, idempotent or not.
pub fn calls_of_all_kinds_go_through_a_router<F>(factory: &F)
where
    F: PlaneFactory<Io: Into<Backend>>,
{
    for policy in ["jbsq1", "jbsq3", "jsq", "rr", "random"] {
        let clock = Clock::Virtual(VirtualClock::default());
        let mut group = Group::new(factory, clock, (CLIENTS, WORKERS), policy);
        let payload = usize::from(group.payload_bytes);
        for at in 0..300 {
            let bytes = [0, 8, payload, payload + 1, 20_000][at % 5];
            group.call(at % CLIENTS, bytes, at % 3 == 0);
            if at % 7 == 0 {
                group.turn();
            }
        }
        group.run_until(300);
        let handled: u64 = group.workers.iter().map(|worker| *worker.state()).sum();
        assert!(handled >= 300, "{policy}");
        assert!(group.workers.iter().all(|worker| *worker.state() > 0), "{policy}: all have some");
        group.until_settled();
        assert_eq!(group.plane.waiting(), 0);
        assert_eq!(group.plane.stats().from_strangers + group.plane.stats().void, 0);
    }
}
