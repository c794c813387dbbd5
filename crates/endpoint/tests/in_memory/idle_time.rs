//! Workers that choose from their idle time how many requests they take at a time.

use crate::grouped::{Grouped, WHOLE};
use crate::joined::ECHO;

/// The router has a request for each that it may give, and each is answered at once: so all idle
/// times are the way to it and back.
#[test]
fn a_worker_that_follows_its_idle_time_asks_for_more() {
    let mut group = Grouped::new(1);
    let bound = |group: &Grouped| group.members[0].told.expect("it tells").bound;
    group.members[0].endpoint.follow_idle_time(1, 5);
    let calls = |group: &mut Grouped, count: u64| {
        for _ in 0..count {
            let tag = group.client.stats().pairs.asked;
            group.call(ECHO, b"short", tag, WHOLE);
            while !group.is_over(tag) {
                group.run(1);
            }
        }
    };
    calls(&mut group, 10);
    assert_eq!(bound(&group), 2, "one that runs, and one on the way");
    calls(&mut group, 100);
    assert_eq!(bound(&group), 3);
    calls(&mut group, 400);
    assert_eq!(bound(&group), 5, "no more than it may");
    group.members[0].endpoint.follow_idle_time(1, 1);
    calls(&mut group, 1);
    assert_eq!(bound(&group), 1);
    group.assert_quiet();
}
