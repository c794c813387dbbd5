//! Unary calls.

use petasos_abi::{Contents, Descriptor, Request, UNIT_BYTES};
use petasos_call::{Code, Metadata, MetadataKind, Status, TailWriter};
use petasos_message::Leaf;
use petasos_service::{ApplicationLimits, HubError};

use crate::support::*;

#[test]
fn d6_d7_a_call_goes_there_and_back_and_all_memory_comes_back() {
    let mut world = World::new();
    let (mut client, mut server) = world.pair();
    let call = world.call(&mut client, "you");
    world.run(&mut [&mut client, &mut server]);
    assert_eq!(world.serve(&mut server), ["you"]);
    world.run(&mut [&mut client, &mut server]);
    let ends = client.ends();
    let [(number, 0, false, message)] = ends[..] else { panic!("{ends:?}") };
    assert_eq!(number, call);
    assert_eq!(world.text(&client, "greet.Response", message, "text"), "hello, you");
    world.release(&client, message).unwrap();
    for app in [&client, &server] {
        assert!(app.said.iter().all(|said| matches!(said, Descriptor::Release(_))));
        assert_eq!(app.said.len(), 1, "what was sent is the application's again");
        let counts = world.hub.application(app.number).unwrap().datapath().counts();
        assert_eq!((counts.queued, counts.held, counts.entered), (0, 0, 2));
    }
    // What was released is nobody's.
    assert!(world.release(&client, message).is_err());
}

#[test]
fn d6_metadata_and_statuses_arrive() {
    let mut world = World::new();
    let (mut client, mut server) = world.pair();
    let mut metadata = Metadata::new();
    metadata.append("key", "value").unwrap();
    let mut tail = Vec::new();
    TailWriter::new(&mut tail).metadata(MetadataKind::Initial, &metadata);
    let message = client.write(&world.message("greet.Request", &[]));
    let metadata = client.write_bytes(&tail);
    let call = client.next_call();
    let time_left_us = 5_000_000;
    let request = Request { message, metadata, time_left_us, ..client.request(call, GREET) };
    world.handle(&client, Descriptor::Request(request)).unwrap();
    world.run(&mut [&mut client, &mut server]);
    let [Descriptor::Request(received)] = server.said[..] else { panic!("{:?}", server.said) };
    assert_eq!((received.time_left_us, received.method), (time_left_us, GREET));
    assert_eq!(world.bytes(&server, received.metadata), tail);
    let mut tail = Vec::new();
    TailWriter::new(&mut tail).status(&Status::not_found("nobody"));
    let end = Descriptor::End {
        call: received.call,
        status: Code::NotFound as u8,
        has_not_run: false,
        message: Contents::NONE,
        metadata: server.write_bytes(&tail),
    };
    world.handle(&server, end).unwrap();
    world.run(&mut [&mut client, &mut server]);
    let ended = client.take(|said| match said {
        Descriptor::End { call, status, metadata, .. } => Some((*call, *status, *metadata)),
        _ => None,
    });
    let [(number, status, metadata)] = ended[..] else { panic!("{ended:?}") };
    assert_eq!((number, status), (call, Code::NotFound as u8));
    assert_eq!(world.bytes(&client, metadata), tail);
}

#[test]
fn d11_what_names_nothing_ends_its_call() {
    let mut world = World::new();
    let (mut client, mut server) = world.pair();
    let message = client.write(&world.message("greet.Request", &[]));
    let wrong: [fn(&mut Request); 6] = [
        |request| request.binding = 1,
        |request| request.method = 2,
        |request| request.partner = 9,
        |request| (request.is_stream, request.message) = (true, Contents::NONE),
        |request| request.message.offset = SEND_BYTES,
        |request| request.metadata = Contents { offset: 1 << 40, bytes: 8 },
    ];
    for change in wrong {
        let call = client.next_call();
        let mut request = Request { message, ..client.request(call, GREET) };
        change(&mut request);
        world.handle(&client, Descriptor::Request(request)).unwrap();
        world.run(&mut [&mut client, &mut server]);
        let ends = client.ends();
        assert_eq!(ends, [(call, Code::Internal as u8, true, Contents::NONE)], "{request:?}");
    }
    assert!(server.said.is_empty());
}

#[test]
fn calls_without_a_server_fail_and_have_not_run() {
    let mut world = World::new();
    let mut client = world.app("client");
    world.hub.target(client.number, "nobody").unwrap();
    let call = world.call(&mut client, "you");
    world.run(&mut [&mut client]);
    assert_eq!(client.ends(), [(call, Code::Unavailable as u8, true, Contents::NONE)]);
}

#[test]
fn one_name_has_one_server_until_it_goes() {
    let mut world = World::new();
    let (_, server) = world.pair();
    let other = world.app("other");
    assert!(matches!(world.hub.serve(other.number, "greeter"), Err(HubError::NameTaken(_))));
    world.hub.remove(server.number, NOW);
    assert!(world.hub.serve(other.number, "greeter").is_ok());
    assert!(matches!(world.hub.serve(server.number, "x"), Err(HubError::NoApplication(_))));
}

#[test]
fn an_application_that_goes_ends_its_calls_at_both_ends() {
    let mut world = World::new();
    let (mut client, mut server) = world.pair();
    let call = world.call(&mut client, "you");
    world.run(&mut [&mut client, &mut server]);
    world.hub.remove(server.number, NOW);
    world.run(&mut [&mut client]);
    assert_eq!(client.ends(), [(call, Code::Unavailable as u8, false, Contents::NONE)]);
    let (mut client, mut server) = world.pair();
    world.call(&mut client, "you");
    world.run(&mut [&mut client, &mut server]);
    world.hub.remove(client.number, NOW);
    world.run(&mut [&mut server]);
    let cancelled = server.take(|said| matches!(said, Descriptor::Cancel { .. }).then_some(()));
    assert_eq!(cancelled.len(), 1);
    // An answer to nobody is nothing, but its memory comes back.
    server.said.retain(|said| matches!(said, Descriptor::Request(_)));
    world.serve(&mut server);
    world.run(&mut [&mut server]);
    assert!(matches!(server.said[..], [Descriptor::Release(_)]), "{:?}", server.said);
}

#[test]
fn a_full_receive_heap_makes_messages_wait_and_loses_none() {
    let mut world = World::new();
    let client = &mut world.app("client");
    let server = &mut world.app_with("server", 2 * UNIT_BYTES, ApplicationLimits::default());
    world.hub.serve(server.number, "greeter").unwrap();
    world.hub.target(client.number, "greeter").unwrap();
    let blob = vec![7; 30_000];
    let message = world.message("greet.Request", &[("blob", Leaf::Bytes(&blob))]);
    let calls: Vec<_> = (0..9)
        .map(|_| {
            let (call, message) = (client.next_call(), client.write(&message));
            let request = Request { message, ..client.request(call, GREET) };
            world.handle(client, Descriptor::Request(request)).unwrap();
            call
        })
        .collect();
    let (mut served, mut rounds) = (0, 0);
    while served < 9 {
        world.run(&mut [client, server]);
        let now = world.serve(server).len();
        assert!(now > 0 && now <= 4, "four fit at a time: {now}");
        (served, rounds) = (served + now, rounds + 1);
    }
    world.run(&mut [client, server]);
    let ends: Vec<_> = client.ends().into_iter().map(|end| (end.0, end.1)).collect();
    assert_eq!(ends, calls.into_iter().map(|call| (call, 0)).collect::<Vec<_>>());
    assert!(rounds >= 3);
}

#[test]
fn a_server_that_takes_no_more_calls_refuses_them() {
    let mut world = World::new();
    let client = &mut world.app("client");
    let limits = ApplicationLimits { items_max: 4, ..ApplicationLimits::default() };
    let server = &mut world.app_with("server", SEND_BYTES, limits);
    world.hub.serve(server.number, "greeter").unwrap();
    world.hub.target(client.number, "greeter").unwrap();
    for _ in 0..6 {
        world.call(client, "you");
    }
    world.run(&mut [client, server]);
    let refused = client.ends();
    assert_eq!(refused.len(), 2);
    assert!(refused.iter().all(|end| (end.1, end.2) == (Code::ResourceExhausted as u8, true)));
    assert_eq!(world.serve(server).len(), 4);
    world.run(&mut [client, server]);
    assert_eq!(client.ends().len(), 4);
}

/// What is known of the way to a server is forgotten when that changes.
#[test]
fn calls_go_to_whoever_serves_the_name_when_they_begin() {
    let mut world = World::new();
    let (mut client, mut first) = world.pair();
    world.call(&mut client, "first");
    world.run(&mut [&mut client, &mut first]);
    assert_eq!(world.serve(&mut first), ["first"]);
    world.run(&mut [&mut client, &mut first]);
    assert_eq!(client.ends().len(), 1);
    world.hub.remove(first.number, NOW);
    let call = world.call(&mut client, "nobody");
    world.run(&mut [&mut client]);
    assert_eq!(client.ends(), [(call, Code::Unavailable as u8, true, Contents::NONE)]);
    let mut second = world.app("second");
    world.hub.serve(second.number, "greeter").unwrap();
    // The ways to two names differ, although their methods are the same.
    let mut other = world.app("other");
    world.hub.serve(other.number, "other").unwrap();
    let target = world.hub.target(client.number, "other").unwrap();
    for round in 0..3 {
        let name = format!("second {round}");
        world.call(&mut client, &name);
        let message = world.message("greet.Request", &[("name", Leaf::Text("other"))]);
        let message = client.write(&message);
        let call = client.next_call();
        let request = Request { message, partner: target.0, ..client.request(call, GREET) };
        world.handle(&client, Descriptor::Request(request)).unwrap();
        world.run(&mut [&mut client, &mut second, &mut other]);
        assert_eq!(world.serve(&mut second), [name]);
        assert_eq!(world.serve(&mut other), ["other"]);
        world.run(&mut [&mut client, &mut second, &mut other]);
        assert_eq!(client.ends().len(), 2);
    }
}
