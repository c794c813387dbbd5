//! How many there may be (RT39).

use petasos_router_plane::TableError;

use crate::{PlaneFactory, World};

/// RT28, RT39: at most four clients, and twice as many numbers.
pub fn tables_have_bounds_and_numbers_are_held_back<F: PlaneFactory>(factory: &F) {
    let mut world = World::new(factory, "rr", 0, 0);
    (1..4).for_each(|_| _ = world.attach(1));
    let address = world.client_address(1);
    let attached = world.plane.attach(&mut world.io, address);
    assert!(matches!(attached, Err(TableError::Full)));
    // A number is held back until it is given back (RT28). As many may be as may live (RT39).
    let mut live = 2;
    for number in 4..8 {
        assert!(world.plane.detach(&mut world.io, live));
        assert!(!world.plane.detach(&mut world.io, live));
        live = world.attach(1).0.client;
        assert_eq!(live, number, "nobody's before");
    }
    assert!(world.plane.detach(&mut world.io, live));
    let attached = world.plane.attach(&mut world.io, address);
    assert!(matches!(attached, Err(TableError::Full)));
    assert!(world.plane.give_back(2) && !world.plane.give_back(2) && !world.plane.give_back(1));
    assert_eq!(world.attach(1).0.client, 2);
}
