//! Calls to and from other hosts. The test is the transport.

use petasos_abi::{CallNumber, Descriptor, Request};
use petasos_base::Time;
use petasos_buf::MsgBuf;
use petasos_call::{Code, HEAD_BYTES, Metadata, Status};
use petasos_engine::Policy;
use petasos_message::{Leaf, NativeMsg};
use petasos_service::{
    ApplicationLimits, Encoded, Host, Incoming, ListenerId, Outgoing, RemoteCall, RemoteEvent,
    RemoteItem, RemoteLimits, RemoteOutcome, SchemaLimits,
};
use std::sync::Arc;

use crate::support::*;

pub fn world() -> World {
    let mut world = World::new();
    world.hub.allow_remote(RemoteLimits::default());
    world
}

/// An application that calls a name which nobody of this host serves.
pub fn caller(world: &mut World) -> App {
    caller_with(world, ApplicationLimits::default())
}

pub fn caller_with(world: &mut World, limits: ApplicationLimits) -> App {
    let client = world.app_with("client", SEND_BYTES, limits);
    assert_eq!(world.hub.target(client.number, "elsewhere").unwrap().0, 0);
    client
}

pub fn begun(world: &mut World) -> Option<Box<Outgoing>> {
    match world.hub.poll_remote()? {
        RemoteEvent::Begin(begun) => Some(begun),
        other => panic!("{other:?}"),
    }
}

pub fn name_of(world: &World, message: &NativeMsg, field: &str) -> String {
    let path = petasos_message::FieldPath::new(&world.types, message.id(), field).unwrap();
    match message.get(&path) {
        Some(petasos_message::Value::String(text)) => text.to_owned(),
        _ => panic!("no text"),
    }
}

pub fn encoded(world: &World, name: &str, field: &str, text: &str) -> Vec<u8> {
    let message = world.message(name, &[(field, Leaf::Text(text))]);
    message.to_protobuf(0).unwrap().into_buf().as_slice().to_vec()
}

pub fn success(result: &[u8]) -> RemoteOutcome<'_> {
    let (metadata, trailers) = Default::default();
    RemoteOutcome {
        result: Ok(Some(Encoded::Protobuf(result))),
        has_not_run: false,
        metadata,
        trailers,
    }
}

/// An image as it is received, behind the head of a call.
pub fn native(image: &[u8]) -> Encoded<'static> {
    let mut buf = MsgBuf::new(HEAD_BYTES + image.len());
    buf.as_mut_slice()[HEAD_BYTES..].copy_from_slice(image);
    Encoded::Native(buf, HEAD_BYTES..HEAD_BYTES + image.len())
}

fn failure(status: Status, has_not_run: bool) -> RemoteOutcome<'static> {
    let (metadata, trailers) = Default::default();
    RemoteOutcome { result: Err(status), has_not_run, metadata, trailers }
}

pub fn incoming<'a>(method: &'a str, message: Option<&'a [u8]>) -> Incoming<'a> {
    Incoming {
        listener: ListenerId::default(),
        service: "greet.Greeter",
        method,
        message,
        metadata: Metadata::new(),
        deadline: Time::NEVER,
        peer: "192.0.2.1",
        identity: None,
        is_sealed: false,
    }
}

pub fn policy(kind: &str, configuration: &str) -> Arc<dyn Policy> {
    Arc::from(petasos_engines::find(kind).unwrap().make(configuration, None).unwrap())
}

pub const NO_EVE: &str = r#"{"default": "allow", "rules": [{
    "name": "no eve", "action": "deny", "methods": ["greet.Greeter/Greet"],
    "fields": [{"path": "name", "is": {"equals": "eve"}}]}]}"#;

#[test]
fn a_call_that_nobody_here_serves_leaves_behind_the_policies_and_is_answered() {
    let mut world = world();
    let mut client = caller(&mut world);
    let application = world.hub.application(client.number).unwrap();
    application.attach(0, policy("access", NO_EVE)).unwrap();
    world.call(&mut client, "eve");
    let call = world.call(&mut client, "ann");
    world.run(&mut [&mut client]);
    let ends = client.ends();
    assert_eq!((ends.len(), ends[0].1, ends[0].2), (1, Code::PermissionDenied as u8, true));
    let begun = begun(&mut world).expect("ann's");
    assert_eq!((&*begun.target, &*begun.caller), ("elsewhere", "client"));
    assert_eq!(&*begun.method().name, "greet.Greeter/Greet");
    assert_eq!(name_of(&world, begun.message.as_ref().unwrap(), "name"), "ann");
    assert!(world.hub.poll_remote().is_none(), "nothing of eve's left");
    let response = encoded(&world, "greet.Response", "text", "from afar");
    world.hub.remote_end(begun.call, success(&response), NOW);
    // What is said of a call that is done does nothing.
    world.hub.remote_end(begun.call, success(&response), NOW);
    world.run(&mut [&mut client]);
    let ends = client.ends();
    assert_eq!((ends.len(), ends[0].0, ends[0].1), (1, call, 0));
    assert_eq!(world.text(&client, "greet.Response", ends[0].3, "text"), "from afar");
}

#[test]
fn adr22_what_is_ours_has_not_run_and_what_the_transport_has_it_says() {
    let mut world = world();
    let mut client = caller(&mut world);
    let calls: Vec<CallNumber> = (0..3).map(|_| world.call(&mut client, "ann")).collect();
    world.run(&mut [&mut client]);
    begun(&mut world).unwrap();
    let second = begun(&mut world).unwrap();
    world.hub.remote_end(second.call, failure(Status::unavailable("no session"), true), NOW);
    world.hub.fail_remote(&Status::unavailable("the transport has gone"), NOW);
    world.run(&mut [&mut client]);
    let mut ends: Vec<_> = client.ends().into_iter().map(|end| (end.0, end.1, end.2)).collect();
    ends.sort_by_key(|end| end.0.get());
    let end = |call, has_not_run| (calls[call], Code::Unavailable as u8, has_not_run);
    assert_eq!(ends, [end(0, false), end(1, true), end(2, true)]);
    // Later calls leave again.

    world.call(&mut client, "bob");
    world.run(&mut [&mut client]);
    assert!(begun(&mut world).is_some());
}

#[test]
fn what_cannot_be_read_as_a_response_ends_the_call() {
    let mut world = world();
    let limits = ApplicationLimits { message_bytes_max: 1000, ..ApplicationLimits::default() };
    let mut client = caller_with(&mut world, limits);
    let long = encoded(&world, "greet.Response", "text", &"x".repeat(1000));
    for (bytes, code) in [(&[0xff][..], Code::Internal), (&long, Code::ResourceExhausted)] {
        world.call(&mut client, "ann");
        world.run(&mut [&mut client]);
        let begun = begun(&mut world).unwrap();
        world.hub.remote_end(begun.call, success(bytes), NOW);
        world.run(&mut [&mut client]);
        let ends = client.ends();
        assert_eq!((ends.len(), ends[0].1, ends[0].2), (1, code as u8, false));
    }
}

/// A stream that has left.
pub fn stream(world: &mut World, client: &mut App) -> (CallNumber, RemoteCall) {
    let near = client.next_call();
    let request = client.request(near, CHAT);
    world.handle(client, Descriptor::Request(request)).unwrap();
    world.run(&mut [client]);
    let begun = std::iter::from_fn(|| world.hub.poll_remote()).find_map(|event| match event {
        RemoteEvent::Begin(begun) => Some(begun.call),
        _ => None,
    });
    (near, begun.unwrap())
}

pub fn say(world: &mut World, client: &mut App, call: CallNumber, text: &str) {
    let message = world.message("greet.Request", &[("name", Leaf::Text(text))]);
    let message = client.write(&message);
    world.handle(client, Descriptor::Message { call, message }).unwrap();
}

#[test]
fn streams_go_both_ways_in_order_and_are_announced_once() {
    let mut world = world();
    let mut client = caller(&mut world);
    let (near, call) = stream(&mut world, &mut client);
    for text in ["a", "b"] {
        say(&mut world, &mut client, near, text);
    }
    world.handle(&client, Descriptor::Close { call: near }).unwrap();
    world.run(&mut [&mut client]);
    assert!(matches!(world.hub.poll_remote(), Some(RemoteEvent::Ready(of)) if of == call));
    assert!(world.hub.poll_remote().is_none(), "it was told");
    for text in ["a", "b"] {
        let item = world.hub.next_remote_item(call);
        let Some(RemoteItem::Message(message)) = item else { panic!("{item:?}") };
        assert_eq!(name_of(&world, &message, "name"), text);
    }
    assert!(matches!(world.hub.next_remote_item(call), Some(RemoteItem::Close)));
    assert!(world.hub.next_remote_item(call).is_none());
    let mut head = Metadata::new();
    head.append("to", "you").unwrap();
    world.hub.remote_head(call, head, NOW);
    let reply = encoded(&world, "greet.Response", "text", "x");
    world.hub.remote_message(call, &reply, NOW);
    world.hub.remote_end(call, success(&[]), NOW);
    world.run(&mut [&mut client]);
    let kinds: Vec<String> = client.said.iter().map(|said| format!("{:?}", said.kind())).collect();
    let kinds: Vec<&str> =
        kinds.iter().map(String::as_str).filter(|kind| *kind != "Release").collect();
    assert_eq!(kinds, ["Head", "Message", "End"]);
}

#[test]
fn a_caller_that_gives_up_or_goes_is_told_to_the_transport_once_it_has_the_call() {
    let mut world = world();
    let mut client = caller(&mut world);
    let (near, call) = stream(&mut world, &mut client);
    world.handle(&client, Descriptor::Cancel { call: near }).unwrap();
    // Before the transport has looked: it never hears of this one.
    let ours = world.call(&mut client, "ann");
    world.turn(NOW);
    world.handle(&client, Descriptor::Cancel { call: ours }).unwrap();
    world.run(&mut [&mut client]);
    assert!(matches!(world.hub.poll_remote(), Some(RemoteEvent::Cancel(of)) if of == call));
    assert!(world.hub.poll_remote().is_none());
    let (_, call) = stream(&mut world, &mut client);
    world.hub.remove(client.number, NOW);
    assert!(matches!(world.hub.poll_remote(), Some(RemoteEvent::Cancel(of)) if of == call));
    assert!(world.hub.next_remote_item(call).is_none());
}

#[test]
fn a_message_that_cannot_be_read_ends_the_stream_at_both_ends() {
    let mut world = world();
    let mut client = caller(&mut world);
    let (near, call) = stream(&mut world, &mut client);
    world.hub.remote_message(call, &[0xff], NOW);
    world.run(&mut [&mut client]);
    let ends = client.ends();
    assert_eq!((ends.len(), ends[0].0, ends[0].1), (1, near, Code::Internal as u8));
    assert!(matches!(world.hub.poll_remote(), Some(RemoteEvent::Cancel(of)) if of == call));
}

#[test]
fn calls_beyond_this_host_are_bounded_in_number() {
    let mut world = World::new();
    let limits = RemoteLimits { calls_max: 2, ..RemoteLimits::default() };
    world.hub.allow_remote(limits);
    let mut client = caller(&mut world);
    for _ in 0..3 {
        world.call(&mut client, "ann");
    }
    world.run(&mut [&mut client]);
    let ends = client.ends();
    assert_eq!((ends.len(), ends[0].1, ends[0].2), (1, Code::ResourceExhausted as u8, true));
    // Calls that come and go while the transport does not look leave little behind.
    for _ in 0..100 {
        let call = client.next_call();
        let message = client.write(&world.message("greet.Request", &[]));
        let request = Request { message, ..client.request(call, GREET) };
        world.handle(&client, Descriptor::Request(request)).unwrap();
        world.turn(NOW);
        world.handle(&client, Descriptor::Cancel { call }).unwrap();
        world.run(&mut [&mut client]);
    }
    assert!(begun(&mut world).is_some() && begun(&mut world).is_some());
    assert!(world.hub.poll_remote().is_none());
}

#[test]
fn requests_that_are_with_the_transport_are_bounded_in_bytes() {
    let mut world = world();
    let limits = ApplicationLimits { held_bytes_max: 5000, ..ApplicationLimits::default() };
    let mut client = caller_with(&mut world, limits);
    let name = "x".repeat(3000);
    let mut begin = |world: &mut World| {
        let call = world.call(&mut client, &name);
        world.run(&mut [&mut client]);
        let refused = client.ends().iter().any(|end| end.0 == call);
        if refused { None } else { Some(begun(world).unwrap().call) }
    };
    let calls = [begin(&mut world).unwrap(), begin(&mut world).unwrap()];
    assert!(begin(&mut world).is_none(), "6 KB are with the transport");
    world.hub.remote_end(calls[0], failure(Status::aborted("enough"), false), NOW);
    assert!(begin(&mut world).is_some() && begin(&mut world).is_none());
    world.hub.fail_remote(&Status::unavailable("it is over"), NOW);
    assert!(begin(&mut world).is_some());
}

#[test]
fn peers_are_told_apart_up_to_a_number_and_have_names() {
    let host = Host::new(SchemaLimits::default());
    let mut world = World::on(&host);
    world.hub.allow_remote(RemoteLimits { peers_max: 2, ..RemoteLimits::default() });
    let mut server = server(&mut world);
    let mut partners = Vec::new();
    for peer in ["a", "b", "a", "c", "d"] {
        let incoming = Incoming { peer, ..incoming("Greet", Some(&[])) };
        world.hub.begin_remote(incoming, NOW).unwrap();
        world.run(&mut [&mut server]);
        partners.extend(server.take(|said| match said {
            Descriptor::Request(request) => Some(request.partner),
            _ => None,
        }));
    }
    let [a, b, again, c, d] = partners[..] else { panic!("{partners:?}") };
    assert!(a == again && a != b && c == d && c != a && c != b, "{partners:?}");
    let names = host.policy_names();
    assert_eq!([a, b, c].map(|number| names.peer(number)), [Some("a"), Some("b"), None]);
}

/// An application that serves, and so can be called from elsewhere.
pub fn server(world: &mut World) -> App {
    let server = world.app("server");
    assert!(world.hub.exports(ListenerId::default()).is_empty(), "it serves nothing yet");
    world.hub.serve(server.number, "greeter").unwrap();
    assert_eq!(world.hub.exports(ListenerId::default()).len(), 1);
    server
}

#[test]
fn a_call_that_comes_in_passes_the_callees_policies_and_is_answered() {
    let mut world = world();
    let mut server = server(&mut world);
    let application = world.hub.application(server.number).unwrap();
    application.attach(0, policy("access", NO_EVE)).unwrap();
    let calls: Vec<RemoteCall> = ["eve", "ann"]
        .map(|name| {
            let message = encoded(&world, "greet.Request", "name", name);
            world.hub.begin_remote(incoming("Greet", Some(&message)), NOW).unwrap()
        })
        .into();
    world.run(&mut [&mut server]);
    assert_eq!(world.serve(&mut server), ["ann"]);
    world.run(&mut [&mut server]);
    for (call, code) in calls.into_iter().zip([Some(Code::PermissionDenied), None]) {
        let item = world.hub.next_remote_item(call);
        let Some(RemoteItem::End(end)) = item else { panic!("{item:?}") };
        assert_eq!(end.status.map(|status| status.code()), code);
        assert_eq!(end.has_not_run, code.is_some());
        if let Some(message) = &end.message {
            assert_eq!(name_of(&world, message, "text"), "hello, ann");
        }
        assert!(world.hub.next_remote_item(call).is_none(), "it is done");
    }
}

#[test]
fn what_nobody_serves_or_can_be_read_does_not_begin() {
    let mut world = world();
    let code = |world: &mut World, incoming: Incoming<'_>| {
        world.hub.begin_remote(incoming, NOW).unwrap_err().code()
    };
    assert_eq!(code(&mut world, incoming("Greet", Some(&[]))), Code::Unavailable);
    let mut server = server(&mut world);
    let other = Incoming { service: "greet.Other", ..incoming("Greet", Some(&[])) };
    assert_eq!(code(&mut world, other), Code::Unavailable);
    assert_eq!(code(&mut world, incoming("Nothing", Some(&[]))), Code::Unimplemented);
    assert_eq!(code(&mut world, incoming("", Some(&[]))), Code::Unimplemented);
    assert_eq!(code(&mut world, incoming("Greet", None)), Code::Unimplemented);
    assert_eq!(code(&mut world, incoming("Chat", Some(&[]))), Code::Unimplemented);
    assert_eq!(code(&mut world, incoming("Greet", Some(&[0xff]))), Code::Internal);
    world.run(&mut [&mut server]);
    assert!(server.said.is_empty());
    world.hub.remove(server.number, NOW);
    assert_eq!(code(&mut world, incoming("Greet", Some(&[]))), Code::Unavailable);
}

#[test]
fn a_stream_that_comes_in_ends_with_its_server_or_is_cancelled_by_its_caller() {
    let mut world = world();
    let mut server = server(&mut world);
    let call = world.hub.begin_remote(incoming("Chat", None), NOW).unwrap();
    let message = encoded(&world, "greet.Request", "name", "ann");
    world.hub.remote_message(call, &message, NOW);
    world.hub.remote_close(call, NOW);
    world.run(&mut [&mut server]);
    let kinds: Vec<String> = server.said.iter().map(|said| format!("{:?}", said.kind())).collect();
    assert_eq!(kinds, ["Request", "Message", "Close"]);
    let other = world.hub.begin_remote(incoming("Chat", None), NOW).unwrap();
    world.run(&mut [&mut server]);
    world.hub.remote_cancel(other, NOW);
    world.run(&mut [&mut server]);
    let is_cancel = |said: &Descriptor| matches!(said, Descriptor::Cancel { .. });
    assert_eq!(server.said.iter().filter(|said| is_cancel(said)).count(), 1);
    world.hub.remove(server.number, NOW);
    let item = world.hub.next_remote_item(call);
    let Some(RemoteItem::End(end)) = item else { panic!("{item:?}") };
    assert_eq!(end.status.unwrap().code(), Code::Unavailable);
    assert!(!end.has_not_run);
    assert!(world.hub.next_remote_item(other).is_none());
}

#[test]
fn an_application_that_takes_nothing_holds_its_callers_up() {
    let mut world = world();
    let limits = ApplicationLimits { held_bytes_max: 5000, ..ApplicationLimits::default() };
    // Without memory to receive in, what comes for it stays.
    let server = world.app_with("server", 1 << 16, limits);
    world.hub.serve(server.number, "greeter").unwrap();
    let call = world.hub.begin_remote(incoming("Chat", None), NOW).unwrap();
    let message = encoded(&world, "greet.Request", "name", &"x".repeat(4000));
    let mut sent = 0;
    while world.hub.has_room_for_remote(call) {
        world.hub.remote_message(call, &message, NOW);
        world.turn(NOW);
        sent += 1;
        assert!(sent < 100, "64 KiB and 5000 bytes are full by then");
    }
    assert!(sent > 10);
    let refused = world.hub.begin_remote(incoming("Greet", Some(&[])), NOW).unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted);
}
