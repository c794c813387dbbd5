//! Streams that another host does not read, beside the other calls of an application (D8).

use std::time::Duration;

use petasos_abi::{COUNTED_BYTES_MIN, CallNumber, Contents, Descriptor, Request};
use petasos_base::Time;
use petasos_call::Code;
use petasos_message::Leaf;
use petasos_service::{ApplicationLimits, RemoteCall, RemoteEvent, RemoteItem, RemoteLimits};

use crate::remote::{caller_with, encoded, incoming, say, stream, success, world};
use crate::support::*;

/// Of each stream, four short messages may be under way, and of all of an application, 20.
fn limits() -> ApplicationLimits {
    let counted = COUNTED_BYTES_MIN as usize;
    let (grant_bytes, beyond_bytes_max) = (4 * counted as u64, 20 * counted);
    ApplicationLimits { grant_bytes, beyond_bytes_max, ..ApplicationLimits::default() }
}

fn after_the_pause() -> Time {
    NOW + RemoteLimits::default().pause
}

fn has_room(world: &mut World, app: &App) -> bool {
    world.hub.application(app.number).unwrap().has_room()
}

/// Unary calls leave and are answered.
fn check_others(world: &mut World, client: &mut App) {
    for _ in 0..20 {
        assert!(has_room(world, client));
        let call = world.call(client, "ann");
        world.run(&mut [client]);
        let begun = std::iter::from_fn(|| world.hub.poll_remote()).find_map(|event| match event {
            RemoteEvent::Begin(begun) => Some(begun.call),
            _ => None,
        });
        let response = encoded(world, "greet.Response", "text", "from afar");
        world.hub.remote_end(begun.unwrap(), success(&response), NOW);
        world.run(&mut [client]);
        let ends = client.ends();
        assert_eq!((ends.len(), ends[0].0, ends[0].1), (1, call, 0));
        world.release(client, ends[0].3).unwrap();
    }
}

/// What the transport can take of a call: so many messages, and how it has ended.
fn taken(world: &mut World, call: RemoteCall) -> (usize, Option<Code>) {
    let mut messages = 0;
    while let Some(item) = world.hub.next_remote_item(call) {
        match item {
            RemoteItem::Message(_) => messages += 1,
            RemoteItem::End(end) => {
                return (messages, Some(end.status.map_or(Code::Ok, |status| status.code())));
            }
            RemoteItem::Close | RemoteItem::Head(_) => {}
        }
    }
    (messages, None)
}

#[test]
fn d8_one_stream_that_another_host_does_not_read_holds_up_no_other_call() {
    let mut world = world();
    let mut client = caller_with(&mut world, limits());
    let (near, call) = stream(&mut world, &mut client);
    (0..4).for_each(|_| say(&mut world, &mut client, near, "unread"));
    world.run(&mut [&mut client]);
    check_others(&mut world, &mut client);
    world.turn(NOW + Duration::from_secs(100));
    check_others(&mut world, &mut client);
    assert!(client.grants().is_empty(), "the stream itself waits");
    assert_eq!(taken(&mut world, call), (4, None));
    world.run(&mut [&mut client]);
    let granted: u64 = client.grants().iter().map(|(_, bytes)| bytes).sum();
    assert_eq!(granted, limits().grant_bytes);
}

#[test]
fn d8_many_streams_that_another_host_does_not_read_take_a_quota_and_then_the_fullest_ends() {
    let mut world = world();
    let mut client = caller_with(&mut world, limits());
    let mut streams = Vec::new();
    for number in 0..5 {
        let (near, call) = stream(&mut world, &mut client);
        streams.push((near, call));
        (0..3).for_each(|_| say(&mut world, &mut client, near, "unread"));
        // The last one of the third stream is longer than the others.
        let text = "x".repeat(if number == 2 { 2000 } else { 1 });
        say(&mut world, &mut client, near, &text);
        assert!(has_room(&mut world, &client));
        world.run(&mut [&mut client]);
    }
    assert!(!has_room(&mut world, &client), "more than 20 KiB wait");
    while world.turn(NOW + (RemoteLimits::default().pause - Duration::from_nanos(1))) {}
    assert_eq!(world.hub.wake_at(), after_the_pause());
    world.listen(&mut client);
    assert!(client.ends().is_empty() && !has_room(&mut world, &client));
    while world.turn(after_the_pause()) {}
    world.listen(&mut client);
    let ends = client.ends();
    let exhausted = Code::ResourceExhausted as u8;
    assert_eq!((ends.len(), ends[0].0, ends[0].1), (1, streams[2].0, exhausted));
    let is_told = std::iter::from_fn(|| world.hub.poll_remote())
        .any(|event| matches!(event, RemoteEvent::Cancel(call) if call == streams[2].1));
    assert!(is_told && world.hub.wake_at() == Time::NEVER);
    streams.remove(2);
    check_others(&mut world, &mut client);
    // The application waited once. From now on, one stream ends for each that is full.
    for _ in 0..200 {
        let (near, call) = stream(&mut world, &mut client);
        streams.push((near, call));
        (0..4).for_each(|_| say(&mut world, &mut client, near, "unread"));
        world.run(&mut [&mut client]);
        assert!(has_room(&mut world, &client));
        for (near, status, ..) in client.ends() {
            assert_eq!(status, exhausted);
            streams.retain(|(stream, _)| *stream != near);
        }
        while world.hub.poll_remote().is_some() {}
    }
    check_others(&mut world, &mut client);
    assert_eq!(streams.len(), 4);
    for (_, call) in streams {
        assert_eq!(taken(&mut world, call), (4, None), "these were not harmed");
    }
}

#[test]
fn d8_streams_that_are_faster_than_the_network_pause_and_do_not_end() {
    let mut world = world();
    let mut client = caller_with(&mut world, limits());
    let streams: Vec<_> = (0..5).map(|_| stream(&mut world, &mut client)).collect();
    for _ in 0..10 {
        for (near, _) in &streams {
            (0..4).for_each(|_| say(&mut world, &mut client, *near, "fast"));
        }
        world.run(&mut [&mut client]);
        assert!(!has_room(&mut world, &client));
        // A quarter is taken, and then some.
        for (_, call) in &streams {
            let is_heard = has_room(&mut world, &client);
            assert_eq!(is_heard, *call >= streams[2].1);
            assert_eq!(taken(&mut world, *call), (4, None));
            world.run(&mut [&mut client]);
        }
    }
    world.turn(NOW + Duration::from_secs(10));
    assert!(client.ends().is_empty());
}

/// Streams of other hosts, as the transport and as the server know them.
fn served(world: &mut World, server: &mut App, count: usize) -> Vec<(RemoteCall, CallNumber)> {
    let calls = (0..count).map(|_| world.hub.begin_remote(incoming("Chat", None), NOW).unwrap());
    let calls: Vec<RemoteCall> = calls.collect();
    world.run(&mut [server]);
    let numbers = server.take(|said| match said {
        Descriptor::Request(Request { call, is_stream: true, .. }) => Some(*call),
        _ => None,
    });
    calls.into_iter().zip(numbers).collect()
}

fn reply(world: &mut World, server: &mut App, call: CallNumber, text: &str) {
    let message = world.message("greet.Response", &[("text", Leaf::Text(text))]);
    let message = server.write(&message);
    world.handle(server, Descriptor::Message { call, message }).unwrap();
}

#[test]
fn d8_answers_that_another_host_does_not_read_take_a_quota_and_then_the_fullest_ends() {
    for is_over in [false, true] {
        let mut world = world();
        let mut server = world.app_with("server", SEND_BYTES, limits());
        world.hub.serve(server.number, "greeter").unwrap();
        let streams = served(&mut world, &mut server, 5);
        for (_, near) in &streams {
            (0..3).for_each(|_| reply(&mut world, &mut server, *near, "unread"));
            let is_fullest = *near == streams[3].1;
            let text = "x".repeat(if is_fullest { 2000 } else { 1 });
            reply(&mut world, &mut server, *near, &text);
            if is_fullest && is_over {
                // The server is done with this one.
                let (call, status, has_not_run) = (*near, 0, false);
                let (message, metadata) = (Contents::NONE, Contents::NONE);
                let end = Descriptor::End { call, status, has_not_run, message, metadata };
                world.handle(&server, end).unwrap();
            }
        }
        world.run(&mut [&mut server]);
        assert!(!has_room(&mut world, &server));
        while world.turn(after_the_pause()) {}
        world.listen(&mut server);
        assert!(has_room(&mut world, &server));
        let cancels = server.take(|said| match said {
            Descriptor::Cancel { call } => Some(*call),
            _ => None,
        });
        assert_eq!(cancels, if is_over { vec![] } else { vec![streams[3].1] });
        for (index, (call, _)) in streams.iter().enumerate() {
            let whole = (4, None);
            let ended = (0, Some(Code::ResourceExhausted));
            let expected = if index == 3 { ended } else { whole };
            assert_eq!(taken(&mut world, *call), expected);
        }
        // All of it is gone: four others have room.
        let streams = served(&mut world, &mut server, 4);
        for (_, near) in &streams {
            (0..4).for_each(|_| reply(&mut world, &mut server, *near, "unread"));
        }
        while world.turn(after_the_pause()) {}
        assert!(has_room(&mut world, &server));
    }
}
