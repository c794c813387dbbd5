//! Callers and servers with other versions of a service (R3).

use petasos_abi::{Contents, Descriptor, Request};
use petasos_call::Code;
use petasos_message::{FieldPath, Leaf, NativeMsg, Types, Value};
use petasos_service::ApplicationLimits;

use crate::crossing::Hubs;
use crate::remote::say;
use crate::support::*;

/// A schema of the folder with this name.
fn version(name: &str) -> petasos_schema::Schema {
    let protos = format!("{}/tests/protos/{name}", env!("CARGO_MANIFEST_DIR"));
    petasos_schema::compile(["greet.proto"], [protos], &Default::default()).unwrap().schema
}

/// A client at one hub, and a server of another version at the same or the other hub.
fn pair(hubs: &mut Hubs, at: usize, name: &str) -> (App, App) {
    let client = hubs.worlds[0].app("client");
    let ours = std::mem::replace(&mut hubs.worlds[at].schema, version(name).encode());
    let server = hubs.worlds[at].app("server");
    hubs.worlds[at].schema = ours;
    hubs.worlds[at].hub.serve(server.number, "greeter").unwrap();
    hubs.worlds[0].hub.target(client.number, "greeter").unwrap();
    (client, server)
}

/// Methods go by name: the next version has one more, between the others.
const NEXT_GREET: u16 = 2;

#[test]
fn r3_a_compatible_version_is_called_as_its_own_and_knows_its_own_fields() {
    for at in [0, 1] {
        let mut hubs = Hubs::new(2);
        let (mut client, mut server) = pair(&mut hubs, at, "newer");
        let call = hubs.worlds[0].call(&mut client, "ann");
        hubs.run(&mut [(0, &mut client), (at, &mut server)]);
        let requests = server.take(|said| match said {
            Descriptor::Request(request) => Some(*request),
            _ => None,
        });
        let [request] = requests[..] else { panic!("{:?}", server.said) };
        assert_eq!(request.method, NEXT_GREET);
        // It has the layout of the server's version.
        let types = Types::new(version("newer")).unwrap();
        let (id, _) = types.schema().message_by_name("greet.Request").unwrap();
        let image = hubs.worlds[at].bytes(&server, request.message);
        let message = NativeMsg::received(&types, id, &image).unwrap();
        let name = FieldPath::new(&types, id, "name").unwrap();
        assert!(matches!(message.get(&name), Some(Value::String("ann"))));
        let response = hubs.worlds[at].message("greet.Response", &[("text", Leaf::Text("hi"))]);
        let message = server.write(&response);
        let (call_there, metadata) = (request.call, Contents::NONE);
        let end =
            Descriptor::End { call: call_there, status: 0, has_not_run: false, message, metadata };
        hubs.worlds[at].handle(&server, end).unwrap();
        hubs.run(&mut [(0, &mut client), (at, &mut server)]);
        let [(number, 0, false, message)] = client.ends()[..] else { panic!("{:?}", client.said) };
        assert_eq!(number, call);
        assert_eq!(hubs.worlds[0].text(&client, "greet.Response", message, "text"), "hi");
    }
}

#[test]
fn r3_streams_go_between_compatible_versions() {
    for at in [0, 1] {
        let mut hubs = Hubs::new(2);
        let (mut client, mut server) = pair(&mut hubs, at, "newer");
        let call = client.next_call();
        let request = client.request(call, CHAT);
        hubs.worlds[0].handle(&client, Descriptor::Request(request)).unwrap();
        say(&mut hubs.worlds[0], &mut client, call, "one");
        say(&mut hubs.worlds[0], &mut client, call, "two");
        hubs.run(&mut [(0, &mut client), (at, &mut server)]);
        let messages = server.take(|said| match said {
            Descriptor::Message { message, .. } => Some(*message),
            _ => None,
        });
        let types = Types::new(version("newer")).unwrap();
        let (id, _) = types.schema().message_by_name("greet.Request").unwrap();
        let name = FieldPath::new(&types, id, "name").unwrap();
        let names = messages.into_iter().map(|message| {
            let image = hubs.worlds[at].bytes(&server, message);
            let message = NativeMsg::received(&types, id, &image).unwrap();
            match message.get(&name) {
                Some(Value::String(name)) => name.to_owned(),
                _ => panic!("it has a name"),
            }
        });
        assert_eq!(names.collect::<Vec<_>>(), ["one", "two"]);
    }
}

#[test]
fn r3_versions_that_contradict_each_other_are_not_called() {
    for (name, why) in [("other", "field 1 is another"), ("streamed", "it streams otherwise")] {
        for at in [0, 1] {
            let mut hubs = Hubs::new(2);
            let (mut client, mut server) = pair(&mut hubs, at, name);
            for _ in 0..3 {
                hubs.worlds[0].call(&mut client, "ann");
                hubs.run(&mut [(0, &mut client), (at, &mut server)]);
                let ended = client.take(|said| match said {
                    Descriptor::End { status, has_not_run, metadata, .. } => {
                        Some((*status, *has_not_run, *metadata))
                    }
                    _ => None,
                });
                let [(status, true, metadata)] = ended[..] else { panic!("{ended:?}") };
                assert_eq!(status, Code::FailedPrecondition as u8);
                let said = hubs.worlds[0].bytes(&client, metadata);
                assert!(String::from_utf8_lossy(&said).contains(why), "{name}");
                assert!(server.said.is_empty());
            }
        }
    }
}

#[test]
fn a_message_that_becomes_too_long_ends_its_call_at_both_ends() {
    for at in [0, 1] {
        let mut hubs = Hubs::new(2);
        let limits = ApplicationLimits { message_bytes_max: 64, ..ApplicationLimits::default() };
        let client = hubs.worlds[0].app("client");
        let ours = std::mem::replace(&mut hubs.worlds[at].schema, version("newer").encode());
        let server = hubs.worlds[at].app_with("server", SEND_BYTES, limits);
        hubs.worlds[at].schema = ours;
        hubs.worlds[at].hub.serve(server.number, "greeter").unwrap();
        hubs.worlds[0].hub.target(client.number, "greeter").unwrap();
        let (mut client, mut server) = (client, server);
        let request: fn(&mut App, Contents) -> Request = |app, message| {
            let call = app.next_call();
            Request { message, ..app.request(call, GREET) }
        };
        let message =
            hubs.worlds[0].message("greet.Request", &[("name", Leaf::Text("a long name"))]);
        let message = client.write(&message);
        let said = request(&mut client, message);
        hubs.worlds[0].handle(&client, Descriptor::Request(said)).unwrap();
        hubs.run(&mut [(0, &mut client), (at, &mut server)]);
        let ends = client.ends();
        assert_eq!((ends.len(), ends[0].1), (1, Code::ResourceExhausted as u8), "{at}");
        let counts = |number| {
            let world = &mut hubs.worlds[at];
            world.hub.application(number).unwrap().datapath().counts()
        };
        let mut counts = counts;
        let there = counts(server.number);
        assert_eq!((there.queued, there.held), (0, 0));
        assert!(server.said.iter().all(|said| !matches!(said, Descriptor::Request(_))));
    }
}
