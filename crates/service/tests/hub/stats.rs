//! The counters of applications' calls.

use std::fmt::Write as _;

use petasos_abi::{Contents, Descriptor, Request};
use petasos_base::Time;
use petasos_call::{Code, Status};
use petasos_message::Types;
use petasos_service::{
    Incoming, ListenerId, ROWS_MAX, RemoteEvent, RemoteLimits, RemoteOutcome, Row, Sums, Way,
};

use crate::policies::Names;
use crate::support::*;

fn rows(world: &mut World, app: &App) -> Vec<Row> {
    world.hub.application(app.number).unwrap().stats().rows().to_vec()
}

fn sums(world: &mut World, app: &App, way: Way) -> Sums {
    let rows = rows(world, app);
    let of_way: Vec<&Row> = rows.iter().filter(|row| row.way == way).collect();
    assert_eq!(of_way.len(), 1, "{way:?}");
    assert_eq!(of_way[0].method.as_deref(), Some("greet.Greeter/Greet"));
    of_way[0].sums
}

fn ended(sums: &Sums, code: Code) -> u64 {
    sums.ended[usize::from(code.number())]
}

#[test]
fn calls_are_counted_at_both_ends_with_their_bytes_and_codes() {
    let mut world = World::new();
    let (mut client, mut server) = world.pair();
    for name in ["ann", "bob"] {
        world.call(&mut client, name);
    }
    world.run(&mut [&mut client, &mut server]);
    for (app, way) in [(&client, Way::ToLocal), (&server, Way::FromLocal)] {
        let sums = sums(&mut world, app, way);
        assert_eq!((sums.begun, sums.under_way(), sums.response_bytes), (2, 2, 0));
        assert!(sums.request_bytes > 2 * 8, "{}", sums.request_bytes);
    }
    assert_eq!(world.serve(&mut server), ["ann", "bob"]);
    world.run(&mut [&mut client, &mut server]);
    let at_client = sums(&mut world, &client, Way::ToLocal);
    let at_server = sums(&mut world, &server, Way::FromLocal);
    assert_eq!(at_client, at_server);
    assert_eq!((ended(&at_client, Code::Ok), at_client.under_way()), (2, 0));
    assert!(at_client.response_bytes > 2 * 8);
    // A call that the server fails.
    world.call(&mut client, "carl");
    world.run(&mut [&mut client, &mut server]);
    let fail = |said: &Descriptor| match said {
        Descriptor::Request(request) => Some(request.call),
        _ => None,
    };
    let call = server.take(fail)[0];
    let (message, metadata) = (Contents::NONE, Contents::NONE);
    let end = Descriptor::End { call, status: 5, has_not_run: false, message, metadata };
    world.handle(&server, end).unwrap();
    world.run(&mut [&mut client, &mut server]);
    for (app, way) in [(&client, Way::ToLocal), (&server, Way::FromLocal)] {
        let sums = sums(&mut world, app, way);
        let counts = [Code::Ok, Code::NotFound].map(|code| ended(&sums, code));
        assert_eq!((sums.begun, counts, sums.under_way()), (3, [2, 1], 0));
    }
}

#[test]
fn latency_is_from_the_request_to_the_end() {
    let mut world = World::new();
    let (mut client, mut server) = world.pair();
    world.call(&mut client, "ann");
    world.run(&mut [&mut client, &mut server]);
    world.serve(&mut server);
    let later = NOW.plus_nanos(50_000);
    while world.turn(later) {}
    for app in [&client, &server] {
        let rows = rows(&mut world, app);
        let latency = rows[0].latency.counts();
        assert_eq!((rows.len(), rows[0].sums.latency_ns), (1, 50_000));
        let p50 = petasos_base::log_linear_quantile(&latency, 0.5);
        assert!((50_000..57_000).contains(&p50), "{p50}");
    }
}

#[test]
fn calls_that_go_nowhere_or_are_given_up_are_over_once() {
    let mut world = World::new();
    let (mut client, mut server) = world.pair();
    let refuse = std::sync::Arc::new(Names { forbidden: "eve", replacement: None });
    world.hub.application(client.number).unwrap().attach(0, refuse).unwrap();
    world.call(&mut client, "eve");
    let given_up = world.call(&mut client, "ann");
    world.run(&mut [&mut client, &mut server]);
    world.handle(&client, Descriptor::Cancel { call: given_up }).unwrap();
    world.run(&mut [&mut client, &mut server]);
    let unsent = sums(&mut world, &client, Way::Unsent);
    assert_eq!((unsent.begun, ended(&unsent, Code::PermissionDenied)), (1, 1));
    for (app, way) in [(&client, Way::ToLocal), (&server, Way::FromLocal)] {
        let sums = sums(&mut world, app, way);
        assert_eq!((sums.begun, ended(&sums, Code::Cancelled), sums.under_way()), (1, 1, 0));
    }
    // The server answers although nobody waits.
    world.serve(&mut server);
    world.run(&mut [&mut client, &mut server]);
    assert_eq!(sums(&mut world, &server, Way::FromLocal).begun, 1);
    let datapath = world.hub.application(client.number).unwrap().datapath();
    let counts = datapath.engine_counts(0).unwrap();
    // Two requests and a cancel.
    assert_eq!((counts.items, counts.ended), (3, 1));
    assert_eq!(datapath.engine_counts(1), None);
    // What is no call.
    let call = client.next_call();
    let message = client.write(&world.message("greet.Request", &[]));
    let request = Request { binding: 9, message, ..client.request(call, GREET) };
    world.handle(&client, Descriptor::Request(request)).unwrap();
    world.run(&mut [&mut client, &mut server]);
    assert_eq!(world.hub.application(client.number).unwrap().stats().refused(), 1);
}

#[test]
fn calls_to_and_from_other_hosts_are_counted_apart() {
    let mut world = World::new();
    world.hub.allow_remote(RemoteLimits::default());
    let (mut client, mut server) = world.pair();
    world.hub.target(client.number, "elsewhere").unwrap();
    let message = world.message("greet.Request", &[]);
    let message = client.write(&message);
    let call = client.next_call();
    let request = Request { message, partner: 1, ..client.request(call, GREET) };
    world.handle(&client, Descriptor::Request(request)).unwrap();
    world.run(&mut [&mut client, &mut server]);
    let Some(RemoteEvent::Begin(begun)) = world.hub.poll_remote() else { panic!("no call") };
    assert_eq!(sums(&mut world, &client, Way::ToRemote).under_way(), 1);
    let (metadata, trailers) = Default::default();
    let result = Err(Status::unavailable("gone"));
    let outcome = RemoteOutcome { result, has_not_run: true, metadata, trailers };
    world.hub.remote_end(begun.call, outcome, NOW);
    let incoming = Incoming {
        listener: ListenerId::default(),
        service: "greet.Greeter",
        method: "Greet",
        message: Some(&[]),
        metadata: Default::default(),
        deadline: Time::NEVER,
        peer: "10.0.0.1:7",
        identity: None,
        is_sealed: false,
    };
    world.hub.begin_remote(incoming, NOW).unwrap();
    world.run(&mut [&mut client, &mut server]);
    world.serve(&mut server);
    world.run(&mut [&mut client, &mut server]);
    let out = sums(&mut world, &client, Way::ToRemote);
    assert_eq!((out.begun, ended(&out, Code::Unavailable)), (1, 1));
    let served: u64 = [&client, &server]
        .map(|app| rows(&mut world, app))
        .iter()
        .flatten()
        .filter(|row| row.way == Way::FromRemote)
        .map(|row| row.sums.begun)
        .sum();
    assert_eq!(served, 1);
}

#[test]
fn what_has_gone_is_summed_up() {
    let mut world = World::new();
    let (mut client, mut server) = world.pair();
    world.call(&mut client, "ann");
    world.run(&mut [&mut client, &mut server]);
    world.serve(&mut server);
    world.run(&mut [&mut client, &mut server]);
    world.call(&mut client, "bob");
    world.run(&mut [&mut client, &mut server]);
    world.hub.remove(client.number, NOW);
    let gone = world.hub.gone();
    let sums = gone.sums(Way::ToLocal);
    let counts = [Code::Ok, Code::Cancelled].map(|code| ended(sums, code));
    assert_eq!((gone.applications, sums.begun, counts), (1, 2, [1, 1]));
}

/// A schema that has nothing but methods.
fn many_methods(count: usize) -> Vec<u8> {
    let folder = std::env::temp_dir().join(format!("petasos-stats-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let mut text = "syntax = \"proto3\"; package many; message M {} service S {".to_owned();
    for index in 0..count {
        write!(text, "rpc R{index:04}(M) returns (M);").unwrap();
    }
    text.push('}');
    std::fs::write(folder.join("many.proto"), text).unwrap();
    let compiled = petasos_schema::compile(["many.proto"], [&folder], &Default::default());
    std::fs::remove_dir_all(&folder).unwrap();
    compiled.unwrap().schema.encode()
}

#[test]
fn schemas_of_many_methods_do_not_make_more_rows_than_there_may_be() {
    let methods = ROWS_MAX + 200;
    let schema = many_methods(methods);
    let types =
        Types::new(petasos_schema::Schema::decode(&schema, &Default::default()).unwrap()).unwrap();
    let (id, _) = types.schema().message_by_name("many.M").unwrap();
    let empty = petasos_message::NativeMsg::empty(&types, id);
    let mut world = World::new();
    let (mut client, mut server) = world.pair();
    for app in [&client, &server] {
        assert_eq!(world.hub.bind(app.number, &schema, "many.S", true).unwrap(), 1);
    }
    for _ in 0..2 {
        for method in 0..methods {
            let message = client.write(&empty);
            let call = client.next_call();
            let request = client.request(call, method as u16);
            let request = Request { message, binding: 1, is_stream: false, ..request };
            world.handle(&client, Descriptor::Request(request)).unwrap();
            world.run(&mut [&mut client, &mut server]);
            for request in server.take(|said| match said {
                Descriptor::Request(request) => Some(*request),
                _ => None,
            }) {
                let (message, metadata) = (server.write(&empty), Contents::NONE);
                let call = request.call;
                let end =
                    Descriptor::End { call, status: 0, has_not_run: false, message, metadata };
                world.handle(&server, end).unwrap();
                world.release(&server, request.message).unwrap();
            }
            world.run(&mut [&mut client, &mut server]);
            for (_, status, _, message) in client.ends() {
                assert_eq!(status, 0);
                world.release(&client, message).unwrap();
            }
        }
    }
    for app in [&client, &server] {
        let rows = rows(&mut world, app);
        assert_eq!(rows.len(), ROWS_MAX + 1);
        let (own, rest): (Vec<_>, Vec<_>) = rows.iter().partition(|row| row.method.is_some());
        assert!(own.iter().all(|row| ended(&row.sums, Code::Ok) == 2));
        let [rest] = rest[..] else { panic!("one row for all others") };
        assert_eq!((rest.sums.begun, ended(&rest.sums, Code::Ok)), (400, 400));
        // A copy with fewer rows has the same sums.
        let application = world.hub.application(app.number).unwrap();
        for rows_max in [0, 10, ROWS_MAX + 1] {
            let (some, left_out) = application.stats().rows_within(rows_max);
            let is_exact = some.iter().filter(|row| row.method.is_some()).count();
            assert_eq!((is_exact, left_out), (rows_max.min(ROWS_MAX), ROWS_MAX + 1 - rows_max));
            assert_eq!(some.iter().map(|row| row.sums.begun).sum::<u64>(), 2 * methods as u64);
            let counts = some.iter().flat_map(|row| row.latency.counts());
            assert_eq!(counts.map(|(_, count)| count).sum::<u64>(), 2 * methods as u64);
        }
    }
}
