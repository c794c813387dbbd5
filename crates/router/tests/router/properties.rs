//! What holds whatever happens.

use proptest::prelude::*;

use crate::world::World;

proptest! {
    #![proptest_config(petasos_cases::kept_with(500))]

    /// Requests, lost, repeated and reordered feedback, members that come, go, die and change, and
    /// time, at random: nobody has more than it may, no slot is lost or returned twice, requests go
    /// in order, none waits for a free worker, and each ends once.
    #[test]
    fn slots_and_requests_are_conserved(seed: u64) {
        World::new(seed).run();
    }
}
