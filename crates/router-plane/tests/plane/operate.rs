//! What an operator sees and changes while packets come.

use petasos_router::{Adjustment, Config};
use petasos_wire::{FIRST_BYTES, RejectCode};

use petasos_router_conformance::World;

use crate::Memory;

fn adjustment(policy: &str, waiting_max: usize) -> Adjustment {
    let policy = policy.parse().expect("it is a policy");
    Adjustment { policy, waiting_max, ..Config::default().adjustment() }
}

#[test]
fn what_waits_stays_as_it_is_when_there_is_more_room() {
    let mut world = World::new(&Memory, "jbsq1", 1, 8);
    // One is given, and a client may have half of the room.
    (0..6u8).for_each(|byte| world.ask(&[byte; 100]));
    assert_eq!(world.rejections(), [RejectCode::QueueFull]);
    assert_eq!((world.plane.waiting(), world.plane.waiting_bytes()), (4, 4 * (FIRST_BYTES + 100)));
    world.plane.adjust(adjustment("jbsq1", 64)).expect("it is right");
    (6..20u8).for_each(|byte| world.ask(&[byte; 50]));
    assert_eq!((world.rejections(), world.plane.waiting()), (vec![], 18));
    let (counts, waiting) = world.plane.client(world.client.0.client).expect("it is there");
    assert_eq!((counts.requests, counts.rejected, waiting), (20, 1, 18));
    assert_eq!((world.plane.rejections().queue_full, world.plane.stats().rejected), (1, 1));
    world.plane.adjust(adjustment("rr", 64)).expect("it is right");
    world.turn();
    let mut bytes: Vec<u8> = world.given(0).iter().map(|given| given.message[0]).collect();
    while bytes.len() < 19 {
        let before = bytes.len();
        world.feed_back(0, 1, |_| {});
        bytes.extend(world.given(0).iter().map(|given| given.message[0]));
        assert!(bytes.len() > before, "{bytes:?}");
    }
    assert_eq!(bytes, (0..20u8).filter(|byte| *byte != 5).collect::<Vec<_>>());
    assert_eq!((world.plane.waiting(), world.plane.waiting_bytes()), (0, 0));
}

#[test]
fn less_room_than_what_waits_rejects_what_comes() {
    let mut world = World::new(&Memory, "jbsq1", 1, 8);
    (0..5u8).for_each(|byte| world.ask(&[byte]));
    world.plane.adjust(adjustment("jbsq1", 2)).expect("it is right");
    world.ask(&[5]);
    assert_eq!((world.rejections(), world.plane.waiting()), (vec![RejectCode::QueueFull], 4));
    world.plane.adjust(adjustment("jbsq1", 1)).expect_err("it is wrong");
    world.plane.adjust(adjustment("jbsq1", 1 << 21)).expect_err("it is wrong");
    assert_eq!(world.plane.adjustment(), adjustment("jbsq1", 2));
    for _ in 0..4 {
        world.feed_back(0, 1, |_| {});
    }
    assert_eq!((world.given(0).len(), world.plane.waiting()), (5, 0));
}

#[test]
fn members_are_found_by_their_numbers() {
    let mut world = World::new(&Memory, "jsq", 3, 4);
    let two = world.plane.member(2).expect("it is there");
    assert_eq!((two, world.plane.member(9)), (world.workers[1].joined.id, None));
    assert!(world.plane.set_weight(two, 50) && world.plane.drain(two, true));
    world.plane.set_primary(Some(two));
    let of_two = world.plane.member_states().find(|(number, _)| *number == 2).expect("it is there");
    assert!(of_two.1.is_draining && !of_two.1.is_lost && !of_two.1.is_held_back);
    assert_eq!((of_two.1.weight, of_two.1.bound, of_two.1.limit), (50, 4, 0));
    assert_eq!((world.plane.primary(), world.plane.clients()), (Some(2), 1));
    (0..8u8).for_each(|byte| world.ask(&[byte]));
    assert_eq!(world.given(1), []);
}
