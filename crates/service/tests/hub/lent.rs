//! Long leaves, which are read where their sender has them (ADR 17, 4).

use std::os::unix::fs::FileExt;
use std::sync::Arc;

use petasos_abi::{CallNumber, Contents, Descriptor, Request};
use petasos_base::sync::{AtomicU32, Ordering};
use petasos_call::{Code, Status};
use petasos_engine::{
    Declare, Decompose, Direction, Engine, FieldError, FieldId, FieldKind, ItemKind, MethodId,
    Policy, PolicyError, State, Value, Work,
};
use petasos_message::{GATHER_BYTES_MIN, Leaf, NativeMsg};
use petasos_service::ApplicationLimits;

use crate::remote;
use crate::support::*;

/// Refuses requests whose blob begins with a 6.
struct NoSix;

struct NoSixEngine(Option<FieldId>);

impl Policy for NoSix {
    fn engine(&self, _: Option<&State>) -> Result<Box<dyn Engine>, PolicyError> {
        Ok(Box::new(NoSixEngine(None)))
    }

    fn state(&self) -> State {
        State { kind: "no-six".to_owned(), version: 1, json: "null".to_owned() }
    }
}

impl Engine for NoSixEngine {
    fn method(
        &mut self,
        _: MethodId,
        _: &str,
        declare: &mut Declare<'_>,
    ) -> Result<(), FieldError> {
        self.0 = Some(declare.reads("blob", FieldKind::Bytes)?);
        Ok(())
    }

    fn work(&mut self, work: &mut Work<'_>) {
        for direction in Direction::ALL {
            while let Some(item) = work.next(direction) {
                let blob = self.0.and_then(|blob| work.field(&item, blob));
                let is_forbidden = matches!(blob, Some(Value::Bytes([6, ..])));
                match work.kind(&item) {
                    ItemKind::Request if is_forbidden => {
                        work.end(item, Status::permission_denied("a six"));
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

/// The request of a call with a blob of these bytes, as it lies in the send heap.
fn long(world: &World, app: &mut App, byte: u8) -> Contents {
    let blob = vec![byte; GATHER_BYTES_MIN];
    let fields = [("name", Leaf::Text("long")), ("blob", Leaf::Bytes(&blob))];
    app.write(&world.message("greet.Request", &fields))
}

fn call(world: &mut World, app: &mut App, message: Contents) -> CallNumber {
    let call = app.next_call();
    let request = Request { message, ..app.request(call, GREET) };
    world.handle(app, Descriptor::Request(request)).unwrap();
    call
}

/// Fills the blob of a message with other bytes, as a hostile application may at any time.
fn flip(app: &App, message: Contents, byte: u8) {
    let blob = message.offset - 8 + u64::from(message.bytes) - GATHER_BYTES_MIN as u64;
    app.send.write_all_at(&vec![byte; GATHER_BYTES_MIN], blob).unwrap();
}

fn released(app: &mut App) -> Vec<u64> {
    let released = app.take(|said| match said {
        Descriptor::Release(released) => Some(released.tokens().to_vec()),
        _ => None,
    });
    released.concat()
}

/// The blobs that an application was given.
fn blobs(world: &World, app: &mut App) -> Vec<Vec<u8>> {
    let requests = app.take(|said| match said {
        Descriptor::Request(request) => Some(request.message),
        _ => None,
    });
    let blob =
        |message| world.bytes(app, message).split_off(message.bytes as usize - GATHER_BYTES_MIN);
    requests.into_iter().map(blob).collect()
}

#[test]
fn d9_a_long_message_is_the_applications_again_when_it_was_delivered() {
    let mut world = World::new();
    let (mut client, mut server) = world.pair();
    let message = long(&world, &mut client, 1);
    call(&mut world, &mut client, message);
    world.listen(&mut client);
    assert!(released(&mut client).is_empty(), "it waits in the datapath");
    world.run(&mut [&mut client, &mut server]);
    assert_eq!(released(&mut client), [message.offset]);
    assert_eq!(blobs(&world, &mut server), [vec![1; GATHER_BYTES_MIN]]);
}

#[test]
fn a_message_that_leaves_the_host_is_lent_until_the_transport_drops_it_on_any_thread() {
    let mut world = remote::world();
    let told = Arc::new(AtomicU32::new(0));
    world.hub.set_notifier({
        let told = told.clone();
        move || {
            told.fetch_add(1, Ordering::Relaxed);
        }
    });
    let mut client = remote::caller(&mut world);
    let message = long(&world, &mut client, 1);
    call(&mut world, &mut client, message);
    world.run(&mut [&mut client]);
    let begun = remote::begun(&mut world).expect("it leaves");
    assert!(begun.message.as_ref().is_some_and(NativeMsg::is_gathered));
    world.run(&mut [&mut client]);
    assert!((released(&mut client).is_empty(), told.load(Ordering::Relaxed)) == (true, 0));
    std::thread::spawn(move || drop(begun)).join().unwrap();
    assert_eq!(told.load(Ordering::Relaxed), 1, "the hub is to turn");
    world.listen(&mut client);
    assert_eq!(released(&mut client), [message.offset]);
}

#[test]
fn what_is_lent_outlives_its_application() {
    let mut world = remote::world();
    let mut client = remote::caller(&mut world);
    let message = long(&world, &mut client, 7);
    call(&mut world, &mut client, message);
    world.run(&mut [&mut client]);
    let mut begun = remote::begun(&mut world).expect("it leaves");
    world.hub.remove(client.number, NOW);
    let buf = begun.message.take().unwrap().into_buf();
    let mut blob = vec![0; GATHER_BYTES_MIN];
    buf.copy_range(buf.len() - GATHER_BYTES_MIN, &mut blob);
    assert_eq!(blob, vec![7; GATHER_BYTES_MIN]);
}

#[test]
fn m23_a_leaf_that_a_policy_reads_is_copied_before_it_is_judged() {
    for at_server in [false, true] {
        let mut world = World::new();
        let (mut client, mut server) = world.pair();
        let judge = if at_server { server.number } else { client.number };
        world.hub.application(judge).unwrap().attach(0, Arc::new(NoSix)).unwrap();
        let [allowed, forbidden] = [1, 6].map(|byte| long(&world, &mut client, byte));
        call(&mut world, &mut client, allowed);
        let refused = call(&mut world, &mut client, forbidden);
        if !at_server {
            // It is judged by what is there now, whatever is written next.
            flip(&client, allowed, 6);
            flip(&client, forbidden, 1);
        }
        world.run(&mut [&mut client, &mut server]);
        assert_eq!(blobs(&world, &mut server), [vec![1; GATHER_BYTES_MIN]], "{at_server}");
        let [(call, code, ..)] = client.ends()[..] else { panic!("one is refused") };
        assert_eq!((call, code), (refused, Code::PermissionDenied as u8));
        let mut back = released(&mut client);
        back.sort_unstable();
        assert_eq!(back, [allowed.offset, forbidden.offset]);
    }
}

#[test]
fn a_leaf_that_changes_while_it_waits_arrives_changed_and_nothing_else_does() {
    let mut world = World::new();
    let (mut client, mut server) = world.pair();
    let message = long(&world, &mut client, 1);
    call(&mut world, &mut client, message);
    // The name and the pointers, too.
    let whole = vec![9; message.bytes as usize];
    client.send.write_all_at(&whole, message.offset - 8).unwrap();
    world.run(&mut [&mut client, &mut server]);
    let [Descriptor::Request(request)] = server.said[..] else { panic!("{:?}", server.said) };
    assert_eq!(world.text(&server, "greet.Request", request.message, "name"), "long");
    assert_eq!(blobs(&world, &mut server), [vec![9; GATHER_BYTES_MIN]]);
}

#[test]
fn what_exceeds_the_limit_or_is_lent_already_is_copied() {
    let mut world = remote::world();
    let lent_bytes_max = GATHER_BYTES_MIN * 3 / 2;
    let limits = ApplicationLimits { lent_bytes_max, ..ApplicationLimits::default() };
    let mut client = remote::caller_with(&mut world, limits);
    let messages = [1, 2].map(|byte| long(&world, &mut client, byte));
    for message in [messages[0], messages[1], messages[0]] {
        call(&mut world, &mut client, message);
    }
    world.run(&mut [&mut client]);
    assert_eq!(released(&mut client), [messages[1].offset]);
    let begun = [(); 3].map(|()| remote::begun(&mut world).expect("all leave"));
    let gathered = begun.each_ref().map(|begun| begun.message.as_ref().unwrap().is_gathered());
    assert_eq!(gathered, [true, false, false]);
    drop(begun);
    world.listen(&mut client);
    assert_eq!(released(&mut client), [messages[0].offset], "once");
}
