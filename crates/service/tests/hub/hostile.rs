//! Applications that send arbitrary descriptors.

use petasos_abi::{CallNumber, Contents, Descriptor, Request, Side};
use petasos_base::Rng;
use petasos_call::Code;
use petasos_service::{ApplicationLimits, Detached};
use proptest::prelude::*;

use crate::support::*;

#[test]
fn d10_what_is_no_descriptor_of_the_applications_detaches_it() {
    let mut world = World::new();
    let (client, _) = world.pair();
    let call = CallNumber::new(Side::Application, 0);
    let metadata = Contents::NONE;
    for record in [vec![], vec![0; 55], vec![0xff; 56], vec![0; 57]] {
        let application = world.hub.application(client.number).unwrap();
        assert!(matches!(application.handle(&record, NOW), Err(Detached::Refused(_))));
    }
    let head = Descriptor::Head { call, metadata };
    let refused = world.handle(&client, head);
    assert!(matches!(refused, Err(Detached::Refused(_))), "the callee says this, not the caller");
}

#[test]
fn d5_a_number_that_was_used_detaches() {
    let mut world = World::new();
    let (mut client, _) = world.pair();
    let call = world.call(&mut client, "you");
    world.call(&mut client, "you");
    let message = client.write(&world.message("greet.Request", &[]));
    let again = Request { message, ..client.request(call, GREET) };
    assert_eq!(world.handle(&client, Descriptor::Request(again)), Err(Detached::NumberUsed));
}

#[test]
fn d5_calls_of_others_cannot_be_spoken_for() {
    let mut world = World::new();
    let (mut client, mut server) = world.pair();
    let mut eve = world.app("eve");
    world.call(&mut client, "you");
    world.run(&mut [&mut client, &mut server, &mut eve]);
    // Eve answers the server's call number, and the client's, as if they were hers.
    let message = eve.write(&world.message("greet.Response", &[]));
    for count in 0..10 {
        let call = CallNumber::new(Side::Service, count);
        let metadata = Contents::NONE;
        let end = Descriptor::End { call, status: 0, has_not_run: false, message, metadata };
        world.handle(&eve, end).unwrap();
    }
    world.run(&mut [&mut client, &mut server, &mut eve]);
    assert!(client.ends().is_empty());
    assert_eq!(world.serve(&mut server), ["you"]);
    world.run(&mut [&mut client, &mut server, &mut eve]);
    assert_eq!(client.ends().len(), 1);
}

#[test]
fn d11_releasing_what_was_not_received_detaches() {
    let mut world = World::new();
    let (mut client, mut server) = world.pair();
    world.call(&mut client, "you");
    world.run(&mut [&mut client, &mut server]);
    let [Descriptor::Request(request)] = server.said[..] else { panic!("{:?}", server.said) };
    let Contents { offset, bytes } = request.message;
    for wrong in [offset + 1, offset + 64, offset.wrapping_sub(64), 1 << 40] {
        let released = world.release(&server, Contents { offset: wrong, bytes });
        assert!(matches!(released, Err(Detached::Released(_))), "{wrong}");
    }
    assert!(world.release(&server, request.message).is_ok());
}

#[test]
fn what_is_held_for_an_application_is_bounded() {
    let mut world = World::new();
    let limits = ApplicationLimits { held_bytes_max: 10_000, ..ApplicationLimits::default() };
    let mut client = world.app_with("client", SEND_BYTES, limits);
    world.hub.target(client.number, "greeter").unwrap();
    let blob = [1; 4000];
    let message = world.message("greet.Request", &[("blob", petasos_message::Leaf::Bytes(&blob))]);
    let mut calls = 0;
    while world.hub.application(client.number).unwrap().has_room() {
        let (call, message) = (client.next_call(), client.write(&message));
        let request = Request { message, ..client.request(call, GREET) };
        world.handle(&client, Descriptor::Request(request)).unwrap();
        calls += 1;
    }
    assert_eq!(calls, 3, "the rest waits in the ring");
    world.run(&mut [&mut client]);
    assert_eq!(client.ends().len(), 3);
    assert!(world.hub.application(client.number).unwrap().has_room());
}

#[test]
fn a_receiver_that_takes_nothing_does_not_fill_the_service() {
    let mut world = World::new();
    let client = &mut world.app("client");
    let limits = ApplicationLimits { held_bytes_max: 20_000, ..ApplicationLimits::default() };
    let server = &mut world.app_with("server", petasos_abi::UNIT_BYTES, limits);
    world.hub.serve(server.number, "greeter").unwrap();
    world.hub.target(client.number, "greeter").unwrap();
    let call = client.next_call();
    world.handle(client, Descriptor::Request(client.request(call, CHAT))).unwrap();
    let blob = [1; 4000];
    let message = world.message("greet.Request", &[("blob", petasos_message::Leaf::Bytes(&blob))]);
    for _ in 0..100 {
        let message = client.write(&message);
        world.handle(client, Descriptor::Message { call, message }).unwrap();
        world.run(&mut [client, server]);
    }
    let ends: Vec<_> = client.ends().into_iter().map(|end| (end.0, end.1)).collect();
    assert_eq!(ends, [(call, Code::ResourceExhausted as u8)]);
    let received = server.take(|said| matches!(said, Descriptor::Message { .. }).then_some(()));
    assert!(received.len() < 20, "a slab of {} messages was taken", received.len());
    assert!(server.said.iter().any(|said| matches!(said, Descriptor::Cancel { .. })));
}

#[test]
fn an_application_that_does_not_look_at_its_ring_is_not_heard() {
    let mut world = World::new();
    let limits = ApplicationLimits { descriptors_max: 10, ..ApplicationLimits::default() };
    let mut client = world.app_with("client", SEND_BYTES, limits);
    let mut calls = 0;
    while world.hub.application(client.number).unwrap().has_room() {
        // There is no such target: each call ends at once.
        world.call(&mut client, "you");
        world.hub.turn(NOW);
        calls += 1;
        assert!(calls < 100);
    }
    world.run(&mut [&mut client]);
    assert_eq!(client.ends().len(), calls);
    assert!(world.hub.application(client.number).unwrap().has_room());
}

#[test]
fn d13_a_service_is_bound_once_and_by_one_schema() {
    let mut world = World::new();
    let client = world.app("client");
    let schema = world.schema.clone();
    assert_eq!(world.hub.bind(client.number, &schema, "greet.Greeter", true).unwrap(), 0);
    let at = schema.windows(5).position(|text| text == b"count").unwrap();
    let other = [&schema[..at], b"other", &schema[at + 5..]].concat();
    let refused = world.hub.bind(client.number, &other, "greet.Greeter", true).unwrap_err();
    assert_eq!(refused.to_string(), "`greet.Greeter` is bound already, of another schema");
    for index in 0..1024 {
        assert!(world.hub.serve(client.number, &index.to_string()).is_ok());
        assert!(world.hub.target(client.number, &index.to_string()).is_ok());
    }
    assert!(world.hub.serve(client.number, "one more").is_err());
    assert!(world.hub.target(client.number, "one more").is_err());
}

#[test]
fn messages_and_metadata_that_are_too_long_end_their_call() {
    let mut world = World::new();
    let limits = ApplicationLimits { message_bytes_max: 1000, ..ApplicationLimits::default() };
    let mut client = world.app_with("client", SEND_BYTES, limits);
    world.hub.target(client.number, "greeter").unwrap();
    let blob = [1; 1000];
    let message = world.message("greet.Request", &[("blob", petasos_message::Leaf::Bytes(&blob))]);
    let message = client.write(&message);
    let call = client.next_call();
    let request = Request { message, ..client.request(call, GREET) };
    world.handle(&client, Descriptor::Request(request)).unwrap();
    let message = client.write(&world.message("greet.Request", &[]));
    let metadata = Contents { offset: 0, bytes: 16 << 10 | 1 };
    let call = client.next_call();
    let request = Request { message, metadata, ..client.request(call, GREET) };
    world.handle(&client, Descriptor::Request(request)).unwrap();
    world.run(&mut [&mut client]);
    let statuses: Vec<_> = client.ends().into_iter().map(|end| end.1).collect();
    assert_eq!(statuses, [Code::ResourceExhausted as u8; 2]);
}

proptest! {
    #![proptest_config(petasos_cases::kept_with(100))]

    /// Two applications say anything, well formed or not, while their memory is anything; a third
    /// one's calls to a fourth go on. Nothing panics, and all memory comes back.
    #[test]
    fn d10_d11_a_good_application_works_beside_hostile_ones(seed: u64) {
        let mut rng = Rng::new(seed);
        let mut world = World::new();
        let (mut client, mut server) = world.pair();
        let mut hostile = [hostile_app(&mut world, &mut rng), hostile_app(&mut world, &mut rng)];
        let mut done = 0;
        for _ in 0..60 {
            world.call(&mut client, "you");
            for app in &mut hostile {
                (0..10).for_each(|_| say_anything(&mut world, app, &mut rng));
            }
            let [eve, mallory] = &mut hostile;
            world.run(&mut [&mut client, &mut server, eve, mallory]);
            world.serve(&mut server);
            world.run(&mut [&mut client, &mut server, eve, mallory]);
            for (_, status, _, message) in client.ends() {
                prop_assert_eq!(status, 0);
                world.release(&client, message).unwrap();
                done += 1;
            }
            server.said.clear();
        }
        prop_assert_eq!(done, 60);
        hostile.iter().for_each(|app| world.hub.remove(app.number, NOW));
        world.run(&mut [&mut client, &mut server]);
        for app in [&client, &server] {
            let counts = world.hub.application(app.number).unwrap().datapath().counts();
            prop_assert_eq!((counts.queued, counts.held), (0, 0));
        }
    }
}

/// An application that calls the server and serves others itself, with noise in its heap.
fn hostile_app(world: &mut World, rng: &mut Rng) -> App {
    let mut app = world.app("eve");
    // One of them has the name.
    let _ = world.hub.serve(app.number, "trap");
    for name in ["greeter", "trap"] {
        world.hub.target(app.number, name).unwrap();
    }
    let noise: Vec<u8> = (0..4096).map(|_| rng.below(16) as u8).collect();
    app.write_bytes(&noise);
    app
}

/// One record of a hostile application. If that ends it, another comes.
fn say_anything(world: &mut World, app: &mut App, rng: &mut Rng) {
    let Some(application) = world.hub.application(app.number) else { return };
    if !application.has_room() {
        return;
    }
    let contents = Contents { offset: rng.below(5000), bytes: rng.below(300) as u32 };
    let contents = if rng.chance(0.3) { Contents::NONE } else { contents };
    let kind = rng.below(9);
    // Mostly it says of a call what that side may say: else it would be gone at once.
    let side = match kind {
        _ if rng.chance(0.01) => Side::Service,
        4 | 5 => Side::Application,
        6 | 7 => Side::Service,
        _ => [Side::Application, Side::Service][rng.below(2) as usize],
    };
    let call = CallNumber::new(side, rng.below(40));
    let descriptor = match kind {
        0..3 => {
            let call = app.next_call();
            let method = rng.below(3) as u16;
            let request = app.request(call, method);
            let message = if method == CHAT { Contents::NONE } else { contents };
            let partner = rng.below(3) as u32;
            Descriptor::Request(Request { message, partner, ..request })
        }
        3 => Descriptor::Message { call, message: contents },
        4 => Descriptor::Close { call },
        5 => Descriptor::Cancel { call },
        8 => Descriptor::Grant { call, bytes: rng.next_u64() },
        6 => Descriptor::Head { call, metadata: contents },
        _ => {
            let status = if rng.chance(0.5) { 0 } else { rng.below(17) as u8 };
            let message = if status == 0 { contents } else { Contents::NONE };
            let has_not_run = status != 0 && rng.chance(0.5);
            Descriptor::End { call, status, has_not_run, message, metadata: Contents::NONE }
        }
    };
    let mut bytes = descriptor.to_bytes();
    if rng.chance(0.01) {
        bytes[rng.below(56) as usize] = rng.next_u64() as u8;
    }
    if application.handle(&bytes, NOW).is_err() {
        world.hub.remove(app.number, NOW);
        *app = hostile_app(world, rng);
    }
}
