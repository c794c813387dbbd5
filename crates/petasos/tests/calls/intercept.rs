//! Interceptors around unary calls, both ends in one loop.

use crate::greeter;

use crate::greeter::generated::{GreeterClient, GreeterServer};
use crate::greeter::*;
use crate::hooks::*;
use petasos::intercept::{CallInfo, Direction, Interceptor, Outcome, Side, Step};
use petasos::{Code, Loop, Request, Status};
use petasos_base::sync::{AtomicBool, Ordering};
use petasos_base::{Clock, VirtualClock};
use petasos_endpoint::EndpointConfig;
use petasos_netio::memory::{Hub, MemoryConfig};

/// Both ends in one loop, each with its interceptors, outermost first.
fn world(client: Vec<Spy>, server: Vec<Spy>) -> World {
    let time = VirtualClock::default();
    let config = EndpointConfig { seed: Some(5), ..EndpointConfig::default() };
    let port = Hub::direct(MemoryConfig::default()).port();
    let event_loop = Loop::over(config, port, Clock::Virtual(time.clone()));
    let event_loop = event_loop.expect("this thread has no other loop");
    server.into_iter().for_each(|spy| event_loop.intercept(spy));
    let service = Service::default();
    event_loop.serve(GreeterServer::new(service.clone())).expect("it is the only service");
    let channel = event_loop.channel_to_itself();
    let channel = client.into_iter().fold(channel, |channel, spy| channel.intercept(spy));
    World { event_loop, time, service, client: GreeterClient::new(channel) }
}

fn greet(text: &str) -> Request<greeter::generated::Name> {
    Request::new(name(text)).with_metadata("from", "me").expect("a fine key")
}

#[test]
fn hooks_run_in_order_at_both_ends() {
    let journal = Journal::default();
    let spies = |names: [&'static str; 2]| names.map(|name| journal.spy(name)).into();
    let world = world(spies(["a", "b"]), spies(["c", "d"]));
    let outcomes = world.spawn(greet("you"));
    world.turn();
    assert_eq!(outcomes.one().expect("the handler answers"), "hello, you");
    assert_eq!(world.service.seen().metadata.as_deref(), Some("me"));
    let expected = [
        "a call Greet from me",
        "b call Greet from me",
        "a Request Name 5",
        "b Request Name 5",
        "c call Greet from me",
        "d call Greet from me",
        "c Request Name 5",
        "d Request Name 5",
        "d Response Greeting 12",
        "c Response Greeting 12",
        "d ended OK with me",
        "c ended OK with me",
        "b Response Greeting 12",
        "a Response Greeting 12",
        "b ended OK with me",
        "a ended OK with me",
    ];
    assert_eq!(journal.take(), expected);
}

/// The journal of one call with a spy before and one behind the one that misbehaves.
fn misbehaving(side: Side, how: How) -> (Code, Vec<String>, u64) {
    let journal = Journal::default();
    let spies = || vec![journal.spy("a"), journal.spy("b").with(how), journal.spy("c")];
    let is_client = side == Side::Client;
    let world = match is_client {
        true => world(spies(), Vec::new()),
        false => world(Vec::new(), spies()),
    };
    let (first, begun);
    {
        let outcomes = world.spawn(greet("you"));
        world.turn();
        first = outcomes.one().map_or_else(|status| status.code(), |_| Code::Ok);
        begun = world.service.seen().begun;
    }
    let lines = journal.take();
    // The loop and its other calls are as they were.
    if how == How::PanicAtEnd {
        let outcomes = world.spawn(greet("you"));
        world.turn();
        assert_eq!(outcomes.one().expect("the handler answers"), "hello, you");
    }
    (first, lines, begun)
}

#[test]
fn a_refusal_reaches_the_caller_and_no_handler_runs() {
    for side in [Side::Client, Side::Server] {
        for (how, code) in [
            (How::Refuse, Code::PermissionDenied),
            (How::WaitAndRefuse, Code::PermissionDenied),
            (How::Panic, Code::Internal),
            (How::WaitAndPanic, Code::Internal),
        ] {
            let (told, lines, begun) = misbehaving(side, how);
            assert_eq!((told, begun), (code, 0), "{side:?} {how:?}");
            let expected = [
                "a call Greet from me",
                "b call Greet from me",
                &format!("b ended {code} with none"),
                &format!("a ended {code} with none"),
            ];
            assert_eq!(lines, expected, "{side:?} {how:?}");
        }
    }
}

#[test]
fn messages_are_refused_either_way() {
    for side in [Side::Client, Side::Server] {
        for (direction, ran) in [(Direction::Request, 0), (Direction::Response, 1)] {
            for (how, code) in [
                (How::RefuseMessage(direction), Code::PermissionDenied),
                (How::PanicAtMessage(direction), Code::Internal),
            ] {
                let (told, lines, begun) = misbehaving(side, how);
                assert_eq!((told, begun), (code, ran), "{side:?} {how:?}");
                let ended = format!("ended {code} with none");
                let ends = lines.iter().filter(|line| line.ends_with(&ended)).count();
                assert_eq!(ends, 3, "{side:?} {how:?}: {lines:?}");
            }
        }
    }
}

#[test]
fn a_panic_at_the_end_changes_nothing() {
    for side in [Side::Client, Side::Server] {
        let (told, lines, begun) = misbehaving(side, How::PanicAtEnd);
        assert_eq!((told, begun), (Code::Ok, 1));
        assert!(lines.contains(&"a ended OK with me".to_owned()), "{lines:?}");
    }
}

#[test]
fn a_call_waits_where_an_interceptor_does() {
    let (journal, gates) = (Journal::default(), [Gate::default(), Gate::default()]);
    let client = vec![journal.spy("client").behind(&gates[0])];
    let world = world(client, vec![journal.spy("server").behind(&gates[1])]);
    let outcomes = world.spawn(greet("you"));
    world.turn();
    assert_eq!(journal.take(), ["client call Greet from me"]);
    gates[0].open();
    world.turn();
    let expected = ["client Request Name 5", "server call Greet from me"];
    assert_eq!(
        (journal.take(), world.service.seen().begun),
        (expected.map(str::to_owned).into(), 0)
    );
    gates[1].open();
    world.turn();
    assert_eq!(outcomes.one().expect("the handler answers"), "hello, you");
    assert_eq!((journal.count("client ended OK with me"), world.service.seen().begun), (1, 1));
}

#[test]
fn a_call_that_waits_for_an_interceptor_is_late_at_its_deadline() {
    let (journal, gate) = (Journal::default(), Gate::default());
    let world = world(vec![journal.spy("outer"), journal.spy("inner").behind(&gate)], Vec::new());
    let late = || greet("you").with_timeout(std::time::Duration::from_millis(20));
    let outcomes = world.spawn(late());
    world.pass_ms(18);
    assert_eq!(journal.take(), ["outer call Greet from me", "inner call Greet from me"]);
    world.pass_ms(5);
    assert_eq!(outcomes.one().expect_err("it waits").code(), Code::DeadlineExceeded);
    let ended = ["inner", "outer"].map(|name| format!("{name} ended DEADLINE_EXCEEDED with none"));
    assert_eq!(journal.take(), ended);
    // What was waited for comes in time, and the timer's time later: nothing follows.
    let outcomes = world.spawn(late());
    world.pass_ms(10);
    gate.open();
    world.turn();
    assert_eq!(outcomes.one().expect("the gate is open"), "hello, you");
    world.pass_ms(30);
    assert_eq!((journal.containing("ended"), world.service.seen().begun), (2, 1));
    let left = world.service.seen().timeout.expect("there is a deadline");
    assert!(left <= std::time::Duration::from_millis(11), "{left:?}");
}

#[test]
fn who_fails_or_is_given_up_ends_once() {
    let journal = Journal::default();
    let world = world(vec![journal.spy("client")], vec![journal.spy("server")]);
    let ends = || {
        let lines = journal.take();
        let ended = lines.into_iter().filter(|line| line.contains("ended"));
        ended.collect::<Vec<_>>()
    };
    for (text, code) in [("", Code::InvalidArgument), ("panic", Code::Internal)] {
        let outcomes = world.spawn(greet(text));
        world.turn();
        assert_eq!(outcomes.one().expect_err("it fails").code(), code);
        let expected = ["server", "client"].map(|side| format!("{side} ended {code} with none"));
        assert_eq!(ends(), expected);
    }
    let outcomes = world.spawn(greet("hold").with_timeout(std::time::Duration::from_millis(20)));
    world.pass_ms(30);
    assert_eq!(outcomes.one().expect_err("it is late").code(), Code::DeadlineExceeded);
    let mut late = ends();
    late.sort();
    let expected =
        ["client", "server"].map(|side| format!("{side} ended DEADLINE_EXCEEDED with none"));
    assert_eq!(late, expected);
    let call = world.client.greet(greet("hold"));
    world.turn();
    assert_eq!(world.service.seen().begun, 4);
    drop(call);
    assert_eq!(ends(), ["client ended CANCELLED with none"]);
    world.pass_ms(10);
    assert_eq!(ends(), ["server ended CANCELLED with none"]);
}

/// Sees that what was put beside a call comes back to who put it there.
struct Stamp;
struct Stamped(u32);

impl Interceptor for Stamp {
    fn call<'a>(&'a self, call: &'a mut CallInfo) -> Step<'a> {
        let asked = call.extensions().get::<u32>().copied();
        call.extensions_mut().insert(Stamped(asked.unwrap_or(7)));
        Step::Continue
    }

    fn ended(&self, call: &CallInfo, outcome: &Outcome<'_>) {
        let Stamped(number) = call.extensions().get().expect("it was put there");
        assert_eq!((*number, outcome.code()), (8, Code::Ok));
        STAMPED.store(true, Ordering::Relaxed);
    }
}

static STAMPED: AtomicBool = AtomicBool::new(false);

#[test]
fn callers_hand_things_to_their_interceptors() -> Result<(), Status> {
    let world = World::new();
    let channel = world.event_loop.channel_to_itself().intercept(Stamp);
    let mut request = greet("you");
    request.extensions_mut().insert(8_u32);
    let client = GreeterClient::new(channel);
    world.event_loop.block_on(async { client.greet(request).await })?;
    assert!(STAMPED.load(Ordering::Relaxed));
    Ok(())
}
