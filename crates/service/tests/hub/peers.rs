//! What policies are told of calls: who is at the other end, how often it was tried, and that it
//! is over.

use std::sync::{Arc, Mutex};

use petasos_abi::{Descriptor, Request};
use petasos_call::{Code, Metadata, MetadataKind, PREVIOUS_ATTEMPTS, TailWriter};
use petasos_engine::{
    Absent, Decompose, Direction, Engine, ItemKind, Peer, Policy, PolicyError, State, Without, Work,
};
use petasos_message::Leaf;
use petasos_service::ApplicationLimits;

use crate::support::*;

type Seen = Arc<Mutex<Vec<(Peer, u8)>>>;

/// Writes down whom requests are to, or from, and how often they were tried.
#[derive(Clone, Default)]
struct Watch(Seen);

impl Policy for Watch {
    fn engine(&self, _: Option<&State>) -> Result<Box<dyn Engine>, PolicyError> {
        Ok(Box::new(self.clone()))
    }

    fn state(&self) -> State {
        State { kind: "watch".to_owned(), version: 1, json: "null".to_owned() }
    }
}

impl Engine for Watch {
    fn work(&mut self, work: &mut Work<'_>) {
        for direction in Direction::ALL {
            while let Some(item) = work.next(direction) {
                if work.kind(&item) == ItemKind::Request {
                    let call = work.call(&item);
                    self.0.lock().unwrap().push((call.peer, call.attempt));
                }
                work.forward(item);
            }
        }
    }

    fn decompose(self: Box<Self>, _: &mut Decompose<'_>) -> Option<State> {
        None
    }
}

/// Calls a target, with metadata.
fn call(world: &mut World, app: &mut App, partner: u32, metadata: &[(&str, &str)]) {
    let message = world.message("greet.Request", &[("name", Leaf::Text("ann"))]);
    let mut parts = Metadata::new();
    metadata.iter().for_each(|(key, value)| parts.append(key, value).unwrap());
    let mut tail = Vec::new();
    if !metadata.is_empty() {
        TailWriter::new(&mut tail).metadata(MetadataKind::Initial, &parts);
    }
    let metadata = if tail.is_empty() { None } else { Some(app.write_bytes(&tail)) };
    let (message, call) = (app.write(&message), app.next_call());
    let request = Request {
        partner,
        message,
        metadata: metadata.unwrap_or(petasos_abi::Contents::NONE),
        ..app.request(call, GREET)
    };
    world.handle(app, Descriptor::Request(request)).unwrap();
}

#[test]
fn a_policy_tells_targets_apart_by_their_names_whoever_calls_them() {
    let mut world = World::new();
    let watch = Watch::default();
    let mut apps = ["one", "other"].map(|name| world.app(name));
    // The numbers that the applications have for the names cross over.
    for (app, names) in apps.iter().zip([["a", "b", "c"], ["b", "d", "a"]]) {
        world.hub.application(app.number).unwrap().attach(0, Arc::new(watch.clone())).unwrap();
        for (index, name) in names.into_iter().enumerate() {
            assert_eq!(world.hub.target(app.number, name).unwrap().0 as usize, index);
        }
    }
    for app in &mut apps {
        (0..3).for_each(|target| call(&mut world, app, target, &[]));
    }
    let [one, other] = &mut apps;
    world.run(&mut [one, other]);
    let seen: Vec<Peer> = watch.0.lock().unwrap().iter().map(|(peer, _)| *peer).collect();
    let [a, b, c, b_too, d, a_too] = seen[..] else { panic!("{seen:?}") };
    assert_eq!((a, b), (a_too, b_too));
    let apart: std::collections::BTreeSet<Peer> = [a, b, c, d].into();
    assert_eq!(apart.len(), 4);
    // Callers of this host have the numbers of their applications.
    assert!(apps.iter().all(|app| !apart.contains(&Peer(app.number.0))));
}

/// How many of three calls of a new application run.
fn runs_of_three(world: &mut World, server: &mut App, user: u32, limit: &Arc<dyn Policy>) -> usize {
    let limits = ApplicationLimits::default();
    let mut app = world.app_of(("client", Some(user)), SEND_BYTES, limits);
    assert_eq!(world.hub.target(app.number, "greeter").unwrap().0, 0);
    world.hub.application(app.number).unwrap().attach(0, limit.clone()).unwrap();
    (0..3).for_each(|_| call(world, &mut app, 0, &[]));
    world.run(&mut [&mut app, server]);
    let served = world.serve(server).len();
    world.run(&mut [&mut app, server]);
    let ends = app.ends();
    let refused = |(_, code, ..): &&(_, u8, bool, _)| *code == Code::ResourceExhausted as u8;
    assert_eq!((ends.len(), ends.iter().filter(refused).count()), (3, 3 - served));
    world.hub.remove(app.number, NOW);
    served
}

#[test]
fn an_application_that_attaches_again_gets_no_new_share_of_a_limit() {
    let kind = petasos_engines::find("rate_limit").unwrap();
    let configuration = r#"{"rate_per_s": 1, "burst": 2, "by": "application", "waiting_max": 0}"#;
    let limit: Arc<dyn Policy> = Arc::from(kind.make(configuration, None).unwrap());
    let mut world = World::new();
    let mut server = world.app("server");
    world.hub.serve(server.number, "greeter").unwrap();
    assert_eq!(runs_of_three(&mut world, &mut server, 7, &limit), 2);
    assert_eq!(runs_of_three(&mut world, &mut server, 7, &limit), 0, "it is who it was before");
    assert_eq!(runs_of_three(&mut world, &mut server, 8, &limit), 2, "another user's has its own");
}

#[test]
fn a_breaker_of_one_target_leaves_those_of_other_applications_alone() {
    let breaker = petasos_engines::find("circuit_breaker").unwrap();
    let configuration = r#"{"by": "peer", "consecutive_failures": 2, "open_ms": 60000}"#;
    let policy: Arc<dyn Policy> = Arc::from(breaker.make(configuration, None).unwrap());
    let mut world = World::new();
    let (mut client, mut server) = world.pair();
    let mut failing = world.app("failing");
    assert_eq!(world.hub.target(failing.number, "nobody").unwrap().0, 0);
    for number in [client.number, failing.number] {
        world.hub.application(number).unwrap().attach(0, policy.clone()).unwrap();
    }
    for _ in 0..4 {
        call(&mut world, &mut failing, 0, &[]);
        world.run(&mut [&mut failing]);
    }
    assert_eq!(failing.ends().len(), 4);
    // Target 0 of the other application is another server.
    call(&mut world, &mut client, 0, &[]);
    world.run(&mut [&mut client, &mut server]);
    assert_eq!(world.serve(&mut server), ["ann"]);
    world.run(&mut [&mut client, &mut server]);
    assert_eq!(client.ends()[0].1, Code::Ok as u8);
}

#[test]
fn a_policy_is_told_how_often_a_call_was_tried_on_both_sides() {
    let mut world = World::new();
    let (mut client, mut server) = world.pair();
    let watches = [Watch::default(), Watch::default()];
    for (number, watch) in [client.number, server.number].into_iter().zip(&watches) {
        world.hub.application(number).unwrap().attach(0, Arc::new(watch.clone())).unwrap();
    }
    for attempts in ["2", "300", "-1", "x", ""] {
        call(&mut world, &mut client, 0, &[(PREVIOUS_ATTEMPTS, attempts)]);
    }
    call(&mut world, &mut client, 0, &[("other", "1")]);
    call(&mut world, &mut client, 0, &[]);
    world.run(&mut [&mut client, &mut server]);
    for watch in &watches {
        let attempts: Vec<u8> = watch.0.lock().unwrap().iter().map(|(_, tried)| *tried).collect();
        assert_eq!(attempts, [2, 255, 0, 0, 0, 0, 0]);
    }
}

#[test]
fn a_retry_budget_refuses_retries_of_applications() {
    let budget = petasos_engines::find("retry_budget").unwrap();
    let configuration = r#"{"by": "all", "ratio": 0.0, "min_per_s": 0, "saved_max": 1}"#;
    let policy: Arc<dyn Policy> = Arc::from(budget.make(configuration, None).unwrap());
    let mut world = World::new();
    let (mut client, mut server) = world.pair();
    world.hub.application(client.number).unwrap().attach(0, policy).unwrap();
    call(&mut world, &mut client, 0, &[]);
    for _ in 0..4 {
        call(&mut world, &mut client, 0, &[(PREVIOUS_ATTEMPTS, "1")]);
    }
    world.run(&mut [&mut client, &mut server]);
    let served = world.serve(&mut server).len();
    world.run(&mut [&mut client, &mut server]);
    let refused = client.ends().iter().filter(|end| end.1 != Code::Ok as u8).count();
    assert!(served <= 2 && refused >= 3 && served + refused == 5, "{served} {refused}");
}

#[test]
fn e9_what_ends_while_an_engine_is_out_is_over_when_it_comes_back() {
    let overload = petasos_engines::find("overload").unwrap();
    let configuration =
        r#"{"by": "all", "calls_initial": 4, "calls_min": 4, "calls_max": 4, "tolerance": 2.0}"#;
    let policy: Arc<dyn Policy> = Arc::from(overload.make(configuration, None).unwrap());
    let mut world = World::new();
    let (mut client, mut server) = world.pair();
    world.hub.application(client.number).unwrap().attach(0, policy.clone()).unwrap();
    (0..4).for_each(|_| call(&mut world, &mut client, 0, &[]));
    world.run(&mut [&mut client, &mut server]);
    let absent = Arc::new(Absent::new(policy.clone(), Without::Open));
    world.hub.application(client.number).unwrap().replace(0, absent).unwrap();
    assert_eq!(world.serve(&mut server).len(), 4);
    world.run(&mut [&mut client, &mut server]);
    assert!(client.ends().iter().all(|end| end.1 == Code::Ok as u8));
    world.hub.application(client.number).unwrap().replace(0, policy).unwrap();
    (0..4).for_each(|_| call(&mut world, &mut client, 0, &[]));
    world.run(&mut [&mut client, &mut server]);
    assert_eq!(world.serve(&mut server).len(), 4, "the four before are over");
    // Four are under way: there is no room for a fifth, so the engine does count.
    call(&mut world, &mut client, 0, &[]);
    (0..4).for_each(|_| call(&mut world, &mut client, 0, &[]));
    world.run(&mut [&mut client, &mut server]);
    let refused = |end: &(petasos_abi::CallNumber, u8, bool, petasos_abi::Contents)| {
        end.1 == Code::ResourceExhausted as u8
    };
    assert!(client.ends().iter().any(refused));
}
