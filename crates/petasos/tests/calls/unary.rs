//! Unary calls, both ends in one loop.

use crate::greeter;
use std::future::Future;
use std::task::Waker;
use std::time::Duration;

use crate::greeter::generated::GreeterClient;
use crate::greeter::*;
use petasos::rt::{Request, Response, ServiceInfo, Status};
use petasos::{Code, Loop, Msg, ServeError};

#[test]
fn a_call_is_answered_in_the_turn_that_received_it() {
    let world = World::new();
    let text = world.event_loop.block_on(async { world.client.greet(name("world")).await });
    assert_eq!(text.expect("the handler answers").text(), "hello, world");
    let outcomes = world.spawn(name("again").into());
    // Sent in the first turn, received and answered in the second, over in the third.
    world.event_loop.run_turns(3);
    assert_eq!(outcomes.one().expect("the handler answers"), "hello, again");
}

#[test]
fn metadata_travel_both_ways_and_statuses_say_everything() {
    let world = World::new();
    let request = Request::new(name("a")).with_metadata("from", "b").expect("a fine key");
    let response = world.event_loop.block_on(async { world.client.greet(request).await });
    let response: Response<_> = response.expect("the handler answers");
    assert_eq!(response.metadata().get("to"), Some("b"));
    assert_eq!(response.trailers().get("end"), Some("b"));
    assert_eq!(response.text(), "hello, a");
    let refused = world.event_loop.block_on(async { world.client.greet(name("")).await });
    let status = refused.expect_err("nobody is named");
    assert_eq!((status.code(), status.message()), (Code::InvalidArgument, "nobody is named"));
    assert_eq!(status.details(), [1, 2, 3]);
    assert_eq!(status.metadata().get("why"), Some("empty"));
}

#[test]
fn messages_of_every_size_come_back() {
    let world = World::new();
    for len in [0, 1, 8, 32, 87, 88, 400, 487, 488, 600, 1448, 4000, 5000, 70_000, 3_000_000] {
        let bytes: Vec<u8> = (0..len).map(|at| (at * 31 + at / 251) as u8).collect();
        let echoed = world.event_loop.block_on(async { world.client.echo(blob(&bytes)).await });
        assert!(echoed.expect("the handler answers").bytes() == bytes, "{len} bytes");
    }
}

#[test]
fn more_calls_than_slots_wait_in_the_channel() {
    let world = World::new();
    let calls: Vec<_> = (0..100).map(|_| world.spawn(name("hold").into())).collect();
    world.turn();
    let begun = world.service.seen().begun;
    assert!((1..100).contains(&begun), "a session has fewer slots: {begun}");
    world.release();
    for _ in 0..100 {
        world.turn();
    }
    assert!(calls.iter().all(|call| call.one().is_ok()));
    assert_eq!(world.service.seen().begun, 100);
}

#[test]
fn a_panic_is_an_internal_error_of_its_own_call() {
    let world = World::new();
    let calls = ["before", "panic", "hold and panic", "after"];
    let calls = calls.map(|called| world.spawn(name(called).into()));
    world.turn();
    assert!(calls[2].is_empty(), "it is held");
    world.release();
    world.turn();
    let codes = calls.map(|call| call.one().map_err(|status| status.code()));
    assert_eq!(codes[0].as_deref(), Ok("hello, before"));
    assert_eq!((&codes[1], &codes[2]), (&Err(Code::Internal), &Err(Code::Internal)));
    assert_eq!(codes[3].as_deref(), Ok("hello, after"));
    assert_eq!(world.event_loop.failures(), (2, 0));
}

/// One turn polls many: what panics among them is over, and all others go on.
#[test]
fn panics_of_one_turn_harm_nothing_else_of_it() {
    let world = World::new();
    let texts = ["panic", "Ada", "hold and panic", "hold", "Bob"];
    let outcomes = texts.map(|text| world.spawn(name(text).into()));
    let failing = world.event_loop.spawn(async {
        if world_fails() {
            panic!("a task that fails on purpose");
        }
    });
    let other = world.event_loop.spawn(async { 7 });
    world.turn();
    assert_eq!(world.event_loop.block_on(failing), None);
    assert_eq!(world.event_loop.block_on(other), Some(7));
    let [at_once, ada, later, held, bob] = outcomes;
    assert_eq!(at_once.one().expect_err("it panics").code(), Code::Internal);
    assert_eq!(ada.one().expect("the handler answers"), "hello, Ada");
    assert_eq!(bob.one().expect("the handler answers"), "hello, Bob");
    assert!(later.is_empty() && held.is_empty());
    world.release();
    world.turn();
    assert_eq!(later.one().expect_err("it panics").code(), Code::Internal);
    assert_eq!(held.one().expect("the handler answers"), "hello, held");
    assert_eq!(world.event_loop.failures(), (2, 0));
    let again = texts.map(|_| world.spawn(name("Eve").into()));
    world.turn();
    assert!(again.iter().all(|outcome| outcome.one().is_ok()), "no slot is lost");
}

/// True, which the compiler does not know.
fn world_fails() -> bool {
    std::hint::black_box(true)
}

#[test]
fn r10_a_deadline_ends_the_call_and_its_handler() {
    let world = World::new();
    let request = Request::new(name("hold")).with_timeout(Duration::from_millis(20));
    let call = world.spawn(request);
    world.turn();
    assert_eq!(world.service.seen().timeout, Some(Duration::from_millis(20)));
    world.pass_ms(10);
    assert!(call.is_empty() && world.service.seen().dropped == 0);
    world.pass_ms(20);
    assert_eq!(call.one().expect_err("it is late").code(), Code::DeadlineExceeded);
    assert_eq!(world.service.seen().dropped, 1, "the handler is gone, too");
    let late = Request::new(name("x")).with_timeout(Duration::ZERO);
    let late = world.event_loop.block_on(async { world.client.greet(late).await });
    assert_eq!(late.expect_err("it is late").code(), Code::DeadlineExceeded);
    assert_eq!(world.service.seen().begun, 1, "what is late is not sent");
}

#[test]
fn r10_a_call_that_waits_for_a_slot_keeps_its_deadline() {
    let world = World::new();
    let held: Vec<_> = (0..64).map(|_| world.spawn(name("hold").into())).collect();
    let request = Request::new(name("late")).with_timeout(Duration::from_millis(5));
    let late = world.spawn(request);
    world.turn();
    assert!(late.is_empty());
    world.pass_ms(8);
    assert_eq!(late.one().expect_err("it is late").code(), Code::DeadlineExceeded);
    assert!(held.iter().all(Outcomes::is_empty));
}

#[test]
fn r11_a_dropped_call_drops_its_handler() {
    let world = World::new();
    let call = world.client.greet(name("hold"));
    world.turn();
    assert_eq!(world.service.seen().held.len(), 1);
    drop(call);
    world.turn();
    assert_eq!(world.service.seen().dropped, 1);
    drop(world.client.greet(name("never sent")));
    world.turn();
    assert_eq!(world.service.seen().begun, 1, "what is dropped at once is not sent");
    let after = world.spawn(name("after").into());
    world.turn();
    assert!(after.one().is_ok());
}

#[test]
fn calls_that_end_elsewhere_are_cancelled() {
    let world = World::new();
    let call = world.client.greet(name("hold"));
    world.turn();
    std::thread::spawn(move || drop(call)).join().expect("it does not panic");
    world.turn();
    assert_eq!(world.service.seen().dropped, 1);
    let client = world.client.clone();
    let begun_there = std::thread::spawn(move || {
        let mut call = Box::pin(client.greet(name("hold")));
        let mut context = std::task::Context::from_waker(Waker::noop());
        assert!(call.as_mut().poll(&mut context).is_pending());
        call
    });
    let begun_there = begun_there.join().expect("it does not panic");
    world.turn();
    assert_eq!(world.service.seen().begun, 2);
    drop(begun_there);
    world.turn();
    assert_eq!(world.service.seen().dropped, 2);
    let client = world.client.clone();
    std::thread::spawn(move || drop(client.greet(name("x")))).join().expect("it does not panic");
    world.turn();
    assert_eq!(world.service.seen().begun, 2, "what is dropped at once is not begun");
}

#[test]
fn handlers_can_be_woken_from_other_threads() {
    let world = World::new();
    let call = world.spawn(name("hold").into());
    world.turn();
    std::thread::scope(|scope| {
        scope.spawn(|| world_release(&world.service));
    });
    world.turn();
    assert_eq!(call.one().expect("the handler answers"), "hello, held");
}

fn world_release(service: &Service) {
    let held = {
        let mut seen = service.seen();
        seen.release = true;
        std::mem::take(&mut seen.held)
    };
    held.into_iter().for_each(Waker::wake);
}

static STRANGER: ServiceInfo =
    ServiceInfo { module: &MODULE, index: 0, name: "hello.Stranger", hash: [1; 16], methods: &[] };
static OTHER: ServiceInfo =
    ServiceInfo { module: &MODULE, index: 0, name: "hello.Greeter", hash: [2; 16], methods: &[] };
static MODULE: petasos::message::Module = petasos::message::Module::new(b"\x01\x00\x00\x00");

#[test]
fn r3_unknown_services_and_other_schemas_are_refused_without_a_call() {
    let world = World::new();
    let channel = world.event_loop.channel_to_itself();
    for (info, code) in [(&STRANGER, Code::Unimplemented), (&OTHER, Code::FailedPrecondition)] {
        let bound = channel.bind(info);
        let refused = world.event_loop.block_on(async {
            bound.unary::<_, greeter::generated::Greeting>(0, Request::new(name("x"))).await
        });
        let status = refused.expect_err("nobody serves it");
        assert_eq!(status.code(), code, "{status}");
        if code == Code::FailedPrecondition {
            assert!(status.message().contains(&"02".repeat(16)), "{status}: our hash");
        }
    }
    assert_eq!(world.service.seen().begun, 0);
    let fine = GreeterClient::new(channel);
    let fine = world.event_loop.block_on(async { fine.greet(name("x")).await });
    assert!(fine.is_ok(), "other services of the session are not harmed");
}

#[test]
fn misuse_is_told() {
    let world = World::new();
    let again =
        world.event_loop.serve(greeter::generated::GreeterServer::new(world.service.clone()));
    assert!(matches!(again, Err(ServeError::Service(_))), "{again:?}");
    let config = petasos::LoopConfig::default();
    assert!(Loop::new(config).is_err(), "one loop per thread");
    drop(world);
    drop(World::new());
}

#[test]
fn spawned_futures_give_their_outputs() {
    let world = World::new();
    let sum = world.event_loop.spawn(async { 1 + 1 });
    assert_eq!(world.event_loop.block_on(sum), Some(2));
    let failed = world.event_loop.spawn(async { panic!("a task that fails on purpose") });
    let failed: Option<Result<(), Status>> = world.event_loop.block_on(failed);
    assert_eq!(failed, None);
}

#[test]
fn nothing_is_lost_when_a_loop_ends_with_calls_under_way() {
    let world = World::new();
    let held = world.spawn(name("hold").into());
    let outside = world.client.greet(name("hold"));
    world.turn();
    let World { event_loop, service, client, .. } = world;
    drop(event_loop);
    assert_eq!(service.seen().dropped, 2, "handlers end with their loop");
    assert!(held.is_empty(), "its task is gone, too");
    drop(outside);
    let _: Msg<_> = name("x");
    drop(client);
}
