//! Whether calls leave the host encrypted, as policies judge and carriers do it.

use std::sync::Arc;

use petasos_base::Time;
use petasos_call::Code;
use petasos_service::Sealing;

use crate::remote::{begun, caller, policy, world};
use crate::support::*;

/// Calls to all names, or to none, leave encrypted.
struct All(bool);

impl Sealing for All {
    fn is_sealed(&self, target: &str, caller: Option<&str>) -> bool {
        assert_eq!((target, caller), ("elsewhere", None), "nobody has proved a name");
        self.0
    }
}

/// How a call ends that does not leave, and whether it has run.
fn ended(world: &mut World, client: &mut App) -> (u8, bool) {
    world.run(&mut [client]);
    let ends = client.ends();
    assert!(world.hub.poll_remote().is_none(), "nothing has left");
    assert_eq!(ends.len(), 1);
    (ends[0].1, ends[0].2)
}

const DENIED: (u8, bool) = (Code::PermissionDenied as u8, true);

#[test]
fn calls_that_leave_the_host_are_judged_by_what_carries_them_now() {
    let mut world = world();
    let mut client = caller(&mut world);
    let application = world.hub.application(client.number).unwrap();
    application.attach(0, policy("require_sealing", "{}")).unwrap();
    world.call(&mut client, "ann");
    assert_eq!(ended(&mut world, &mut client), DENIED, "nobody has said that it is");
    for is_sealed in [true, false, true] {
        world.hub.set_sealing(Arc::new(All(is_sealed)));
        world.call(&mut client, "ann");
        if is_sealed {
            world.run(&mut [&mut client]);
            assert!(begun(&mut world).expect("it leaves").is_sealed);
        } else {
            assert_eq!(ended(&mut world, &mut client), DENIED);
        }
    }
    // One that stays on the host has no packets.
    let server = world.app("server");
    world.hub.serve(server.number, "elsewhere").unwrap();
    world.call(&mut client, "ann");
    assert_eq!(ended(&mut world, &mut client), DENIED);
}

/// The call waits in a policy meanwhile.
#[test]
fn a_call_that_was_judged_as_encrypted_is_not_served_on_this_host() {
    let mut world = world();
    let mut client = caller(&mut world);
    world.hub.set_sealing(Arc::new(All(true)));
    let application = world.hub.application(client.number).unwrap();
    application.attach(0, policy("require_sealing", "{}")).unwrap();
    application.attach(1, policy("rate_limit", r#"{"rate_per_s": 1}"#)).unwrap();
    (0..2).for_each(|_| _ = world.call(&mut client, "ann"));
    world.run(&mut [&mut client]);
    begun(&mut world).expect("the first one leaves");
    assert!(begun(&mut world).is_none(), "the second one waits");
    let mut server = world.app("server");
    world.hub.serve(server.number, "elsewhere").unwrap();
    world.turn(Time::from_nanos(NOW.as_nanos() + 2_000_000_000));
    assert_eq!(ended(&mut world, &mut client), (Code::Unavailable as u8, true));
    assert!(world.serve(&mut server).is_empty(), "nothing has reached it");
}

#[test]
fn calls_that_nothing_requires_to_be_encrypted_leave_in_any_case() {
    let mut world = world();
    let mut client = caller(&mut world);
    for is_sealed in [false, true] {
        world.hub.set_sealing(Arc::new(All(is_sealed)));
        world.call(&mut client, "ann");
        world.run(&mut [&mut client]);
        assert_eq!(begun(&mut world).expect("it leaves").is_sealed, is_sealed);
    }
}
