//! Copies of requests for another server (E2).

use petasos_abi::{CallNumber, Contents, Descriptor};
use petasos_base::Time;
use petasos_call::{Code, Metadata, Status};
use petasos_service::{CopyCounts, RemoteEvent, RemoteLimits, RemoteOutcome};

use crate::crossing::Hubs;
use crate::remote::{self, NO_EVE, name_of, policy};
use crate::support::*;

const ALL: &str = r#"{"to": "shadow", "share": 1}"#;

/// A world with a client, whose requests are copied, and its server.
fn copying(world: &mut World) -> (App, App) {
    let (client, server) = world.pair();
    world.hub.application(client.number).unwrap().attach(0, policy("mirror", ALL)).unwrap();
    (client, server)
}

fn shadow(world: &mut World) -> App {
    let shadow = world.app("shadow");
    world.hub.serve(shadow.number, "shadow").unwrap();
    shadow
}

/// The client was answered once, by its server.
fn is_answered(world: &World, client: &mut App, call: CallNumber) {
    let [(number, 0, false, message)] = client.ends()[..] else { panic!("{:?}", client.said) };
    assert_eq!(number, call);
    assert_eq!(world.text(client, "greet.Response", message, "text"), "hello, you");
    assert!(client.said.iter().all(|said| matches!(said, Descriptor::Release(_))));
}

fn counts(sent: u64, dropped: u64) -> CopyCounts {
    CopyCounts { sent, dropped }
}

#[test]
fn e2_a_copy_goes_to_another_server_and_its_answer_to_nobody() {
    let mut world = remote::world();
    let (mut client, mut server) = copying(&mut world);
    let mut shadow = shadow(&mut world);
    let call = world.call(&mut client, "you");
    world.run(&mut [&mut client, &mut server, &mut shadow]);
    assert_eq!(world.serve(&mut shadow), ["you"]);
    world.run(&mut [&mut client, &mut server, &mut shadow]);
    assert!(client.ends().is_empty());
    assert_eq!(world.serve(&mut server), ["you"]);
    world.run(&mut [&mut client, &mut server, &mut shadow]);
    is_answered(&world, &mut client, call);
    assert_eq!((world.hub.remote_calls(), world.hub.copy_counts()), (0, counts(1, 0)));
    // What it answered with is its own again.
    assert!(matches!(shadow.said[..], [Descriptor::Release(_)]), "{:?}", shadow.said);
}

#[test]
fn a_copy_passes_the_policies_of_its_server() {
    let mut world = remote::world();
    let (mut client, mut server) = copying(&mut world);
    let mut shadow = shadow(&mut world);
    world.hub.application(shadow.number).unwrap().attach(0, policy("access", NO_EVE)).unwrap();
    for name in ["eve", "ann"] {
        world.call(&mut client, name);
    }
    world.run(&mut [&mut client, &mut server, &mut shadow]);
    assert_eq!(world.serve(&mut shadow), ["ann"]);
    assert_eq!(world.serve(&mut server), ["eve", "ann"]);
    world.run(&mut [&mut client, &mut server, &mut shadow]);
    assert_eq!(client.ends().len(), 2);
    assert_eq!(world.hub.remote_calls(), 0);
}

#[test]
fn a_copy_goes_to_a_server_at_another_hub() {
    let mut hubs = Hubs::new(2);
    let (mut client, mut server) = copying(&mut hubs.worlds[0]);
    let mut shadow = shadow(&mut hubs.worlds[1]);
    let call = hubs.worlds[0].call(&mut client, "you");
    let run = |hubs: &mut Hubs, client: &mut App, server: &mut App, shadow: &mut App| {
        hubs.run(&mut [(0, client), (0, server), (1, shadow)]);
    };
    run(&mut hubs, &mut client, &mut server, &mut shadow);
    assert_eq!(hubs.worlds[1].serve(&mut shadow), ["you"]);
    assert_eq!(hubs.worlds[0].serve(&mut server), ["you"]);
    run(&mut hubs, &mut client, &mut server, &mut shadow);
    is_answered(&hubs.worlds[0], &mut client, call);
    let calls = [0, 1].map(|at| (hubs.worlds[at].hub.remote_calls(), hubs.crossings[at].calls()));
    assert_eq!(calls, [(0, 0); 2]);
}

#[test]
fn a_copy_leaves_the_host_and_begins_again_in_another_encoding() {
    let mut world = remote::world();
    let (mut client, mut server) = copying(&mut world);
    let call = world.call(&mut client, "you");
    world.run(&mut [&mut client, &mut server]);
    let mut begun = remote::begun(&mut world).expect("it leaves");
    assert_eq!((&*begun.target, &*begun.caller), ("shadow", "client"));
    let message = begun.message.take().unwrap();
    assert_eq!(name_of(&world, &message, "name"), "you");
    let again = world.hub.remote_returned(begun.call, message.image(), Metadata::new()).unwrap();
    assert_eq!((&*again.target, again.call), ("shadow", begun.call));
    let (metadata, trailers) = Default::default();
    let result = Err(Status::internal("it fails there"));
    let outcome = RemoteOutcome { result, has_not_run: false, metadata, trailers };
    world.hub.remote_end(begun.call, outcome, NOW);
    assert_eq!(world.hub.remote_calls(), 0);
    world.serve(&mut server);
    world.run(&mut [&mut client, &mut server]);
    is_answered(&world, &mut client, call);
}

#[test]
fn a_copy_that_is_not_answered_is_cancelled_in_time() {
    for is_here in [true, false] {
        let mut world = remote::world();
        let (mut client, mut server) = copying(&mut world);
        let mut shadow = is_here.then(|| shadow(&mut world));
        world.call(&mut client, "you");
        world.run(&mut [&mut client, &mut server]);
        let due = world.hub.wake_at();
        assert!(due > NOW && due < Time::NEVER, "the hub is to turn then");
        let begun = (!is_here).then(|| remote::begun(&mut world).expect("it leaves"));
        assert_eq!(world.hub.remote_calls(), if is_here { 1 } else { 2 });
        world.turn(due);
        world.turn(due);
        match (&mut shadow, begun) {
            (Some(shadow), _) => {
                world.listen(shadow);
                assert!(matches!(shadow.said[..], [_, Descriptor::Cancel { .. }]));
            }
            (None, begun) => {
                let cancelled = world.hub.poll_remote();
                let begun = begun.unwrap().call;
                assert!(matches!(cancelled, Some(RemoteEvent::Cancel(call)) if call == begun));
            }
        }
        assert_eq!(world.hub.remote_calls(), 0);
        assert_eq!(world.hub.wake_at(), Time::NEVER);
    }
}

#[test]
fn copies_are_bounded_and_calls_go_on_without_them() {
    let mut world = remote::world();
    let (mut client, mut server) = copying(&mut world);
    let mut shadow = shadow(&mut world);
    for _ in 0..1100 {
        let call = world.call(&mut client, "you");
        world.run(&mut [&mut client, &mut server, &mut shadow]);
        world.serve(&mut server);
        world.run(&mut [&mut client, &mut server, &mut shadow]);
        is_answered(&world, &mut client, call);
        client.said.clear();
    }
    assert_eq!(world.hub.copy_counts(), counts(1024, 76));
    world.serve(&mut shadow);
    world.run(&mut [&mut client, &mut server, &mut shadow]);
    assert_eq!(world.hub.remote_calls(), 0);
    world.call(&mut client, "you");
    world.run(&mut [&mut client, &mut server, &mut shadow]);
    assert_eq!(world.hub.copy_counts(), counts(1025, 76));
}

#[test]
fn a_server_of_copies_that_goes_leaves_nothing_behind() {
    let mut world = remote::world();
    let (mut client, mut server) = copying(&mut world);
    let shadow = shadow(&mut world);
    world.call(&mut client, "you");
    world.run(&mut [&mut client, &mut server]);
    assert_eq!(world.hub.remote_calls(), 1);
    world.hub.remove(shadow.number, NOW);
    assert_eq!((world.hub.remote_calls(), world.hub.poll_remote().is_none()), (0, true));
    // Nobody takes copies now; the transport is told of their name.
    world.call(&mut client, "you");
    world.run(&mut [&mut client, &mut server]);
    let begun = remote::begun(&mut world).expect("it leaves");
    assert_eq!(&*begun.target, "shadow");
    // Without a transport they are dropped.
    let mut world = World::new();
    let (mut client, mut server) = copying(&mut world);
    let call = world.call(&mut client, "you");
    world.run(&mut [&mut client, &mut server]);
    world.serve(&mut server);
    world.run(&mut [&mut client, &mut server]);
    is_answered(&world, &mut client, call);
}

#[test]
fn a_caller_that_goes_takes_no_copy_with_it() {
    let mut world = remote::world();
    world.hub.allow_remote(RemoteLimits::default());
    let (mut client, mut server) = copying(&mut world);
    let mut shadow = shadow(&mut world);
    world.call(&mut client, "you");
    world.run(&mut [&mut client, &mut server, &mut shadow]);
    world.hub.remove(client.number, NOW);
    world.run(&mut [&mut server, &mut shadow]);
    assert_eq!(world.serve(&mut shadow), ["you"]);
    world.run(&mut [&mut server, &mut shadow]);
    assert_eq!(world.hub.remote_calls(), 0);
}

#[test]
fn a_hostile_server_of_copies_harms_nobody() {
    let mut world = remote::world();
    let (mut client, mut server) = copying(&mut world);
    let mut shadow = shadow(&mut world);
    let (head, message) = (Contents::NONE, Contents::NONE);
    let wrong: [fn(CallNumber) -> Descriptor; 3] = [
        |call| Descriptor::Grant { call, bytes: 1 << 20 },
        |call| Descriptor::Head { call, metadata: Contents::NONE },
        |call| Descriptor::Message { call, message: Contents { offset: 8, bytes: 8 } },
    ];
    for said in wrong {
        let call = world.call(&mut client, "you");
        world.run(&mut [&mut client, &mut server, &mut shadow]);
        let copies = shadow.take(|said| match said {
            Descriptor::Request(request) => Some((request.call, request.message)),
            _ => None,
        });
        let [(copy, received)] = copies[..] else { panic!("{copies:?}") };
        world.handle(&shadow, said(copy)).unwrap();
        world.run(&mut [&mut client, &mut server, &mut shadow]);
        let (status, has_not_run, metadata) = (Code::Aborted as u8, true, head);
        let end = Descriptor::End { call: copy, status, has_not_run, message, metadata };
        world.handle(&shadow, end).unwrap();
        world.release(&shadow, received).unwrap();
        world.serve(&mut server);
        world.run(&mut [&mut client, &mut server, &mut shadow]);
        is_answered(&world, &mut client, call);
        assert_eq!(world.hub.remote_calls(), 0, "{:?}", said(copy));
    }
}
