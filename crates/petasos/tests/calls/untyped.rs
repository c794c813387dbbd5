//! Services that become known at run time come and go.

use std::collections::VecDeque;

use petasos::rt::{self, MethodKind, ServiceRef};
use petasos::untyped::{Both, Client, Payload, Service};
use petasos::{Channel, Code, Request, Status};
use petasos_schema::Schema;

use crate::greeter::generated::GreeterServer;
use crate::greeter::*;

/// A schema of so many bytes, and a few more, with the service `churn.S` and this number.
fn long_schema(number: usize, bytes: usize) -> Schema {
    let value = |at| format!("V{number}_{at}_{} = {at};\n", "x".repeat(240));
    let values: String = (0..=bytes / 240).map(value).collect();
    let text = format!(
        "syntax = \"proto3\";\npackage churn;\nenum Long {{ {values} }}\n\
         message M {{ Long long = 1; }}\nservice S{number} {{ rpc Do(M) returns (M); }}\n"
    );
    let folder = std::env::temp_dir().join(format!("petasos-churn-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("there is room for a folder");
    std::fs::write(folder.join("churn.proto"), text).expect("there is room for a file");
    let compiled = petasos_schema::compile(["churn.proto"], [&folder], &Default::default());
    std::fs::remove_dir_all(&folder).expect("it is there");
    compiled.expect("it is well-formed").schema
}

#[test]
fn schemas_that_come_and_go_are_not_bounded_in_total() {
    let bytes = 1 << 20;
    let mut alive = VecDeque::new();
    for number in 0..70 {
        let schema = long_schema(number, bytes);
        assert!(schema.encode().len() > bytes);
        let service = Service::with_images(&schema, &format!("churn.S{number}"));
        alive.push_back(service.expect("the earlier ones have gone"));
        if alive.len() > 3 {
            alive.pop_front();
        }
        // Other tests have a few, too.
        assert!(Service::alive().bytes < 8 * bytes, "{:?}", Service::alive());
    }
    let schema = long_schema(69, bytes);
    let again = Service::with_images(&schema, "churn.S69").expect("it is there");
    assert!(again.info().is_same(alive.back().expect("it is kept").info()));
    assert_eq!(again.info().module().compact(), schema.encode());
}

/// Greeter, by names.
fn named() -> Service {
    let methods = [("Greet", MethodKind::Unary), ("Echo", MethodKind::Unary)];
    Service::named("hello.Greeter", &methods).expect("these are names")
}

fn greet(world: &World, client: &Client) -> Result<(), Code> {
    let message = Payload::from_bytes(b"\x0a\x03you").expect("it is well-formed");
    let call = client.unary("Greet", Request::new(message)).expect("there is such a method");
    ended(world.event_loop.block_on(call))
}

fn ended<T>(outcome: Result<T, Status>) -> Result<(), Code> {
    outcome.map(|_| ()).map_err(|status| status.code())
}

#[test]
fn a_channel_lets_go_of_a_service_that_it_has_bound_as_often() {
    let world = World::new();
    let (service, channel) = (named(), world.event_loop.channel_to_itself());
    let clients = [(); 2].map(|()| Client::new(&channel, service.clone()));
    channel.let_go(service.info());
    assert_eq!(greet(&world, &clients[0]), Ok(()), "the other client is there");
    channel.let_go(service.info());
    assert_eq!(greet(&world, &clients[0]), Ok(()), "the session has bound it");
    channel.let_go(service.info());
    let again = Client::new(&channel, service);
    assert_eq!(greet(&world, &again), Ok(()));
}

#[test]
fn calls_of_a_service_that_the_channel_has_let_go_of_fail_if_their_session_has_not_bound_it() {
    let world = World::new();
    let (service, channel) = (named(), world.event_loop.channel_to_itself());
    let client = Client::new(&channel, service.clone());
    let message = || Payload::from_bytes(b"").expect("it is well-formed");
    let begun = client.unary("Greet", Request::new(message())).expect("there is such a method");
    channel.let_go(service.info());
    assert_eq!(ended(world.event_loop.block_on(begun)), Err(Code::FailedPrecondition));
    assert_eq!(greet(&world, &client), Err(Code::FailedPrecondition));
    let opening = channel.bind(service.info());
    channel.let_go(service.info());
    let opening = opening.bidirectional::<Payload, Payload>(0);
    let opened = world.event_loop.block_on(async { opening.await.map(|_: Both| ()) });
    assert_eq!(opened.map_err(|status| status.code()), Err(Code::FailedPrecondition));
    let other = Client::new(&channel, service);
    assert_eq!(greet(&world, &other), Ok(()), "slots of those that failed are free");
}

#[test]
fn a_bind_whose_service_was_let_go_of_meanwhile_fails_its_calls() {
    let world = World::new();
    let (service, channel) = (named(), world.event_loop.channel_to_itself());
    let client = Client::new(&channel, service.clone());
    let message = Payload::from_bytes(b"").expect("it is well-formed");
    let call = client.unary("Greet", Request::new(message)).expect("there is such a method");
    // The bind is sent, and not answered.
    world.event_loop.run_turns(1);
    channel.let_go(service.info());
    assert_eq!(ended(world.event_loop.block_on(call)), Err(Code::FailedPrecondition));
}

#[test]
fn a_paused_service_cannot_be_bound_and_has_its_numbers_when_it_is_resumed() {
    let world = World::new();
    let name = "hello.Greeter";
    let client = |channel: &Channel| Client::new(channel, named());
    let before = client(&world.event_loop.channel_to_itself());
    assert_eq!(greet(&world, &before), Ok(()));
    assert_eq!(world.event_loop.pause(name).ok(), Some(true));
    assert_eq!(world.event_loop.pause(name).ok(), Some(false));
    let late = client(&world.event_loop.channel_to_itself());
    assert_eq!(greet(&world, &late), Err(Code::Unavailable));
    assert_eq!(greet(&world, &before), Ok(()), "its handlers are there");
    let greeter: ServiceRef = rt::Service::info(&GreeterServer::new(world.service.clone()));
    assert_eq!(world.event_loop.resume(named().info()).ok(), Some(false), "another hash");
    assert_eq!(world.event_loop.resume(&greeter).ok(), Some(true));
    assert_eq!(greet(&world, &late), Ok(()));
    assert_eq!(greet(&world, &before), Ok(()));
}
