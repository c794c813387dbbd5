//! What an application may have at a time: calls, and memory to receive in.

use petasos_abi::Descriptor;
use petasos_call::Code;
use petasos_service::ApplicationLimits;

use crate::support::*;

const FULL: u8 = Code::ResourceExhausted as u8;

fn two_calls() -> ApplicationLimits {
    ApplicationLimits { calls_max: 2, ..ApplicationLimits::default() }
}

fn statuses(app: &mut App) -> Vec<u8> {
    app.ends().iter().map(|(_, status, ..)| *status).collect()
}

#[test]
fn d1_more_calls_than_an_application_may_have_are_refused_and_those_that_it_has_go_on() {
    let mut world = World::new();
    let mut client = world.app_with("client", SEND_BYTES, two_calls());
    let mut other = world.app("other");
    let mut server = world.app("server");
    world.hub.serve(server.number, "greeter").unwrap();
    for app in [&client, &other] {
        assert_eq!(world.hub.target(app.number, "greeter").unwrap().0, 0);
    }
    let calls: Vec<_> = ["a", "b", "c"].map(|name| world.call(&mut client, name)).into();
    for _ in 0..3 {
        world.call(&mut other, "d");
    }
    world.run(&mut [&mut client, &mut other, &mut server]);
    assert_eq!(
        client.ends().iter().map(|end| (end.0, end.1)).collect::<Vec<_>>(),
        [(calls[2], FULL)]
    );
    assert!(statuses(&mut other).is_empty(), "another application has its own");
    // A call that was cancelled is not counted, whether or not its end was told.
    let cancel = Descriptor::Cancel { call: calls[0] };
    world.handle(&client, cancel).unwrap();
    world.handle(&client, cancel).unwrap();
    world.call(&mut client, "e");
    world.call(&mut client, "f");
    world.run(&mut [&mut client, &mut other, &mut server]);
    let ends = client.ends();
    assert!(ends.iter().filter(|(_, status, ..)| *status == FULL).count() == 1, "{ends:?}");
    let mut served = world.serve(&mut server);
    served.sort();
    assert_eq!(served, ["a", "b", "d", "d", "d", "e"]);
    world.run(&mut [&mut client, &mut other, &mut server]);
    assert_eq!(statuses(&mut client), [0, 0]);
    assert_eq!(statuses(&mut other), [0; 3]);
    // Those that have ended have made room.
    for _ in 0..2 {
        world.call(&mut client, "g");
        world.call(&mut client, "h");
        world.run(&mut [&mut client, &mut server]);
        world.serve(&mut server);
        world.run(&mut [&mut client, &mut server]);
        assert_eq!(statuses(&mut client), [0, 0]);
    }
}

#[test]
fn d1_a_server_is_given_no_more_calls_than_it_may_have() {
    let mut world = World::new();
    let mut client = world.app("client");
    let mut server = world.app_with("server", SEND_BYTES, two_calls());
    world.hub.serve(server.number, "greeter").unwrap();
    assert_eq!(world.hub.target(client.number, "greeter").unwrap().0, 0);
    for _ in 0..2 {
        for _ in 0..5 {
            world.call(&mut client, "ann");
        }
        world.run(&mut [&mut client, &mut server]);
        let ends = client.ends();
        let refused = ends
            .iter()
            .filter(|(_, status, has_not_run, _)| (*status, *has_not_run) == (FULL, true));
        assert_eq!((ends.len(), refused.count()), (3, 3));
        assert_eq!(world.serve(&mut server).len(), 2);
        world.run(&mut [&mut client, &mut server]);
        assert_eq!(statuses(&mut client), [0, 0]);
    }
}

#[test]
fn d3_a_message_that_never_fits_ends_its_call_and_others_go_on() {
    const ROOM_BYTES: u64 = 512 << 10;
    let mut world = World::new();
    let (mut client, mut server) = world.pair();
    let mut small = world.app_with("small", ROOM_BYTES, ApplicationLimits::default());
    world.hub.serve(small.number, "small").unwrap();
    assert_eq!(world.hub.target(client.number, "small").unwrap().0, 1);
    let long = "x".repeat(ROOM_BYTES as usize + 1);
    let call = |world: &mut World, client: &mut App, name: &str| {
        let message =
            world.message("greet.Request", &[("name", petasos_message::Leaf::Text(name))]);
        let message = client.write(&message);
        let call = client.next_call();
        let request = petasos_abi::Request { message, partner: 1, ..client.request(call, GREET) };
        world.handle(client, Descriptor::Request(request)).unwrap();
        call
    };
    let longest = call(&mut world, &mut client, &long);
    let short = call(&mut world, &mut client, "ann");
    world.run(&mut [&mut client, &mut server, &mut small]);
    assert_eq!(client.ends(), [], "it may get memory");
    let application = world.hub.application(small.number).unwrap();
    let wanted = application.wants_memory().expect("a message waits");
    assert!(wanted > ROOM_BYTES);
    assert!(application.refuse_memory(wanted));
    assert!(!application.refuse_memory(wanted), "it is known");
    world.run(&mut [&mut client, &mut server, &mut small]);
    let ends = client.ends();
    assert_eq!(ends.iter().map(|end| (end.0, end.1)).collect::<Vec<_>>(), [(longest, FULL)]);
    assert_eq!(world.serve(&mut small), ["ann"]);
    world.run(&mut [&mut client, &mut server, &mut small]);
    assert_eq!(client.ends().iter().map(|end| (end.0, end.1)).collect::<Vec<_>>(), [(short, 0)]);
    // What fits, but not now, waits.
    let half = "y".repeat(ROOM_BYTES as usize * 6 / 10);
    for _ in 0..2 {
        call(&mut world, &mut client, &half);
    }
    world.run(&mut [&mut client, &mut server, &mut small]);
    let application = world.hub.application(small.number).unwrap();
    let wanted = application.wants_memory().expect("the second waits");
    assert!(application.refuse_memory(wanted));
    world.run(&mut [&mut client, &mut server, &mut small]);
    assert_eq!(client.ends(), []);
    assert!(world.serve(&mut small) == [&*half]);
    world.run(&mut [&mut client, &mut server, &mut small]);
    assert!(world.serve(&mut small) == [&*half]);
    world.run(&mut [&mut client, &mut server, &mut small]);
    assert_eq!(statuses(&mut client), [0, 0]);
}

#[test]
fn d3_a_response_or_a_message_of_a_stream_that_never_fits_ends_its_call() {
    let mut world = World::new();
    let mut client = world.app_with("client", 64 << 10, ApplicationLimits::default());
    let mut server = world.app("server");
    world.hub.serve(server.number, "greeter").unwrap();
    assert_eq!(world.hub.target(client.number, "greeter").unwrap().0, 0);
    world.hub.application(client.number).unwrap().refuse_memory(1);
    let call = world.call(&mut client, &"x".repeat(64 << 10));
    let next = world.call(&mut client, "ann");
    world.run(&mut [&mut client, &mut server]);
    assert_eq!(world.serve(&mut server).len(), 2);
    world.run(&mut [&mut client, &mut server]);
    let mut ends: Vec<_> = client.ends().iter().map(|end| (end.0.get(), end.1)).collect();
    ends.sort_unstable();
    assert_eq!(ends, [(call.get(), FULL), (next.get(), 0)]);
}
