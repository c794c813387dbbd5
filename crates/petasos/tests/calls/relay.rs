//! Calls and requests without futures, both ends in one loop.

use std::sync::Arc;
use std::time::Duration;

use petasos::relay::{
    Arrived, CallKey, Encoding, Event, RelayedCall, Reply, RequestName, read_request,
    read_response, read_returned,
};
use petasos::rt::{self, MethodInfo, ServiceRef};
use petasos::untyped::{NameError, Payload, Service};
use petasos::{Code, Codec, Metadata, Request, Response, ServiceClient, Status};
use petasos_message::{Image, ROOM_BYTES};
use petasos_schema::Schema;

use crate::greeter::generated::{GreeterClient, GreeterServer};
use crate::greeter::*;

/// The token of the first method.
const FIRST: u64 = 70;
const GREET: u64 = FIRST + 1;

/// A service of which nothing but names is known.
struct Passed(Service);

impl rt::Service for Passed {
    fn info(&self) -> ServiceRef {
        self.0.info().clone()
    }

    fn methods(self, methods: &mut rt::Methods) {
        let info = self.0.info();
        let service = Arc::new(());
        for MethodInfo { index, .. } in info.methods() {
            let otherwise = |service, _: Request<Payload>| async {
                let elsewhere = Status::internal("it came another way");
                (service, Err::<Response<Payload>, _>(elsewhere))
            };
            methods.relayed(index, FIRST + u64::from(index), &service, otherwise);
        }
    }
}

struct Relay {
    world: World,
    /// Calls the relayed service with types.
    typed: GreeterClient,
    /// The same without.
    untyped: ServiceClient,
}

/// Makes a service of a schema.
type Make = fn(&Schema, &str) -> Result<Service, NameError>;

impl Relay {
    fn new() -> Relay {
        Relay::of(Service::described, Service::described)
    }

    /// With a server and a client of services that are made so.
    fn of(server: Make, client: Make) -> Relay {
        let world = World::without_services();
        let typed = world.client.clone();
        let info = rt::Service::info(&GreeterServer::new(world.service.clone()));
        let [server, client] = [server, client]
            .map(|make| make(info.module().schema(), info.name()).expect("the schema has it"));
        world.event_loop.serve(Passed(server)).expect("it is the only service");
        let untyped = world.event_loop.channel_to_itself().bind(client.info());
        assert!(untyped.is_relayed());
        Relay { world, typed, untyped }
    }

    fn call(&self, text: &str, timeout: Option<Duration>, tag: u64) -> CallKey {
        let message = image(&protobuf(text));
        self.call_with(Encoding::Protobuf, message, timeout, tag)
    }

    fn call_natively(&self, text: &str, tag: u64) -> CallKey {
        self.call_with(Encoding::Native, native(name(text)), None, tag)
    }

    fn call_with(
        &self,
        encoding: Encoding,
        message: Image,
        timeout: Option<Duration>,
        tag: u64,
    ) -> CallKey {
        let mut metadata = Metadata::new();
        metadata.append("from", "here").expect("a fine key");
        let metadata = &metadata;
        let call = RelayedCall { method: 1, encoding, message, metadata, timeout };
        self.world.event_loop.relay(&self.untyped, call, tag).expect("there is time")
    }

    fn event(&self) -> Option<Event> {
        self.world.turn();
        self.world.event_loop.next_event()
    }

    fn arrived(&self) -> Arrived {
        match self.event() {
            Some(Event::Arrived(arrived)) => arrived,
            other => panic!("a request should have come, not {other:?}"),
        }
    }

    fn done(&self, tag: u64) -> Result<petasos_buf::MsgBuf, Status> {
        match self.event() {
            Some(Event::Done { tag: known, outcome }) if known == tag => outcome,
            other => panic!("call {tag} should have ended, not {other:?}"),
        }
    }

    fn reply(&self, name: RequestName, text: &str) {
        self.reply_with(name, (Encoding::Protobuf, image(&protobuf(text))));
    }

    fn reply_with(&self, name: RequestName, message: (Encoding, Image)) {
        let (mut metadata, mut trailers) = (Metadata::new(), Metadata::new());
        metadata.append("head", "a").expect("a fine key");
        trailers.append("tail", "b").expect("a fine key");
        let result = Ok(message);
        self.world.event_loop.reply(name, Reply { result, metadata, trailers });
    }
}

/// A message whose first field is a text.
fn protobuf(text: &str) -> Vec<u8> {
    let mut bytes = vec![0x0a];
    let mut len = text.len();
    while len >= 0x80 {
        bytes.push(len as u8 | 0x80);
        len >>= 7;
    }
    bytes.push(len as u8);
    bytes.extend_from_slice(text.as_bytes());
    bytes
}

fn image(bytes: &[u8]) -> Image {
    let message = Payload::from_bytes(bytes).expect("it is a message");
    petasos::Msg::to_protobuf(&message, ROOM_BYTES).expect("it is not too long")
}

/// A message as it is in memory.
fn native<T: petasos_message::Message>(message: petasos::Msg<T>) -> Image {
    let head = petasos::Msg::into_native_buf(message).expect("it is not too long");
    Image { head, tail: Vec::new() }
}

#[test]
fn a_call_is_relayed_at_both_ends_with_its_metadata() {
    let relay = Relay::new();
    relay.call("you", None, 5);
    let arrived = relay.arrived();
    assert_eq!(arrived.token, GREET);
    let request = read_request(&arrived).expect("it is well-formed");
    assert_eq!(arrived.bytes[request.body], protobuf("you"));
    assert_eq!(request.metadata.get("from"), Some("here"));
    assert!(relay.event().is_none(), "nothing ends before it is answered");
    relay.reply(arrived.name, "hello");
    let done = relay.done(5).expect("it was answered");
    let response = read_response(&done).expect("it is well-formed");
    assert_eq!(done[response.body], protobuf("hello"));
    assert_eq!(response.metadata.get("head"), Some("a"));
    assert_eq!(response.trailers.get("tail"), Some("b"));
    assert_eq!(relay.world.event_loop.runtime().held().handlers, 0);
}

#[test]
fn typed_callers_are_answered_and_may_compress() {
    let relay = Relay::new();
    let text = "long ".repeat(4000);
    for codec in [Codec::IDENTITY, Codec::GZIP] {
        let (client, list) = (relay.typed.clone(), Outcomes::default());
        let (request, outcomes) = (Request::new(name(&text)).with_codec(codec), list.clone());
        relay.world.event_loop.spawn(async move {
            let outcome = client.greet(request).await;
            list.0.borrow_mut().push(outcome.map(|greeting| greeting.text().to_owned()));
        });
        let arrived = relay.arrived();
        let request = read_request(&arrived).expect("it is well-formed");
        assert_eq!(arrived.bytes[request.body], protobuf(&text), "{codec:?}");
        relay.reply(arrived.name, &text);
        relay.world.turn();
        assert_eq!(outcomes.one().expect("it was answered"), text, "{codec:?}");
    }
}

#[test]
fn statuses_come_as_they_are() {
    let relay = Relay::new();
    relay.call("", None, 1);
    let name = relay.arrived().name;
    let status = Status::not_found("nobody").with_details(vec![1, 2]);
    let (metadata, trailers) = Default::default();
    relay.world.event_loop.reply(name, Reply { result: Err(status), metadata, trailers });
    let done = relay.done(1).expect("a status is a response");
    let status = read_response(&done).expect_err("it has failed");
    assert_eq!((status.code(), status.message()), (Code::NotFound, "nobody"));
    assert_eq!(status.details(), [1, 2]);
}

#[test]
fn what_nobody_waits_for_is_told_and_a_late_answer_does_nothing() {
    let relay = Relay::new();
    let key = relay.call("x", None, 9);
    let name = relay.arrived().name;
    relay.world.event_loop.give_up_relayed(key);
    // R11: the server is told with a later request in the same slot.
    let mut has_left = false;
    for tag in 10..100 {
        relay.call("y", None, tag);
        while let Some(event) = relay.event() {
            match event {
                Event::Left(left) => has_left = left == name,
                Event::Arrived(arrived) => {
                    relay.reply(name, "late");
                    relay.reply(arrived.name, "in time");
                }
                Event::Returned { .. } => panic!("protobuf is always taken"),
                Event::Done { tag: known, outcome } => {
                    let done = outcome.expect("it was answered");
                    let response = read_response(&done).expect("it is well-formed");
                    assert_eq!((known, &done[response.body]), (tag, &protobuf("in time")[..]));
                }
            }
        }
    }
    assert!(has_left);
}

#[test]
fn deadlines_end_both_ends() {
    let relay = Relay::new();
    relay.call("slow", Some(Duration::from_millis(20)), 3);
    let arrived = relay.arrived();
    assert!(arrived.deadline > relay.world.time.now());
    relay.world.pass_ms(40);
    let (mut has_left, mut status) = (false, None);
    while let Some(event) = relay.event() {
        match event {
            Event::Left(name) => has_left = name == arrived.name,
            Event::Done { tag: 3, outcome } => status = outcome.err(),
            other => panic!("nothing else happens: {other:?}"),
        }
    }
    assert!(has_left);
    assert_eq!(status.map(|status| status.code()), Some(Code::DeadlineExceeded));
    relay.reply(arrived.name, "late");
    assert!(relay.event().is_none());
    let zero = RelayedCall {
        method: 1,
        encoding: Encoding::Protobuf,
        message: image(b""),
        metadata: &Metadata::new(),
        timeout: Some(Duration::ZERO),
    };
    let refused = relay.world.event_loop.relay(&relay.untyped, zero, 4);
    assert_eq!(refused.expect_err("there is no time").code(), Code::DeadlineExceeded);
}

#[test]
fn places_are_used_again_and_names_are_not() {
    let relay = Relay::new();
    let mut names: Vec<RequestName> = Vec::new();
    for tag in 0..50 {
        relay.call("again", None, tag);
        let name = relay.arrived().name;
        assert!(name.index() == 0 && !names.contains(&name));
        names.iter().for_each(|earlier| relay.reply(*earlier, "wrong"));
        relay.reply(name, "right");
        let done = relay.done(tag).expect("it was answered");
        assert_eq!(done[read_response(&done).expect("it is well-formed").body], protobuf("right"));
        names.push(name);
    }
}

#[test]
fn images_are_relayed_as_they_are_if_both_ends_have_them() {
    let relay = Relay::of(Service::with_images, Service::with_images);
    relay.call_natively("you", 5);
    let arrived = relay.arrived();
    assert!(arrived.head.answer.native);
    let request = read_request(&arrived).expect("it is well-formed");
    assert_eq!(request.encoding, Encoding::Native);
    let sent = native(name("you"));
    assert_eq!(arrived.bytes[request.body], sent.head[ROOM_BYTES..]);
    assert_eq!(request.metadata.get("from"), Some("here"));
    relay.reply_with(arrived.name, (Encoding::Native, native(greeting("hello"))));
    let done = relay.done(5).expect("it was answered");
    let response = read_response(&done).expect("it is well-formed");
    assert_eq!(response.encoding, Encoding::Native);
    assert_eq!(done[response.body], native(greeting("hello")).head[ROOM_BYTES..]);
    assert_eq!(response.trailers.get("tail"), Some("b"));
}

#[test]
fn typed_callers_send_images_and_read_both_encodings() {
    let relay = Relay::of(Service::with_images, Service::with_images);
    for is_native in [true, false] {
        let (client, list) = (relay.typed.clone(), Outcomes::default());
        let outcomes = list.clone();
        relay.world.event_loop.spawn(async move {
            let outcome = client.greet(Request::new(name("you"))).await;
            list.0.borrow_mut().push(outcome.map(|greeting| greeting.text().to_owned()));
        });
        let arrived = relay.arrived();
        assert!(arrived.head.answer.native);
        let request = read_request(&arrived).expect("it is well-formed");
        assert_eq!(request.encoding, Encoding::Native);
        match is_native {
            true => {
                let message = native(greeting("you"));
                relay.reply_with(arrived.name, (Encoding::Native, message));
            }
            false => relay.reply(arrived.name, "hello, you"),
        }
        relay.world.turn();
        assert_eq!(outcomes.one().expect("it was answered"), "hello, you");
    }
}

#[test]
fn an_image_comes_back_from_a_server_that_has_none_and_goes_again_as_protobuf() {
    let relay = Relay::of(Service::described, Service::with_images);
    // Of more calls than a session has slots, some wait.
    for tag in 0..100 {
        relay.call_natively("you", tag);
    }
    let mut returned = Vec::new();
    while let Some(event) = relay.event() {
        let Event::Returned { tag, request: bytes } = event else { panic!("not {event:?}") };
        let request = read_returned(&bytes).expect("it is well-formed");
        assert_eq!(request.encoding, Encoding::Native);
        assert_eq!(bytes[request.body], native(name("you")).head[ROOM_BYTES..]);
        assert_eq!(request.metadata.get("from"), Some("here"));
        returned.push(tag);
    }
    returned.sort_unstable();
    assert_eq!(returned, (0..100).collect::<Vec<_>>());
    for tag in 0..100 {
        relay.call("you", None, tag);
        let arrived = relay.arrived();
        assert!(!arrived.head.answer.native);
        relay.reply(arrived.name, "hello");
        let done = relay.done(tag).expect("it was answered");
        assert_eq!(done[read_response(&done).expect("it is well-formed").body], protobuf("hello"));
    }
}

#[test]
fn an_image_that_was_given_up_does_not_come_back() {
    let relay = Relay::of(Service::described, Service::with_images);
    let key = relay.call_natively("you", 1);
    relay.world.event_loop.give_up_relayed(key);
    assert!(relay.event().is_none());
    relay.call("you", None, 2);
    relay.reply(relay.arrived().name, "hello");
    assert!(relay.done(2).is_ok());
}
