//! What the plane does with each packet.

use std::time::Duration;

use petasos_netio::PacketIo;
use petasos_router_plane::{Plane, PlaneConfig, PlaneConfigError, TableError};
use petasos_wire::{RejectCode, RoutePolicy};

use crate::world::*;

#[test]
fn first_packets_go_to_workers_with_their_names_and_numbers() {
    let mut world = World::new("rr", 2, 4);
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
    assert_eq!(world.plane.stats().given, 4);
    assert!(world.rejections().is_empty());
}

#[test]
fn packets_of_a_batch_go_to_each_worker_as_trains() {
    let mut world = World::new("rr", 2, 64);
    let to = world.io.local_address();
    let packets: Vec<_> = (0..20).map(|_| world.first(&[7; 100], |_| {})).collect();
    let route = world.client.route(to).expect("the hub reaches every port");
    let train = packets.concat();
    assert_eq!(world.client.transmit_train(route, &train, packets[0].len()), 20);
    world.turn();
    for at in [0, 1] {
        let port = world.workers[at].port.number();
        assert_eq!((world.hub.waiting_trains(port), world.hub.waiting(port)), (1, 10));
    }
}

#[test]
fn what_waits_goes_when_a_worker_has_settled() {
    let mut world = World::new("jbsq1", 1, 1);
    world.ask(b"first");
    let later = world.first(b"second", |block| block.lifetime_us = Some(10_000));
    world.send(&later);
    assert_eq!((world.given(0).len(), world.plane.waiting()), (1, 1));
    world.now = world.now + Duration::from_micros(4_000);
    world.feed_back(0, 1, |_| {});
    let given = world.given(0);
    assert_eq!((given[0].number, given[0].message.as_slice()), (2, b"second".as_slice()));
    let left = given[0].lifetime_us.expect("it has a limit");
    assert!((5_900..6_000).contains(&left), "RT6: what it has waited is taken off: {left}");
    assert_eq!((world.plane.waiting(), world.plane.stats().waited), (0, 1));
    // One that waits for too long is not passed on.
    let late = world.first(b"third", |block| block.lifetime_us = Some(1_000));
    world.send(&late);
    world.now = world.now + Duration::from_micros(2_000);
    world.turn();
    assert_eq!(world.rejections(), [RejectCode::Expired]);
    assert!(world.given(0).iter().all(|packet| packet.is_probe));
}

/// RT3, RT26, and the forms of RT1 and RT2.
#[test]
fn packets_of_strangers_and_repeated_ones_reach_nobody() {
    let mut world = World::new("rr", 1, 64);
    let good = world.first(b"good", |_| {});
    world.send(&good);
    world.send(&good);
    assert_eq!(world.plane.stats().repeated, 1);
    let other = world.workers[0].port.local_address();
    let forged = [
        world.first(b"x", |block| block.reply = other),
        world.first(b"x", |block| block.reply.set_port(9)),
        world.first(b"x", |block| block.client += 1),
    ];
    for bytes in &forged {
        world.send(bytes);
    }
    assert_eq!(world.plane.stats().from_strangers, 3);
    world.attached.tag ^= 1;
    world.ask(b"x");
    world.attached.tag ^= 1;
    assert_eq!(world.plane.stats().from_strangers, 4);
    let mut reserved = world.first(b"x", |_| {});
    reserved[25] |= 2;
    let mut short = world.first(b"a message", |_| {});
    short.pop();
    let long = world.first(&[0; PAYLOAD as usize + 1], |_| {});
    for bytes in [&reserved, &short, &long] {
        world.send(bytes);
    }
    assert_eq!(world.plane.stats().void, 3);
    world.send(&good[..20]);
    let mut response = good.clone();
    response[0] = response[0] & 0xf0 | 8;
    world.send(&response);
    assert_eq!(world.plane.stats().malformed, 2);
    // None of these took a number of the worker, and nobody was told anything.
    world.ask(b"next");
    let numbers: Vec<_> = world.given(0).iter().map(|packet| packet.number).collect();
    assert_eq!(numbers, [1, 2]);
    assert!(world.rejections().is_empty());
}

#[test]
fn numbers_are_taken_in_any_order_once_each() {
    let mut world = World::new("rr", 1, 4095);
    let mut packets: Vec<_> = (0..100).map(|_| world.first(b"x", |_| {})).collect();
    packets.reverse();
    for bytes in packets.iter().chain(&packets) {
        world.send(bytes);
    }
    assert_eq!((world.plane.stats().given, world.plane.stats().repeated), (100, 100));
    // 1024 above: the first ones are too old to be known.
    let far = world.first(b"x", |block| block.number += 1024);
    world.send(&far);
    let old = world.first(b"x", |block| block.number = 100);
    world.send(&old);
    assert_eq!(world.plane.stats().repeated, 101);
}

#[test]
fn rejections_say_why() {
    let mut world = World::new("jbsq1", 1, 1);
    let epoch = world.first(b"x", |block| block.epoch = 9);
    let expired = world.first(b"x", |block| block.lifetime_us = Some(0));
    let probe = world.first(b"x", |block| block.policy = RoutePolicy::Probe);
    let mut unknown = world.first(b"x", |_| {});
    unknown[24] |= 5;
    let primary = world.first(b"x", |block| block.policy = RoutePolicy::Primary);
    for (bytes, code) in [
        (epoch, RejectCode::Again),
        (expired, RejectCode::Expired),
        (probe, RejectCode::UnknownPolicy),
        (unknown, RejectCode::UnknownPolicy),
        (primary, RejectCode::NoWorker),
    ] {
        world.send(&bytes);
        assert_eq!(world.rejections(), [code]);
    }
    world.plane.begin_epoch(9, None);
    let newest = world.first(b"newest", |block| block.epoch = 9);
    world.send(&newest);
    assert_eq!(world.given(0).len(), 1);
    let id = world.workers[0].joined.id;
    world.plane.drain(id, true);
    world.ask(b"late");
    assert_eq!(world.rejections(), [RejectCode::NoWorker]);
}

/// RT24: a client may have as much of the queue as it leaves free.
#[test]
fn one_client_leaves_room_for_others() {
    let mut world = World::new("jbsq1", 1, 1);
    (0..9).for_each(|_| world.ask(b"x"));
    assert_eq!(world.plane.waiting(), 4, "half of eight");
    assert_eq!(world.rejections(), [RejectCode::QueueFull; 4]);
    let other = world.hub.port();
    let attached = world.plane.attach(&mut world.io, other.local_address()).expect("there is room");
    let (first, before) = (world.attached, core::mem::replace(&mut world.client, other));
    world.attached = attached;
    world.ask(b"other");
    assert_eq!(world.plane.waiting(), 5);
    // The first client goes: what it has asked goes with it.
    world.plane.detach(&mut world.io, first.client);
    for _ in 0..5 {
        world.feed_back(0, 1, |_| {});
    }
    assert_eq!(world.plane.waiting(), 0);
    drop(before);
}

/// RT22: feedback has to have all marks of its worker.
#[test]
fn feedback_of_strangers_frees_nothing() {
    let mut world = World::new("jbsq1", 2, 1);
    world.ask(b"one");
    world.ask(b"two");
    world.ask(b"waits");
    let of_other = world.workers[1].joined.session;
    world.feed_back(0, 1, |told| told.tag ^= 1);
    world.feed_back(0, 0, |told| told.secret ^= 1);
    world.feed_back(0, 0, |told| told.session = of_other);
    world.feed_back(0, 0, |told| told.session = 4000);
    assert_eq!((world.plane.stats().void_feedback, world.plane.waiting()), (4, 1));
    // More than was given cannot be settled.
    world.feed_back(0, 0, |told| told.counts.settled = 9);
    assert_eq!((world.plane.counts().wrong_counts, world.plane.waiting()), (1, 1));
    world.feed_back(0, 0, |_| {});
    assert_eq!(world.plane.waiting(), 0, "what it says itself is believed");
}

#[test]
fn a_silent_worker_is_probed() {
    let mut world = World::new("jbsq1", 1, 1);
    world.ask(b"lost");
    world.given(0);
    for _ in 0..200 {
        world.now = world.now + Duration::from_micros(100);
        world.turn();
    }
    let given = world.given(0);
    assert!(!given.is_empty() && given.iter().all(|packet| packet.is_probe), "{given:?}");
    assert_eq!(given[0].number, 2);
    assert_eq!(world.plane.stats().probes, given.len() as u64);
}

/// After a pause of the router, feedback waits to be heard: nobody is asked before.
#[test]
fn a_router_that_paused_asks_nobody_whose_feedback_waits() {
    let mut world = World::new("jbsq1", 2, 1);
    world.ask(b"one");
    world.ask(b"two");
    assert_eq!([0, 1].map(|at| world.given(at).len()), [1, 1]);
    world.now = world.now + Duration::from_millis(30);
    // The first of them is heard by itself.
    world.feed_back(0, 1, |_| {});
    world.feed_back(1, 1, |_| {});
    (0..3).for_each(|_| world.turn());
    assert_eq!(world.plane.stats().probes, 0);
    // But timers do not wait for ever.
    world.ask(b"three");
    world.now = world.now + Duration::from_millis(30);
    for _ in 0..20 {
        let bytes = world.first(b"x", |block| block.epoch = 9);
        world.send(&bytes);
    }
    assert_eq!(world.plane.stats().probes, 1);
}

#[test]
fn a_worker_that_has_gone_is_given_nothing() {
    let mut world = World::new("rr", 2, 64);
    let gone = world.workers[0].joined.id;
    assert_eq!(world.plane.end(&mut world.io, gone), Some(1));
    assert_eq!(world.plane.end(&mut world.io, gone), None);
    (0..4).for_each(|_| world.ask(b"x"));
    assert_eq!((world.given(0).len(), world.given(1).len()), (0, 4));
    // Its place may be another's, which does not hear what is said of the first.
    world.join(1, true);
    assert_eq!(world.workers[2].joined.session, world.workers[0].joined.session);
    assert_eq!(world.plane.members().count(), 2);
    let primary = world.first(b"x", |block| block.policy = RoutePolicy::Primary);
    world.send(&primary);
    assert_eq!(world.given(2).len(), 1);
}

#[test]
fn packets_wait_for_packet_io_that_is_full() {
    let hub = petasos_netio::memory::Hub::captured(Default::default());
    let (mut io, client) = (hub.port(), hub.port());
    let mut plane = Plane::new(&config("rr"), 1).expect("it is right");
    let attached = plane.attach(&mut io, client.local_address()).expect("there is room");
    let mut world = World::new("rr", 1, 64);
    world.client = client;
    world.attached = attached;
    hub.block(true);
    let now = world.now;
    for _ in 0..3 {
        let bytes = world.first(b"x", |_| {});
        hub.deliver(io.number(), &bytes, Default::default());
        plane.turn(&mut io, now);
    }
    assert_eq!(plane.next_turn_at(now), now, "it wants to send");
    hub.block(false);
    plane.turn(&mut io, now);
    let mut sent = Vec::new();
    hub.take_captured(&mut sent);
    assert_eq!(sent.len(), 3, "there is no worker: three rejections");
}

/// A request that waits is of the client that asked, not of the next one with its number.
#[test]
fn a_client_that_is_gone_leaves_nothing_to_the_next_with_its_number() {
    let mut world = World::new("jbsq1", 1, 1);
    world.ask(b"one");
    world.ask(b"two");
    assert_eq!((world.given(0).len(), world.plane.waiting()), (1, 1));
    let (old, other) = (world.attached.client, world.hub.port());
    assert!(world.plane.detach(&mut world.io, old) && world.plane.give_back(old));
    let next = world.plane.attach(&mut world.io, other.local_address()).expect("there is room");
    let before = core::mem::replace(&mut world.client, other);
    // Numbers are given in the order in which they became free: this is the old one.
    assert_eq!(next.client, old);
    world.feed_back(0, 1, |_| {});
    assert!(world.given(0).is_empty(), "it is not given under another's name");
    assert_eq!((world.plane.stats().orphaned, world.plane.waiting()), (1, 0));
    assert_eq!(world.client.receive().chunks.len(), 0, "and the other is told nothing");
    drop(before);
}

#[test]
fn tables_and_configurations_have_bounds() {
    let mut world = World::new("rr", 0, 0);
    for _ in 1..4 {
        let port = world.hub.port();
        world.plane.attach(&mut world.io, port.local_address()).expect("there is room");
    }
    let port = world.hub.port();
    let attached = world.plane.attach(&mut world.io, port.local_address());
    assert!(matches!(attached, Err(TableError::Full)));
    // A number is held back until it is given back (RT28). As many may be as may live (RT39).
    let mut live = 2;
    for number in 4..8 {
        assert!(world.plane.detach(&mut world.io, live));
        assert!(!world.plane.detach(&mut world.io, live));
        let attached = world.plane.attach(&mut world.io, port.local_address());
        live = attached.expect("there is room").client;
        assert_eq!(live, number, "nobody's before");
    }
    assert!(world.plane.detach(&mut world.io, live));
    let attached = world.plane.attach(&mut world.io, port.local_address());
    assert!(matches!(attached, Err(TableError::Full)));
    assert!(world.plane.give_back(2) && !world.plane.give_back(2) && !world.plane.give_back(1));
    let attached = world.plane.attach(&mut world.io, port.local_address()).expect("there is room");
    assert_eq!(attached.client, 2);
    let wrong = [
        (PlaneConfig { payload_bytes: 1023, ..config("rr") }, PlaneConfigError::Payload),
        (PlaneConfig { payload_bytes: 65_001, ..config("rr") }, PlaneConfigError::Payload),
        (PlaneConfig { clients_max: 0, ..config("rr") }, PlaneConfigError::Clients),
        (PlaneConfig { clients_max: (1 << 19) + 1, ..config("rr") }, PlaneConfigError::Clients),
    ];
    for (config, why) in wrong {
        assert_eq!(Plane::new(&config, 1).err(), Some(why));
    }
}

/// Whatever bytes arrive: nothing panics, and every frame comes back.
#[test]
fn altered_packets_do_no_harm() {
    let mut world = World::new("jbsq1", 2, 2);
    let mut rng = petasos_base::Rng::new(7);
    for round in 0..20_000 {
        if round % 50 == 0 {
            // An altered number may be the highest for long.
            let (old, address) = (world.attached.client, world.client.local_address());
            world.plane.detach(&mut world.io, old);
            world.plane.give_back(old);
            world.attached = world.plane.attach(&mut world.io, address).expect("there is room");
        }
        let (policy, priority) = ([0, 0, 1, 2][rng.below(4) as usize], rng.below(16) as u8);
        let mut bytes = world.first(&[7; 40], |block| {
            block.policy = RoutePolicy::from_number(policy).expect("it is assigned");
            block.priority = priority;
        });
        for _ in 0..rng.below(3) {
            let at = rng.below(bytes.len() as u64) as usize;
            bytes[at] ^= 1 << rng.below(8);
        }
        bytes.truncate(if rng.below(8) == 0 { 1 + rng.below(64) as usize } else { bytes.len() });
        world.send(&bytes);
        if rng.below(3) == 0 {
            let (at, field, bit) = (rng.below(2) as usize, rng.below(4), rng.below(20));
            let known = world.plane.worker(world.workers[at].joined.id).expect("it is there");
            let held = known.account.given() as u32 - world.workers[at].counts.settled;
            world.feed_back(at, held, |told| match field {
                0 => told.counts.settled ^= 1 << bit,
                1 => told.counts.received ^= 1 << bit,
                2 => told.tag ^= 1 << bit,
                _ => {}
            });
        }
        world.rejections_any();
        for at in [0, 1] {
            world.workers[at].port.receive();
        }
        assert!(world.plane.waiting() <= 8);
    }
    assert!(world.plane.stats().given > 1_000, "{:?}", world.plane.stats());
    let ids = [0, 1].map(|at| world.workers[at].joined.id);
    for id in ids {
        world.plane.end(&mut world.io, id);
    }
    world.turn();
    assert_eq!(world.plane.waiting(), 0, "nobody is left who would take it");
}
