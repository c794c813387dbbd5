//! Clients and workers that are endpoints, and a plane between them, over sockets.

use std::time::Duration;

use crate::group::Group;

#[test]
fn calls_of_all_kinds_go_through_a_router() {
    for policy in ["jbsq1", "jbsq3", "jsq", "rr", "random"] {
        let mut group = Group::new(3, 4, policy);
        for at in 0..300 {
            group.call(at % 3, [0, 8, 1400, 1401, 20_000][at % 5], at % 2 == 0);
            if at % 7 == 0 {
                group.turn();
            }
        }
        group.run_until(300);
        let handled: u64 = group.workers.iter().map(|worker| *worker.state()).sum();
        assert!(handled >= 300, "{policy}");
        assert!(group.workers.iter().all(|worker| *worker.state() > 0), "{policy}: all have some");
        // Whatever was lost or repeated: in the end nothing waits, and no slot is taken.
        let end = group.clock.now() + Duration::from_secs(20);
        let is_settled = |group: &Group| {
            let ids: Vec<_> = group.plane.members().map(|(id, _)| id).collect();
            let outstanding = ids.into_iter().map(|id| {
                let worker = group.plane.worker(id).expect("it is there");
                worker.account.outstanding()
            });
            outstanding.sum::<u64>() == 0
        };
        while !is_settled(&group) {
            group.turn();
            assert!(group.clock.now() < end, "{policy}: slots come back");
        }
        assert_eq!(group.plane.waiting(), 0);
        assert_eq!(group.plane.stats().from_strangers + group.plane.stats().void, 0);
    }
}
