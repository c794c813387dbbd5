//! Calls to and from other hosts: two daemons on two addresses of loopback, an application behind
//! each; and programs that use Petasos without a service.

use std::sync::Arc;
use std::time::Duration;

use petasos::grpc::GrpcConfig;
use petasos::rt::{self, MethodKind, ServiceRef};
use petasos::untyped::{Client as Untyped, Payload, Service};
use petasos::{Channel, Code, Msg, Request, Response, Sender, Server, Status, Streaming, block_on};
use petasos_abi::{CallNumber, Descriptor};
use petasos_attach::ask::Ask;
use petasos_attach::reason::Text;
use petasos_message::{DecodeLimits, FieldPath, Input, Leaf, NativeMsg, Types, Value};

use crate::support::*;

/// Two addresses of loopback, as two hosts have them.
const HERE: &str = "127.0.0.1:0";
const THERE: &str = "127.0.0.2:0";

fn deny(name: &str) -> String {
    format!(
        r#"[{{"application": "*", "kind": "access", "configuration": {{
            "default": "allow",
            "rules": [{{"name": "not {name}", "action": "deny", "methods": ["greet.Greeter/Greet"],
                "fields": [{{"path": "name", "is": {{"equals": "{name}"}}}}]}}]}}}}]"#
    )
}

/// Two daemons, of which the first knows the second as `greeter`.
pub fn pair(test: &str) -> (Daemon, Daemon) {
    let (there, address) = Daemon::start_reached(&format!("{test}-there"), None, THERE, &[]);
    let peers = [("greeter", &*address)];
    (Daemon::start_reached(&format!("{test}-here"), None, HERE, &peers).0, there)
}

/// A client that has begun a stream, and the server that was told of it.
fn chat(test: &str) -> (Daemon, Daemon, [(Client, CallNumber); 2]) {
    let (here, there) = pair(test);
    let mut server = there.attach("server");
    server.serve("greeter");
    let mut client = here.attach("client");
    let target = client.target("greeter");
    let near = client.begin_chat(target);
    let Heard::Request(far, None) = server.heard() else { panic!("no stream") };
    (here, there, [(client, near), (server, far)])
}

#[test]
fn calls_pass_the_policies_of_both_hosts() {
    let (there, address) = Daemon::start_reached("both-there", Some(&deny("mallory")), THERE, &[]);
    let peers = [("greeter", &*address)];
    let (here, _) = Daemon::start_reached("both-here", Some(&deny("eve")), HERE, &peers);
    let server = there.serve("server", 3);
    let mut client = here.attach("client");
    let by_name = client.target("greeter");
    let by_address = client.target(&address);
    assert_eq!(client.greet(by_name, "ann"), Ok("hello, ann".to_owned()));
    assert_eq!(client.greet(by_name, "eve"), Err(7), "this host refuses her");
    assert_eq!(client.greet(by_name, "mallory"), Err(7), "that host refuses him");
    assert_eq!(client.greet(by_address, "bob"), Ok("hello, bob".to_owned()));
    let long = "x".repeat(3_000_000);
    assert_eq!(client.greet(by_name, &long), Ok(format!("hello, {long}")));
    assert_eq!(server.join().unwrap(), ["ann", "bob", &*long]);
}

#[test]
fn names_that_nobody_serves_end_calls() {
    let (here, there) = pair("nobody");
    let mut client = here.attach("client");
    let [greeter, unknown, wrong] =
        ["greeter", "unknown", "http://127.0.0.1:1"].map(|name| client.target(name));
    for (target, status, has_not_run) in [
        (greeter, Code::Unimplemented, false),
        (unknown, Code::Unavailable, true),
        (wrong, Code::InvalidArgument, true),
    ] {
        let call = client.begin(target, "ann");
        assert_eq!(client.heard(), Heard::End(call, status as u8, has_not_run));
    }
    // Somebody comes, and the same connection is good for that; and goes.
    let server = there.serve("server", 1);
    assert_eq!(client.greet(greeter, "ann"), Ok("hello, ann".to_owned()));
    server.join().unwrap();
    assert_eq!(client.greet(greeter, "bob"), Err(Code::Unavailable as u8));
    let server = there.serve("server", 1);
    assert_eq!(client.greet(greeter, "carl"), Ok("hello, carl".to_owned()));
    server.join().unwrap();
}

#[test]
fn streams_go_both_ways_between_hosts() {
    let (_here, _there, [(mut client, near), (mut server, far)]) = chat("streams");
    for round in 0..50 {
        let text = format!("{round} {}", "x".repeat(round * 1000));
        client.say_text(near, &text);
        assert_eq!(server.heard(), Heard::Message(far, text.clone()));
        server.say_text(far, &text);
        assert_eq!(client.heard(), Heard::Message(near, text));
    }
    client.say(&Descriptor::Close { call: near });
    assert_eq!(server.heard(), Heard::Close(far));
    server.say_text(far, "last");
    server.end(far, 0);
    assert_eq!(client.heard(), Heard::Message(near, "last".to_owned()));
    assert_eq!(client.heard(), Heard::End(near, 0, false));
}

#[test]
fn a_sender_that_is_faster_than_its_receiver_is_held_up_and_loses_nothing() {
    let (_here, _there, [(mut client, near), (mut server, far)]) = chat("fast");
    let count = 400;
    let sender = std::thread::spawn(move || {
        for number in 0..count {
            client.say_text(near, &format!("{number} {}", "x".repeat(100_000)));
        }
        client.say(&Descriptor::Close { call: near });
        client
    });
    std::thread::sleep(Duration::from_millis(300));
    for number in 0..count {
        let Heard::Message(_, text) = server.heard() else { panic!("no message") };
        assert!(text.starts_with(&format!("{number} ")), "{}", &text[..10]);
    }
    assert_eq!(server.heard(), Heard::Close(far));
    server.end(far, 0);
    assert_eq!(sender.join().unwrap().heard(), Heard::End(near, 0, false));
}

#[test]
fn who_gives_up_or_goes_is_told_to_the_other_host() {
    let (here, there, [(mut client, near), (mut server, far)]) = chat("gives-up");
    client.say(&Descriptor::Cancel { call: near });
    assert_eq!(server.heard(), Heard::Cancel(far));
    // The client goes.
    let mut other = here.attach("other");
    let target = other.target("greeter");
    other.begin_chat(target);
    let Heard::Request(far, None) = server.heard() else { panic!("no stream") };
    drop(other);
    assert_eq!(server.heard(), Heard::Cancel(far));
    // The server goes, with a stream and a call.
    let target = client.target("greeter");
    let calls = [client.begin_chat(target), client.begin(target, "ann")];
    for _ in calls {
        assert!(matches!(server.heard(), Heard::Request(..)));
    }
    drop(server);
    let mut ends = [client.heard(), client.heard()];
    ends.sort_by_key(|end| matches!(end, Heard::End(call, ..) if *call == calls[1]));
    assert_eq!(ends, calls.map(|call| Heard::End(call, Code::Unavailable as u8, false)));
    drop(there);
}

#[test]
fn r10_a_deadline_ends_a_call_at_both_hosts() {
    let (here, there) = pair("deadline");
    let mut server = there.attach("server");
    server.serve("greeter");
    let mut client = here.attach("client");
    let target = client.target("greeter");
    let call = client.begin_within(target, "ann", 200_000);
    let Heard::Request(far, Some(_)) = server.heard() else { panic!("no call") };
    assert_eq!(client.heard(), Heard::End(call, Code::DeadlineExceeded as u8, false));
    assert_eq!(server.heard(), Heard::Cancel(far));
}

#[test]
fn a_service_that_is_killed_ends_calls_to_its_host_and_no_others() {
    let (here, mut there, [(mut client, near), (server, _)]) = chat("killed");
    let mut local = here.attach("local");
    local.serve("near");
    let local = std::thread::spawn(move || (0..2).map(|_| local.answer()).collect::<Vec<_>>());
    let mut other = here.attach("other");
    there.kill();
    let target = other.target("near");
    assert_eq!(other.greet(target, "ann"), Ok("hello, ann".to_owned()));
    assert_eq!(client.heard(), Heard::End(near, Code::Unavailable as u8, false));
    assert_eq!(other.greet(target, "bob"), Ok("hello, bob".to_owned()));
    assert_eq!(local.join().unwrap(), ["ann", "bob"]);
    drop(server);
}

#[test]
fn a_service_that_is_killed_and_comes_again_is_called_again() {
    let (mut there, address) = Daemon::start_reached("again-first", None, THERE, &[]);
    let peers = [("greeter", &*address)];
    let (here, _) = Daemon::start_reached("again-here", None, HERE, &peers);
    let server = there.serve("server", 1);
    let mut client = here.attach("client");
    let target = client.target("greeter");
    assert_eq!(client.greet(target, "ann"), Ok("hello, ann".to_owned()));
    server.join().unwrap();
    there.kill();
    assert_eq!(client.greet(target, "bob"), Err(Code::Unavailable as u8));
    let listen = address.strip_prefix("petasos://").unwrap();
    let (there, _) = Daemon::start_reached("again-second", None, listen, &[]);
    let server = there.serve("server", 1);
    let said = until_available(&mut client, target, "carl");
    assert_eq!(said, Ok("hello, carl".to_owned()));
    assert_eq!(server.join().unwrap(), ["carl"], "what failed has not run");
}

/// Calls until the other host answers: connections wait before they are tried again.
fn until_available(client: &mut Client, target: u32, name: &str) -> Result<String, u8> {
    for _ in 0..3000 {
        match client.greet(target, name) {
            Err(code) if code == Code::Unavailable as u8 => {
                std::thread::sleep(Duration::from_millis(10));
            }
            said => return said,
        }
    }
    panic!("it stays unavailable");
}

#[test]
fn a_newer_version_of_a_service_takes_the_earlier_ones_place() {
    let (here, there) = pair("newer");
    let mut client = here.attach("client");
    let target = client.target("greeter");
    for is_newer in [false, true, false] {
        let mut server = match is_newer {
            true => there.attach_newer("server"),
            false => there.attach("server"),
        };
        server.serve("greeter");
        let server = std::thread::spawn(move || server.answer());
        assert_eq!(until_available(&mut client, target, "ann"), Ok("hello, ann".to_owned()));
        assert_eq!(server.join().unwrap(), "ann");
    }
}

#[test]
fn r3_versions_that_contradict_each_other_are_not_called_on_another_host() {
    let (here, there) = pair("contradict");
    let mut client = here.attach("client");
    let target = client.target("greeter");
    for version in ["other", "streamed"] {
        let mut server = there.attach_version("server", version);
        server.serve("greeter");
        // Until the service there has told that it serves.
        let refused = until_available(&mut client, target, "ann");
        assert_eq!(refused, Err(Code::FailedPrecondition as u8), "{version}");
        assert_eq!(client.greet(target, "ann"), refused, "{version}");
        assert!(!server.has_heard(), "{version}");
    }
}

/// The schema of the tests, for programs without a service.
struct Plain {
    types: Arc<Types>,
    service: Service,
}

impl Plain {
    fn new(types: &Arc<Types>) -> Plain {
        let service = Service::described(types.schema(), "greet.Greeter").unwrap();
        Plain { types: types.clone(), service }
    }

    fn message(&self, name: &str, field: &str, text: &str) -> Msg<Payload> {
        let (id, _) = self.types.schema().message_by_name(name).unwrap();
        let mut message = NativeMsg::empty(&self.types, id);
        message.set(&FieldPath::new(&self.types, id, field).unwrap(), Leaf::Text(text)).unwrap();
        Payload::from_bytes(message.to_protobuf(0).unwrap().into_buf().as_slice()).unwrap()
    }

    fn text(&self, message: &Payload, name: &str, field: &str) -> String {
        let (id, _) = self.types.schema().message_by_name(name).unwrap();
        let bytes = message.to_bytes().unwrap();
        let message = {
            let limits = DecodeLimits::for_input(bytes.len());
            let input = Input::Borrowed(&bytes);
            NativeMsg::from_protobuf(&self.types, id, input, &limits, 1 << 28).unwrap()
        };
        match message.get(&FieldPath::new(&self.types, id, field).unwrap()) {
            Some(Value::String(text)) => text.to_owned(),
            _ => panic!("no text"),
        }
    }

    fn client(&self, address: &str) -> Untyped {
        Untyped::new(&block_on(Channel::connect(address)).unwrap(), self.service.clone())
    }
}

#[test]
fn a_plain_client_calls_an_application_behind_a_service() {
    let (daemon, address) = Daemon::start_reached("plain-client", Some(&deny("eve")), HERE, &[]);
    let mut server = daemon.attach("server");
    let plain = Plain::new(&server.types);
    let client = plain.client(&address);
    let greet = |name: &str| {
        let request = Request::new(plain.message("greet.Request", "name", name));
        client.unary("Greet", request).unwrap()
    };
    assert_eq!(block_on(greet("ann")).unwrap_err().code(), Code::Unimplemented);
    server.serve("greeter");
    let call = greet("ann");
    let server = std::thread::spawn(move || {
        assert_eq!(server.answer(), "ann");
        server
    });
    let answered = block_on(call).unwrap();
    assert_eq!(plain.text(&answered, "greet.Response", "text"), "hello, ann");
    assert_eq!(block_on(greet("eve")).unwrap_err().code(), Code::PermissionDenied);
    let mut server = server.join().unwrap();
    // A stream, which the client gives up in the end.
    block_on(async {
        let (mut out, mut back) = client.bidirectional("Chat").unwrap().await.unwrap();
        out.send(plain.message("greet.Request", "name", "hi")).await.unwrap();
        let Heard::Request(call, None) = server.heard() else { panic!("no stream") };
        assert_eq!(server.heard(), Heard::Message(call, "hi".to_owned()));
        server.say_text(call, "ho");
        let message = back.message().await.unwrap().unwrap();
        assert_eq!(plain.text(&message, "greet.Response", "text"), "ho");
        drop((out, back));
        assert!(matches!(server.heard(), Heard::Cancel(_) | Heard::Close(_)));
    });
}

#[test]
fn messages_that_are_too_long_or_wrong_end_their_calls_alone() {
    let (daemon, address) = Daemon::start_reached("hostile-sizes", None, HERE, &[]);
    let server = daemon.serve("server", 1);
    let mut client = daemon.attach("client");
    let plain = Plain::new(&client.types);
    let caller = plain.client(&address);
    let status = |message: Msg<Payload>| {
        let call = caller.unary("Greet", Request::new(message)).unwrap();
        block_on(call).unwrap_err().code()
    };
    // An application takes 16 MiB.
    let long = plain.message("greet.Request", "name", &"x".repeat(17 << 20));
    assert_eq!(status(long), Code::ResourceExhausted);
    // Field 1, no UTF-8.
    let wrong = Payload::from_bytes(&[0x0a, 2, 0xff, 0xff]).unwrap();
    assert_eq!(status(wrong), Code::Internal);
    let target = client.target("greeter");
    assert_eq!(client.greet(target, "ann"), Ok("hello, ann".to_owned()));
    server.join().unwrap();
}

/// Greets, and echoes.
struct Greets {
    plain: Arc<Plain>,
}

impl rt::Service for Greets {
    fn info(&self) -> ServiceRef {
        self.plain.service.info().clone()
    }

    fn methods(self, methods: &mut rt::Methods) {
        for method in self.info().methods() {
            match method.kind {
                MethodKind::Unary => {
                    let greet = |plain: Arc<Plain>, request: Request<Payload>| async move {
                        let name = plain.text(&request, "greet.Request", "name");
                        let text = format!("hi, {name}");
                        let mut response =
                            Response::new(plain.message("greet.Response", "text", &text));
                        if name == "nobody" {
                            return (plain, Err(Status::not_found("nobody")));
                        }
                        response.metadata_mut().append("from", "far").unwrap();
                        (plain, Ok(response))
                    };
                    methods.unary(method.index, &self.plain, greet);
                }
                _ => methods.bidirectional(method.index, &self.plain, echo),
            }
        }
    }
}

async fn echo(
    plain: Arc<Plain>,
    mut requests: Streaming<Payload>,
    mut responses: Sender<Payload>,
) -> (Arc<Plain>, Result<(), Status>) {
    responses.metadata_mut().append("from", "far").unwrap();
    loop {
        let message = match requests.message().await {
            Ok(Some(message)) => message,
            Ok(None) => return (plain, Ok(())),
            Err(status) => return (plain, Err(status)),
        };
        let text = plain.text(&message, "greet.Request", "name");
        let text = plain.message("greet.Response", "text", &text);
        if let Err(status) = responses.send(text).await {
            return (plain, Err(status));
        }
    }
}

#[test]
fn an_application_behind_a_service_calls_a_plain_server() {
    let (daemon, _) = Daemon::start_reached("plain-server", None, HERE, &[]);
    let mut client = daemon.attach("client");
    let plain = Arc::new(Plain::new(&client.types));
    let server = Server::builder().add(Greets { plain }).listen("127.0.0.1:0").start().unwrap();
    let address = format!("petasos://{}", server.local_address().unwrap());
    let target = client.target(&address);
    assert_eq!(client.greet(target, "ann"), Ok("hi, ann".to_owned()));
    assert_eq!(client.greet(target, "nobody"), Err(Code::NotFound as u8));
    let call = client.begin_chat(target);
    client.say_text(call, "a");
    assert_eq!(client.heard(), Heard::Head(call));
    assert_eq!(client.heard(), Heard::Message(call, "a".to_owned()));
    client.say_text(call, "b");
    assert_eq!(client.heard(), Heard::Message(call, "b".to_owned()));
    client.say(&Descriptor::Close { call });
    assert_eq!(client.heard(), Heard::End(call, 0, false));
    // The server goes with a call under way.
    let call = client.begin_chat(target);
    client.say_text(call, "c");
    assert_eq!(client.heard(), Heard::Head(call));
    assert_eq!(client.heard(), Heard::Message(call, "c".to_owned()));
    drop(server);
    assert_eq!(client.heard(), Heard::End(call, Code::Unavailable as u8, false));
}

#[test]
fn a_name_may_stand_for_a_grpc_server() {
    let schema = petasos_schema::compile(["greet.proto"], [PROTOS], &Default::default()).unwrap();
    let plain = Arc::new(Plain::new(&Types::new(schema.schema).unwrap()));
    let server = Server::builder().add(Greets { plain });
    let server = server.grpc("127.0.0.1:0", GrpcConfig::default()).start().unwrap();
    let address = format!("grpc://{}", server.grpc_address().unwrap());
    let peers = [("greeter", &*address)];
    let (daemon, _) = Daemon::start_reached("grpc-peer", Some(&deny("eve")), HERE, &peers);
    let mut client = daemon.attach("client");
    let target = client.target("greeter");
    assert_eq!(client.greet(target, "ann"), Ok("hi, ann".to_owned()));
    assert_eq!(client.greet(target, "nobody"), Err(Code::NotFound as u8));
    assert_eq!(client.greet(target, "eve"), Err(Code::PermissionDenied as u8));
    let call = client.begin_chat(target);
    for text in ["a", "b"] {
        client.say_text(call, text);
        if text == "a" {
            assert_eq!(client.heard(), Heard::Head(call));
        }
        assert_eq!(client.heard(), Heard::Message(call, text.to_owned()));
    }
    client.say(&Descriptor::Close { call });
    assert_eq!(client.heard(), Heard::End(call, 0, false));
}

#[test]
fn what_an_application_only_calls_is_not_offered_in_its_name() {
    let peer = [("elsewhere", "petasos://127.0.0.1:9")];
    let (daemon, address) = Daemon::start_reached("only-calls", None, HERE, &peer);
    // It serves something and calls the greeter, which attaches later.
    let mut front = daemon.attach_caller("front");
    front.serve("front");
    let refused = front.attachment.ask(&Ask::Serve(Text::new("elsewhere"))).unwrap_err();
    assert!(refused.to_string().contains("served by another host"), "{refused}");
    let server = daemon.serve("server", 1);
    let plain = Plain::new(&front.types);
    let request = Request::new(plain.message("greet.Request", "name", "ann"));
    let answered = block_on(plain.client(&address).unary("Greet", request).unwrap()).unwrap();
    assert_eq!(plain.text(&answered, "greet.Response", "text"), "hello, ann");
    assert_eq!(server.join().unwrap(), ["ann"]);
}
