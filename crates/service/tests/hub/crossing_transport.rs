//! Calls to and from other hosts of applications that are at another hub than the transport.

use petasos_abi::{CallNumber, Contents, Descriptor};
use petasos_base::Time;
use petasos_call::{Code, Metadata, Status};
use petasos_message::Leaf;
use petasos_service::{
    ApplicationLimits, Outgoing, RemoteCall, RemoteEvent, RemoteItem, RemoteLimits, Way,
};

use crate::crossing::Hubs;
use crate::remote::{begun, encoded, incoming, name_of, success};
use crate::support::*;

/// Hub 0 has the transport.
fn hubs() -> Hubs {
    let mut hubs = Hubs::new(2);
    hubs.worlds[0].hub.allow_remote(RemoteLimits::default());
    hubs
}

fn caller(hubs: &mut Hubs) -> App {
    let client = hubs.worlds[1].app("client");
    hubs.worlds[1].hub.target(client.number, "elsewhere").unwrap();
    client
}

fn left(hubs: &mut Hubs, client: &mut App) -> Box<Outgoing> {
    hubs.run(&mut [(1, client)]);
    begun(&mut hubs.worlds[0]).expect("it has left")
}

#[test]
fn a_call_leaves_through_the_hub_of_the_transport_and_is_answered() {
    let mut hubs = hubs();
    let mut client = caller(&mut hubs);
    let call = hubs.worlds[1].call(&mut client, "ann");
    let begun = left(&mut hubs, &mut client);
    assert_eq!((&*begun.target, &*begun.caller), ("elsewhere", "client"));
    assert_eq!(name_of(&hubs.worlds[0], begun.message.as_ref().unwrap(), "name"), "ann");
    // The server takes no images: it is sent again.
    let image = begun.message.as_ref().unwrap().image().to_vec();
    let mut metadata = Metadata::new();
    metadata.append("to", "you").unwrap();
    let again = hubs.worlds[0].hub.remote_returned(begun.call, &image, metadata).unwrap();
    assert_eq!(
        (again.call, &*again.target, again.deadline),
        (begun.call, "elsewhere", Time::NEVER)
    );
    assert_eq!(again.metadata.get("to"), Some("you"));
    assert_eq!(name_of(&hubs.worlds[0], again.message.as_ref().unwrap(), "name"), "ann");
    let response = encoded(&hubs.worlds[0], "greet.Response", "text", "from afar");
    hubs.worlds[0].hub.remote_end(begun.call, success(&response), NOW);
    hubs.run(&mut [(1, &mut client)]);
    let ends = client.ends();
    assert_eq!((ends.len(), ends[0].0, ends[0].1), (1, call, 0));
    assert_eq!(hubs.worlds[1].text(&client, "greet.Response", ends[0].3, "text"), "from afar");
    let application = hubs.worlds[1].hub.application(client.number).unwrap();
    assert!(application.stats().rows().iter().any(|row| row.way == Way::ToRemote));
    hubs.assert_idle();
}

#[test]
fn adr22_what_the_transport_has_not_taken_has_not_run() {
    let mut hubs = hubs();
    let mut client = caller(&mut hubs);
    for _ in 0..2 {
        hubs.worlds[1].call(&mut client, "ann");
    }
    left(&mut hubs, &mut client);
    hubs.worlds[0].hub.fail_remote(&Status::unavailable("the transport has gone"), NOW);
    hubs.run(&mut [(1, &mut client)]);
    let mut not_run: Vec<bool> = client.ends().iter().map(|end| end.2).collect();
    not_run.sort_unstable();
    assert_eq!(not_run, [false, true]);
    hubs.assert_idle();
}

#[test]
fn a_response_that_is_too_long_or_cannot_be_read_ends_the_call() {
    let mut hubs = hubs();
    let limits = ApplicationLimits { message_bytes_max: 1000, ..ApplicationLimits::default() };
    let mut client = hubs.worlds[1].app_with("client", SEND_BYTES, limits);
    hubs.worlds[1].hub.target(client.number, "elsewhere").unwrap();
    let long = encoded(&hubs.worlds[0], "greet.Response", "text", &"x".repeat(1000));
    for (bytes, code) in [(&[0xff][..], Code::Internal), (&long, Code::ResourceExhausted)] {
        hubs.worlds[1].call(&mut client, "ann");
        let begun = left(&mut hubs, &mut client);
        hubs.worlds[0].hub.remote_end(begun.call, success(bytes), NOW);
        hubs.run(&mut [(1, &mut client)]);
        let ends = client.ends();
        assert_eq!((ends.len(), ends[0].1, ends[0].2), (1, code as u8, false));
    }
    hubs.assert_idle();
}

fn server(hubs: &mut Hubs, limits: ApplicationLimits) -> App {
    let server = hubs.worlds[1].app_with("server", SEND_BYTES, limits);
    hubs.worlds[1].hub.serve(server.number, "greeter").unwrap();
    server
}

/// What the transport is told of a call.
fn told(hubs: &mut Hubs, call: RemoteCall) -> Vec<RemoteItem> {
    std::iter::from_fn(|| hubs.worlds[0].hub.next_remote_item(call)).collect()
}

#[test]
fn a_call_comes_in_through_the_hub_of_the_transport_and_is_answered() {
    let mut hubs = hubs();
    let mut server = server(&mut hubs, ApplicationLimits::default());
    let request = encoded(&hubs.worlds[0], "greet.Request", "name", "ann");
    let call = hubs.worlds[0].hub.begin_remote(incoming("Greet", Some(&request)), NOW).unwrap();
    hubs.run(&mut [(1, &mut server)]);
    assert_eq!(hubs.worlds[1].serve(&mut server), ["ann"]);
    hubs.run(&mut [(1, &mut server)]);
    let ready = hubs.worlds[0].hub.poll_remote();
    assert!(matches!(ready, Some(RemoteEvent::Ready(of)) if of == call));
    let told = told(&mut hubs, call);
    let [RemoteItem::End(end)] = &told[..] else { panic!("{told:?}") };
    let message = end.message.as_ref().unwrap();
    assert_eq!(name_of(&hubs.worlds[0], message, "text"), "hello, ann");
    let application = hubs.worlds[1].hub.application(server.number).unwrap();
    assert!(application.stats().rows().iter().any(|row| row.way == Way::FromRemote));
    hubs.assert_idle();
}

#[test]
fn what_comes_in_is_read_before_it_goes_on() {
    let mut hubs = hubs();
    let limits = ApplicationLimits { message_bytes_max: 1000, ..ApplicationLimits::default() };
    let mut server = server(&mut hubs, limits);
    let long = encoded(&hubs.worlds[0], "greet.Request", "name", &"x".repeat(1000));
    for (bytes, code) in [(&[0xff][..], Code::Internal), (&long, Code::ResourceExhausted)] {
        let begun = hubs.worlds[0].hub.begin_remote(incoming("Greet", Some(bytes)), NOW);
        assert_eq!(begun.unwrap_err().code(), code);
    }
    let (call, far) = stream(&mut hubs, &mut server);
    hubs.worlds[0].hub.remote_message(call, &[0xff], NOW);
    hubs.run(&mut [(1, &mut server)]);
    let told = told(&mut hubs, call);
    let [RemoteItem::End(end)] = &told[..] else { panic!("{told:?}") };
    assert_eq!(end.status.as_ref().unwrap().code(), Code::Internal);
    let cancels = server.take(|said| match said {
        Descriptor::Cancel { call } => Some(*call),
        _ => None,
    });
    assert_eq!(cancels, [far]);
    hubs.assert_idle();
}

/// A stream of another host, by its name at the transport and its number at the server.
fn stream(hubs: &mut Hubs, server: &mut App) -> (RemoteCall, CallNumber) {
    let call = hubs.worlds[0].hub.begin_remote(incoming("Chat", None), NOW).unwrap();
    hubs.run(&mut [(1, server)]);
    let told = server.take(|said| match said {
        Descriptor::Request(request) => Some(request.call),
        _ => None,
    });
    (call, told[0])
}

#[test]
fn streams_pass_the_hub_of_the_transport_both_ways_in_order() {
    let mut hubs = hubs();
    let mut server = server(&mut hubs, ApplicationLimits::default());
    let (call, far) = stream(&mut hubs, &mut server);
    for text in ["a", "b"] {
        let message = encoded(&hubs.worlds[0], "greet.Request", "name", text);
        hubs.worlds[0].hub.remote_message(call, &message, NOW);
    }
    hubs.worlds[0].hub.remote_close(call, NOW);
    let reply = hubs.worlds[1].message("greet.Response", &[("text", Leaf::Text("x"))]);
    let message = server.write(&reply);
    let metadata = Contents::NONE;
    hubs.worlds[1].handle(&server, Descriptor::Head { call: far, metadata }).unwrap();
    hubs.worlds[1].handle(&server, Descriptor::Message { call: far, message }).unwrap();
    let (message, metadata) = (Contents::NONE, Contents::NONE);
    let end = Descriptor::End { call: far, status: 5, has_not_run: false, message, metadata };
    hubs.run(&mut [(1, &mut server)]);
    let said = server.take(|said| match said {
        Descriptor::Message { message, .. } => Some(*message),
        Descriptor::Close { .. } => Some(Contents::NONE),
        _ => None,
    });
    let text = |at: usize| hubs.worlds[1].text(&server, "greet.Request", said[at], "name");
    assert_eq!([text(0), text(1)], ["a", "b"]);
    assert_eq!((said.len(), said[2]), (3, Contents::NONE));
    hubs.worlds[1].handle(&server, end).unwrap();
    hubs.run(&mut [(1, &mut server)]);
    let told = told(&mut hubs, call);
    let [RemoteItem::Head(_), RemoteItem::Message(message), RemoteItem::End(end)] = &told[..]
    else {
        panic!("{told:?}")
    };
    assert_eq!(name_of(&hubs.worlds[0], message, "text"), "x");
    assert_eq!(end.status.as_ref().unwrap().code(), Code::NotFound);
    hubs.assert_idle();
}

#[test]
fn a_server_that_does_not_read_holds_back_the_transport() {
    let mut hubs = hubs();
    let mut server = server(&mut hubs, limits_of_three());
    let (call, far) = stream(&mut hubs, &mut server);
    let message = encoded(&hubs.worlds[0], "greet.Request", "name", &"x".repeat(4000));
    let mut sent = 0;
    while hubs.worlds[0].hub.has_room_for_remote(call) {
        hubs.worlds[0].hub.remote_message(call, &message, NOW);
        sent += 1;
        hubs.run(&mut [(1, &mut server)]);
        assert!(sent < 1000, "nothing holds it back");
    }
    assert!(sent < 64, "{sent} messages of 4000 bytes were taken");
    // There is room again when the server has read, which is told once.
    hubs.worlds[1].handle(&server, Descriptor::Grant { call: far, bytes: 1 << 20 }).unwrap();
    hubs.run(&mut [(1, &mut server)]);
    let room = hubs.worlds[0].hub.poll_remote();
    assert!(matches!(room, Some(RemoteEvent::Room(of)) if of == call), "{room:?}");
    assert!(hubs.worlds[0].hub.has_room_for_remote(call));
    hubs.worlds[0].hub.remote_cancel(call, NOW);
    hubs.run(&mut [(1, &mut server)]);
    assert_eq!(
        server.take(|said| matches!(said, Descriptor::Cancel { .. }).then_some(())).len(),
        1
    );
    hubs.assert_idle();
}

#[test]
fn without_a_transport_no_call_leaves() {
    let mut hubs = Hubs::new(2);
    let mut client = caller(&mut hubs);
    hubs.worlds[1].call(&mut client, "ann");
    hubs.run(&mut [(1, &mut client)]);
    let ends = client.ends();
    assert_eq!((ends.len(), ends[0].1, ends[0].2), (1, Code::Unavailable as u8, true));
}

#[test]
fn what_waits_of_an_application_at_the_hub_of_the_transport_is_bounded_and_goes_on() {
    const STREAMS: usize = 600;
    let mut hubs = hubs();
    let mut client = caller(&mut hubs);
    let text = "x".repeat(60_000);
    let message = hubs.worlds[1].message("greet.Request", &[("name", Leaf::Text(&text))]);
    let mut calls = Vec::new();
    for _ in 0..STREAMS {
        let call = client.next_call();
        let request = client.request(call, CHAT);
        hubs.worlds[1].handle(&client, Descriptor::Request(request)).unwrap();
        let message = client.write(&message);
        hubs.worlds[1].handle(&client, Descriptor::Message { call, message }).unwrap();
        hubs.run(&mut [(1, &mut client)]);
        while let Some(event) = hubs.worlds[0].hub.poll_remote() {
            if let RemoteEvent::Begin(begun) = event {
                calls.push(begun.call);
            }
        }
    }
    assert_eq!(calls.len(), STREAMS);
    // The transport takes one message after the other: 32 MiB were there at first.
    let mut at_once = 0;
    for call in &calls {
        at_once += usize::from(hubs.worlds[0].hub.next_remote_item(*call).is_some());
    }
    assert!(at_once < STREAMS, "all of them waited at the transport's hub");
    assert!(at_once > STREAMS / 2, "{at_once}");
    let mut taken = at_once;
    for _ in 0..4 {
        hubs.run(&mut [(1, &mut client)]);
        while hubs.worlds[0].hub.poll_remote().is_some() {}
        for call in &calls {
            taken += usize::from(hubs.worlds[0].hub.next_remote_item(*call).is_some());
        }
    }
    assert_eq!(taken, STREAMS, "those that waited elsewhere came");
    assert!(client.ends().is_empty(), "and no stream was ended for it");
}
