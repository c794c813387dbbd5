//! When the hub tells the transport to offer a message again for which there was no room.

use petasos_abi::{CallNumber, Contents, Descriptor, Request};
use petasos_service::{ApplicationLimits, RemoteCall, RemoteEvent};

use crate::remote::{caller_with, encoded, incoming, stream, world};
use crate::support::*;

/// An application that serves with these limits, and so much memory to receive in.
fn server_with(world: &mut World, receive_bytes: u64, limits: ApplicationLimits) -> App {
    let server = world.app_with("server", receive_bytes, limits);
    world.hub.serve(server.number, "greeter").unwrap();
    server
}

/// A stream of another host, as the transport and as the server know it.
fn served(world: &mut World, server: &mut App) -> (RemoteCall, CallNumber) {
    let call = world.hub.begin_remote(incoming("Chat", None), NOW).unwrap();
    world.run(&mut [server]);
    let number = server.take(|said| match said {
        Descriptor::Request(Request { call, is_stream: true, .. }) => Some(*call),
        _ => None,
    });
    (call, number[0])
}

/// Says messages of another host until there is no room for the next one.
fn fill(world: &mut World, app: &mut App, call: RemoteCall, text: &str) {
    let message = encoded(world, "greet.Request", "name", text);
    for _ in 0..1000 {
        if !world.hub.has_room_for_remote(call) {
            return;
        }
        world.hub.remote_message(call, &message, NOW);
        world.run(&mut [app]);
    }
    panic!("nothing holds the stream up");
}

/// What the transport is told of room.
fn rooms(world: &mut World) -> Vec<RemoteCall> {
    let events = std::iter::from_fn(|| world.hub.poll_remote());
    let rooms = events.filter_map(|event| match event {
        RemoteEvent::Room(call) => Some(call),
        _ => None,
    });
    rooms.collect()
}

/// The server ends a call.
fn end(world: &mut World, server: &App, call: CallNumber) {
    let (status, has_not_run) = (0, false);
    let (message, metadata) = (Contents::NONE, Contents::NONE);
    let end = Descriptor::End { call, status, has_not_run, message, metadata };
    world.handle(server, end).unwrap();
}

#[test]
fn d8_room_in_a_stream_is_told_once_and_nothing_is_asked_until_then() {
    let mut world = world();
    let limits = limits_of_three();
    let mut server = server_with(&mut world, SEND_BYTES, limits);
    let [(slow, near), (fast, _)] = [(); 2].map(|()| served(&mut world, &mut server));
    let unread = 4;
    fill(&mut world, &mut server, slow, "a");
    let message = encoded(&world, "greet.Request", "name", "b");
    for _ in 0..2 {
        // Other streams, and turns without anything, tell nothing.
        assert!(world.hub.has_room_for_remote(fast));
        world.hub.remote_message(fast, &message, NOW);
        world.run(&mut [&mut server]);
        assert!(rooms(&mut world).is_empty());
        // Asked for nothing, it is still told once.
        assert!(!world.hub.has_room_for_remote(slow));
    }
    // A byte is not enough, and neither is room for fewer than all that wait here.
    for (bytes, told) in [(1, vec![]), (limits.grant_bytes, vec![slow]), (1, vec![])] {
        world.handle(&server, Descriptor::Grant { call: near, bytes }).unwrap();
        world.run(&mut [&mut server]);
        assert_eq!(rooms(&mut world), told);
    }
    assert!(world.hub.has_room_for_remote(slow));
    let messages = server.take(|said| match said {
        Descriptor::Message { call, .. } if *call == near => Some(()),
        _ => None,
    });
    assert_eq!(messages.len(), unread);
}

#[test]
fn room_of_an_application_that_reads_again_is_told_to_all_that_wait() {
    let mut world = world();
    let limits = ApplicationLimits { held_bytes_max: 5000, ..ApplicationLimits::default() };
    // With little memory to receive in, what comes for it stays.
    let mut server = server_with(&mut world, 1 << 16, limits);
    let streams: Vec<_> = (0..100).map(|_| served(&mut world, &mut server).0).collect();
    fill(&mut world, &mut server, streams[0], &"x".repeat(4000));
    for call in &streams {
        assert!(!world.hub.has_room_for_remote(*call));
    }
    world.run(&mut [&mut server]);
    assert!(rooms(&mut world).is_empty());
    let messages = server.take(|said| match said {
        Descriptor::Message { message, .. } => Some(*message),
        _ => None,
    });
    for message in messages {
        world.release(&server, message).unwrap();
    }
    let mut told = Vec::new();
    while told.len() < streams.len() {
        assert!(world.turn(NOW), "{} are told", told.len());
        told.extend(rooms(&mut world));
    }
    assert_eq!(told, streams, "in the order in which they wait");
    while world.turn(NOW) {}
    assert!(rooms(&mut world).is_empty());
}

#[test]
fn calls_that_are_done_are_told_of_room_once_however_they_end() {
    let limits = limits_of_three();
    type End = fn(&mut World, &mut App, (RemoteCall, CallNumber));
    let ends: [End; 3] = [
        |world, _, (call, _)| world.hub.remote_cancel(call, NOW),
        |world, server, _| world.hub.remove(server.number, NOW),
        |world, server, (call, near)| {
            end(world, server, near);
            world.run(&mut [server]);
            assert!(world.hub.next_remote_item(call).is_some());
        },
    ];
    for how in ends {
        let mut world = world();
        let mut server = server_with(&mut world, SEND_BYTES, limits);
        let (call, near) = served(&mut world, &mut server);
        fill(&mut world, &mut server, call, "a");
        how(&mut world, &mut server, (call, near));
        assert_eq!(rooms(&mut world), [call]);
        assert!(world.hub.has_room_for_remote(call), "it takes everything");
        let message = encoded(&world, "greet.Request", "name", "too late");
        world.hub.remote_message(call, &message, NOW);
        world.run(&mut [&mut server]);
        assert!(rooms(&mut world).is_empty());
    }
}

#[test]
fn a_caller_that_gives_up_a_stream_that_it_does_not_read_is_told_like_others() {
    let mut world = world();
    let mut client = caller_with(&mut world, limits_of_three());
    let (near, call) = stream(&mut world, &mut client);
    let reply = encoded(&world, "greet.Response", "text", "x");
    for _ in 0..4 {
        assert!(world.hub.has_room_for_remote(call));
        world.hub.remote_message(call, &reply, NOW);
        world.run(&mut [&mut client]);
    }
    assert!(!world.hub.has_room_for_remote(call));
    world.handle(&client, Descriptor::Cancel { call: near }).unwrap();
    world.run(&mut [&mut client]);
    assert_eq!(rooms(&mut world), [call]);
    assert!(world.hub.has_room_for_remote(call));
}

#[test]
fn calls_that_come_and_go_while_an_application_is_full_leave_nothing_behind() {
    let mut world = world();
    let limits =
        ApplicationLimits { held_bytes_max: 5000, items_max: 64, ..ApplicationLimits::default() };
    let mut client = world.app_with("client", 1 << 16, limits);
    world.hub.target(client.number, "elsewhere").unwrap();
    let (_, unread) = stream(&mut world, &mut client);
    let reply = encoded(&world, "greet.Response", "text", &"x".repeat(4000));
    while world.hub.has_room_for_remote(unread) {
        world.hub.remote_message(unread, &reply, NOW);
        world.run(&mut [&mut client]);
    }
    for _ in 0..1000 {
        let (near, call) = stream(&mut world, &mut client);
        assert!(!world.hub.has_room_for_remote(call));
        world.handle(&client, Descriptor::Cancel { call: near }).unwrap();
        world.run(&mut [&mut client]);
        assert_eq!(rooms(&mut world), [call]);
        client.said.retain(|said| matches!(said, Descriptor::Message { .. }));
    }
    // Those that are gone are not told again.
    let messages = client.take(|said| match said {
        Descriptor::Message { message, .. } => Some(*message),
        _ => None,
    });
    for message in messages {
        world.release(&client, message).unwrap();
    }
    world.run(&mut [&mut client]);
    assert_eq!(rooms(&mut world), [unread]);
}
