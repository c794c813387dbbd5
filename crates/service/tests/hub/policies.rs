//! Policies of both sides.

use std::sync::Arc;

use petasos_abi::{Contents, Descriptor, Request};
use petasos_base::sync::{AtomicBool, Ordering};
use petasos_call::{Code, Status};
use petasos_engine::{
    Declare, Decompose, Direction, Engine, FieldError, FieldId, FieldKind, ItemKind, MethodId,
    Policy, PolicyError, State, Value, Work,
};
use petasos_message::Leaf;

use crate::support::*;

/// Refuses requests with a forbidden name; or replaces the name by another.
pub struct Names {
    pub forbidden: &'static str,
    pub replacement: Option<&'static str>,
}

struct NamesEngine {
    forbidden: &'static str,
    replacement: Option<&'static str>,
    name: Option<FieldId>,
}

impl Policy for Names {
    fn engine(&self, _: Option<&State>) -> Result<Box<dyn Engine>, PolicyError> {
        let Names { forbidden, replacement } = *self;
        Ok(Box::new(NamesEngine { forbidden, replacement, name: None }))
    }

    fn state(&self) -> State {
        State { kind: "names".to_owned(), version: 1, json: "null".to_owned() }
    }
}

impl Engine for NamesEngine {
    fn method(
        &mut self,
        _: MethodId,
        _: &str,
        declare: &mut Declare<'_>,
    ) -> Result<(), FieldError> {
        // Both methods have it; their declarations differ, and the greeting's counts here.
        self.name = Some(declare.writes("name", FieldKind::Text)?);
        Ok(())
    }

    fn work(&mut self, work: &mut Work<'_>) {
        for direction in Direction::ALL {
            while let Some(item) = work.next(direction) {
                let name = self.name.and_then(|name| work.field(&item, name));
                let is_forbidden = name == Some(Value::Text(self.forbidden));
                match (work.kind(&item), self.replacement) {
                    (ItemKind::Request, None) if is_forbidden => {
                        work.end(item, Status::permission_denied("a forbidden name"));
                    }
                    (ItemKind::Request, Some(replacement)) if is_forbidden => {
                        let name = self.name.expect("it was read");
                        work.set_field(&item, name, Value::Text(replacement));
                        work.forward(item);
                    }
                    _ => work.forward(item),
                }
            }
        }
    }

    fn decompose(self: Box<Self>, _: &mut Decompose<'_>) -> Option<State> {
        None
    }
}

fn names(forbidden: &'static str, replacement: Option<&'static str>) -> Arc<dyn Policy> {
    Arc::new(Names { forbidden, replacement })
}

#[test]
fn e3_a_forbidden_name_never_reaches_the_server_whoever_forbids_it() {
    for side in ["client", "server"] {
        let mut world = World::new();
        let (mut client, mut server) = world.pair();
        let number = if side == "client" { client.number } else { server.number };
        world.hub.application(number).unwrap().attach(0, names("eve", None)).unwrap();
        let [_, eve, _] = ["ann", "eve", "bob"].map(|name| world.call(&mut client, name));
        world.run(&mut [&mut client, &mut server]);
        assert_eq!(client.ends(), [(eve, Code::PermissionDenied as u8, true, Contents::NONE)]);
        assert_eq!(world.serve(&mut server), ["ann", "bob"], "{side}");
        world.run(&mut [&mut client, &mut server]);
        assert_eq!(client.ends().len(), 2);
    }
}

#[test]
fn e2_e3_what_a_policy_writes_is_what_is_sent() {
    for side in ["client", "server"] {
        let mut world = World::new();
        let (mut client, mut server) = world.pair();
        let number = if side == "client" { client.number } else { server.number };
        let long = "a name that is much longer than the one before";
        world.hub.application(number).unwrap().attach(0, names("eve", Some(long))).unwrap();
        for name in ["ann", "eve"] {
            world.call(&mut client, name);
        }
        world.run(&mut [&mut client, &mut server]);
        assert_eq!(world.serve(&mut server), ["ann", long], "{side}");
    }
}

#[test]
fn e3_a_policy_that_needs_a_field_that_is_not_there_is_refused() {
    struct Wrong;
    impl Policy for Wrong {
        fn engine(&self, _: Option<&State>) -> Result<Box<dyn Engine>, PolicyError> {
            Ok(Box::new(WrongEngine))
        }
        fn state(&self) -> State {
            State { kind: "wrong".to_owned(), version: 1, json: "null".to_owned() }
        }
    }
    struct WrongEngine;
    impl Engine for WrongEngine {
        fn method(
            &mut self,
            _: MethodId,
            _: &str,
            declare: &mut Declare<'_>,
        ) -> Result<(), FieldError> {
            declare.reads("nme", FieldKind::Text).map(drop)
        }
        fn work(&mut self, _: &mut Work<'_>) {}
        fn decompose(self: Box<Self>, _: &mut Decompose<'_>) -> Option<State> {
            None
        }
    }
    let mut world = World::new();
    let client = world.app("client");
    let application = world.hub.application(client.number).unwrap();
    let refused = application.attach(0, Arc::new(Wrong)).unwrap_err().to_string();
    assert_eq!(refused, "greet.Greeter/Chat has no field `nme`");
}

#[test]
fn a_name_that_an_application_gives_itself_proves_nothing() {
    let access = petasos_engines::find("access").unwrap();
    let rules = r#"{"default": "deny", "rules": [
        {"name": "the client", "action": "allow", "identity": "client"}]}"#;
    for side in ["client", "server"] {
        let mut world = World::new();
        let (mut client, mut server) = world.pair();
        let number = if side == "client" { client.number } else { server.number };
        let policy = access.make(rules, None).unwrap().into();
        world.hub.application(number).unwrap().attach(0, policy).unwrap();
        let call = world.call(&mut client, "ann");
        world.run(&mut [&mut client, &mut server]);
        let denied = (call, Code::PermissionDenied as u8, true, Contents::NONE);
        assert_eq!(client.ends(), [denied], "{side}");
    }
}

/// An application that changes a name between its check and its use: while one thread flips the
/// bytes, another makes calls. None arrives with a forbidden name. `PETASOS_CALLS` says how many.
#[test]
fn d10_m23_a_name_that_changes_while_it_is_checked_is_checked_as_it_is_sent() {
    let mut world = World::new();
    let (mut client, mut server) = world.pair();
    world.hub.application(client.number).unwrap().attach(0, names("eve", None)).unwrap();
    let message = world.message("greet.Request", &[("name", Leaf::Text("ann"))]);
    let place = client.write(&message);
    let image = message.image();
    let at = image.windows(3).position(|bytes| bytes == b"ann").unwrap() as u64;
    let (file, stop) = (client.send.try_clone().unwrap(), Arc::new(AtomicBool::new(false)));
    let until = stop.clone();
    let flips = std::thread::spawn(move || {
        let mut flips = 0u64;
        while !until.load(Ordering::Relaxed) {
            let name: &[u8; 3] = if flips.is_multiple_of(2) { b"eve" } else { b"ann" };
            std::os::unix::fs::FileExt::write_all_at(&file, name, place.offset - 8 + at).unwrap();
            flips += 1;
        }
        flips
    });
    let calls = std::env::var("PETASOS_CALLS").map_or(20_000, |calls| calls.parse().unwrap());
    let (mut served, mut refused) = (0, 0);
    for _ in 0..calls {
        let call = client.next_call();
        let request = Request { message: place, ..client.request(call, GREET) };
        world.handle(&client, Descriptor::Request(request)).unwrap();
        world.run(&mut [&mut client, &mut server]);
        for name in world.serve(&mut server) {
            assert_ne!(name, "eve");
            served += 1;
        }
        world.run(&mut [&mut client, &mut server]);
        for said in std::mem::take(&mut client.said) {
            let Descriptor::End { status, message, metadata, .. } = said else { continue };
            refused += u64::from(status == Code::PermissionDenied as u8);
            world.release(&client, message).unwrap();
            world.release(&client, metadata).unwrap();
        }
        server.said.clear();
    }
    stop.store(true, Ordering::Relaxed);
    let flips = flips.join().unwrap();
    assert!(served + refused == calls && served > 0 && refused > 0, "{served} {refused} {flips}");
}
