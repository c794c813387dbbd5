//! First packets: whom they reach, under which names, and which are taken.

use petasos_netio::PacketIo;

use crate::{PlaneFactory, World};

/// RT1, RT19.
pub fn first_packets_go_to_workers_with_their_names_and_numbers<F: PlaneFactory>(factory: &F) {
    let mut world = World::new(factory, "rr", 2, 4);
    for message in [b"one".as_slice(), b"two", b"three", b"four"] {
        world.ask(message);
    }
    for at in [0, 1] {
        let given = world.given(at);
        assert_eq!(given.len(), 2, "in turn");
        for (packet, number) in given.iter().zip(1..) {
            assert_eq!((packet.session, packet.tag), ((1 << 19) + at as u32, 900 + at as u32));
            assert_eq!((packet.number, packet.lifetime_us), (number, None));
        }
    }
    assert_eq!(world.stats().given, 4);
    assert!(world.rejections().is_empty());
}

/// RT3: each number once, in any order, and none that is too far below the highest.
pub fn rt3_numbers_are_taken_in_any_order_once_each<F: PlaneFactory>(factory: &F) {
    let mut world = World::new(factory, "rr", 1, 4095);
    let mut packets: Vec<_> = (0..100).map(|_| world.first(b"x", |_| {})).collect();
    packets.reverse();
    for bytes in packets.iter().chain(&packets) {
        world.send(bytes);
    }
    assert_eq!((world.stats().given, world.stats().repeated), (100, 100));
    // 1024 above: the first ones are too old to be known.
    let far = world.first(b"x", |block| block.number += 1024);
    world.send(&far);
    let old = world.first(b"x", |block| block.number = 100);
    world.send(&old);
    assert_eq!((world.stats().given, world.stats().repeated), (101, 101));
    assert_eq!(world.given(0).len(), 101);
}

/// RT26: neither from elsewhere, nor for another address, nor under another's number or tag.
pub fn rt26_first_packets_come_from_where_their_client_has_attached<F: PlaneFactory>(factory: &F) {
    let mut world = World::new(factory, "rr", 1, 64);
    let other = world.attach(1);
    let elsewhere = world.client_address(1);
    let forged = [
        world.first(b"x", |block| block.reply = elsewhere),
        world.first(b"x", |block| block.reply.set_port(9)),
        world.first(b"x", |block| block.client = other.0.client),
        world.first(b"x", |block| block.client = 3),
    ];
    for bytes in &forged {
        world.send(bytes);
    }
    world.client.0.tag ^= 1;
    world.ask(b"x");
    world.client.0.tag ^= 1;
    // Another client's number, also with its tag, from a client's own address.
    let own = core::mem::replace(&mut world.client, (other.0, 0));
    world.ask(b"x");
    world.client = own;
    assert_eq!(world.stats().from_strangers, 6);
    let good = world.first(b"good", |_| {});
    if factory.tells_origins() {
        // A client's and a worker's address, both of which the router knows.
        world.post_from_client(1, &good);
        world.post_from_worker(0, &good);
        // Who forges source and reply address, to have workers flood that host.
        let aimed = world.first(b"x", |block| block.reply = elsewhere);
        world.post_from_client(1, &aimed);
        world.turn();
        assert_eq!(world.stats().from_strangers, 9);
    }
    assert_eq!((world.given(0), world.stats().given), (vec![], 0));
    assert!(world.client_inbox(0).is_empty() && world.client_inbox(1).is_empty());
    world.send(&good);
    assert_eq!(world.messages(0), [b"good"], "and its number was not taken");
}

/// The packets of a batch that are for one worker leave as one train, whomever others are for.
pub fn packets_of_a_batch_go_to_each_worker_as_trains<F: PlaneFactory>(factory: &F) {
    let mut world = World::new(factory, "rr", 2, 64);
    for number in 0..20u8 {
        let bytes = world.first(&[number; 100], |_| {});
        world.post_from_client(0, &bytes);
    }
    world.turn();
    assert_eq!(world.io.trains, [10, 10]);
    for at in [0, 1u8] {
        let even_or_odd: Vec<_> = (at..20).step_by(2).map(|number| vec![number; 100]).collect();
        assert_eq!(world.messages(at.into()), even_or_odd);
    }
    // A shorter one ends a train, and one that is longer begins another.
    for bytes in [100, 50, 100] {
        for _ in 0..2 {
            let first = world.first(&vec![7; bytes], |_| {});
            world.post_from_client(0, &first);
        }
    }
    world.turn();
    assert_eq!(world.io.trains[2..], [2, 2, 1, 1]);
    let lens = world.messages(0).iter().map(Vec::len).collect::<Vec<_>>();
    assert_eq!(lens, [100, 50, 100]);
}

/// What cannot be sent stays, in its order, and is sent once.
pub fn packets_wait_for_packet_io_that_is_full<F: PlaneFactory>(factory: &F) {
    let mut world = World::new(factory, "rr", 1, 64);
    world.io.is_full = true;
    for message in [b"1".as_slice(), b"22", b"333"] {
        world.ask(message);
    }
    assert_eq!(world.plane.next_turn_at(world.now), world.now, "it wants to send");
    assert!(world.worker_inbox(0).is_empty());
    world.io.is_full = false;
    world.turn();
    assert!(world.plane.next_turn_at(world.now) > world.now);
    assert_eq!(world.messages(0), [b"1".as_slice(), b"22", b"333"]);
    world.turn();
    assert_eq!(world.io.stats().tx_frames, 3);
}
