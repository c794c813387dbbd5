//! Streams between hosts that one end does not read (D8).

use petasos_abi::{Contents, Descriptor, Request};
use petasos_message::Leaf;
use petasos_service::{Incoming, RemoteEvent, RemoteItem};

use crate::remote::{begun, caller_with, encoded, incoming, world};
use crate::support::*;

#[test]
fn d8_an_application_may_send_more_as_the_transport_takes_its_messages() {
    let mut world = world();
    let limits = limits_of_three();
    let bytes = (limits.grant_bytes + 1) / 3;
    let mut client = caller_with(&mut world, limits);
    let call = client.next_call();
    let request = client.request(call, CHAT);
    world.handle(&client, Descriptor::Request(request)).unwrap();
    world.run(&mut [&mut client]);
    let out = begun(&mut world).unwrap().call;
    for text in ["a", "b", "c"] {
        let message = world.message("greet.Request", &[("name", Leaf::Text(text))]);
        let message = client.write(&message);
        world.handle(&client, Descriptor::Message { call, message }).unwrap();
    }
    world.run(&mut [&mut client]);
    assert!(client.grants().is_empty(), "all of it is at this host");
    assert!(matches!(world.hub.poll_remote(), Some(RemoteEvent::Ready(ready)) if ready == out));
    for grants in [vec![], vec![(call, 2 * bytes)], vec![]] {
        let item = world.hub.next_remote_item(out);
        assert!(matches!(item, Some(RemoteItem::Message(_))), "{item:?}");
        world.run(&mut [&mut client]);
        assert_eq!(client.grants(), grants);
    }
}

#[test]
fn d8_another_host_waits_with_what_an_application_does_not_take() {
    let mut world = world();
    let limits = limits_of_three();
    let mut server = world.app_with("server", SEND_BYTES, limits);
    world.hub.serve(server.number, "greeter").unwrap();
    let [slow, fast] = [(); 2].map(|()| {
        let call = world.hub.begin_remote(incoming("Chat", None), NOW).unwrap();
        world.run(&mut [&mut server]);
        call
    });
    let message = encoded(&world, "greet.Request", "name", "a");
    for _ in 0..4 {
        assert!(world.hub.has_room_for_remote(slow));
        world.hub.remote_message(slow, &message, NOW);
        world.run(&mut [&mut server]);
    }
    assert!(!world.hub.has_room_for_remote(slow), "the fourth message waits");
    assert!(world.hub.has_room_for_remote(fast));
    let request = encoded(&world, "greet.Request", "name", "you");
    let unary = Incoming { message: Some(&request), ..incoming("Greet", None) };
    world.hub.begin_remote(unary, NOW).unwrap();
    world.hub.remote_message(fast, &message, NOW);
    world.run(&mut [&mut server]);
    let calls = server.take(|said| match said {
        Descriptor::Request(Request { call, is_stream: true, .. }) => Some(*call),
        _ => None,
    });
    let count = |server: &mut App, of| {
        let messages = server.take(|said| match said {
            Descriptor::Message { call, .. } if *call == of => Some(()),
            _ => None,
        });
        messages.len()
    };
    assert_eq!((count(&mut server, calls[0]), count(&mut server, calls[1])), (3, 1));
    assert_eq!(world.serve(&mut server), ["you"]);
    let grant = Descriptor::Grant { call: calls[0], bytes: limits.grant_bytes };
    world.handle(&server, grant).unwrap();
    world.run(&mut [&mut server]);
    assert_eq!(count(&mut server, calls[0]), 1);
    assert!(world.hub.has_room_for_remote(slow));
    // One that is given up leaves nothing behind.
    (0..4).for_each(|_| world.hub.remote_message(slow, &message, NOW));
    world.hub.remote_cancel(slow, NOW);
    world.run(&mut [&mut server]);
    let (call, status, has_not_run) = (calls[0], 0, false);
    let (message, metadata) = (Contents::NONE, Contents::NONE);
    let end = Descriptor::End { call, status, has_not_run, message, metadata };
    world.handle(&server, end).unwrap();
    world.run(&mut [&mut server]);
    let datapath = world.hub.application(server.number).unwrap().datapath();
    assert_eq!(datapath.counts().queued, 0);
}
