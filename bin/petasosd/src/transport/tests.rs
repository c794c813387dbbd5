//! Streams whose applications do not read: what the transport does meanwhile is counted. And what
//! tests of the parts need.

use petasos::{PacketTransport, Security};
use petasos_abi::{CallNumber, Descriptor, Side};
use petasos_service::{Application, ApplicationLimits, RemoteLimits, SchemaLimits};
use petasos_shm::{HeapKind, OwnedHeap};

use super::*;

pub(super) type TestHub = Hub<(OwnedHeap, OwnedHeap)>;

pub(super) const NOW: Time = Time::from_nanos(1);

/// The schema of the tests.
fn managed() -> Vec<u8> {
    let protos = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/protos");
    let schema = petasos_schema::compile(["managed.proto"], [protos], &Default::default());
    schema.expect("the schema compiles").schema.encode()
}

/// As many schemas as these have more than 64 MiB.
pub(super) const SCHEMAS: usize = 280;

/// A schema of a little less than 256 KiB with the service `churn.S` and this number. Gives both.
pub(super) fn long_schema(number: usize) -> (Vec<u8>, String) {
    let value = |at| format!("V{number}_{at}_{} = {at};\n", "x".repeat(230));
    let values: String = (0..1000).map(value).collect();
    let text = format!(
        "syntax = \"proto3\";\npackage churn;\nenum Long {{ {values} }}\n\
         message M {{ Long long = 1; }}\nservice S{number} {{ rpc Do(M) returns (M); }}\n"
    );
    let thread = std::thread::current().id();
    let folder = format!("petasosd-churn-{}-{thread:?}", std::process::id());
    let folder = std::env::temp_dir().join(folder);
    std::fs::create_dir_all(&folder).expect("there is room for a folder");
    std::fs::write(folder.join("churn.proto"), text).expect("there is room for a file");
    let compiled = petasos_schema::compile(["churn.proto"], [&folder], &Default::default());
    std::fs::remove_dir_all(&folder).expect("it is there");
    let schema = compiled.expect("it is well-formed").schema.encode();
    assert!(schema.len() * SCHEMAS > 64 << 20);
    (schema, format!("churn.S{number}"))
}

/// An application that serves a service under a name.
pub(super) fn attach(
    hub: &mut TestHub,
    (schema, service): (&[u8], &str),
    name: &str,
) -> petasos_engine::Application {
    let heaps = [HeapKind::Send, HeapKind::Receive].map(|kind| {
        let mut heap = OwnedHeap::reserve(kind, 1 << 20).expect("there are addresses");
        heap.grow(1 << 16).expect("there is memory");
        heap
    });
    let number = hub.next_number();
    let limits = ApplicationLimits { grant_bytes: 2048, ..ApplicationLimits::default() };
    hub.add(Application::new(number, name, heaps.into(), limits, 1));
    hub.bind(number, schema, service, true).expect("the service is there");
    hub.serve(number, name).expect("the name is free");
    number
}

pub(super) struct World {
    pub(super) hub: TestHub,
    pub(super) transport: Transport,
    server: petasos_engine::Application,
}

impl World {
    /// An application that serves, and takes two short messages of a stream before it reads.
    pub(super) fn new() -> World {
        let mut hub = TestHub::new(SchemaLimits::default());
        let listen = Some("127.0.0.1:0".parse().expect("an address"));
        let config = One {
            listen,
            listen_grpc: None,
            grpc_message_bytes: None,
            packets: PacketTransport::default(),
            nic: None,
            security: Security::default(),
            peers: &Peers::default(),
            listener: ListenerId::default(),
            vouches: true,
        };
        let transport = Transport::new(config, None).expect("loopback has ports");
        hub.allow_remote(RemoteLimits::default());
        let server = attach(&mut hub, (&managed(), "managed.Work"), "work");
        World { hub, transport, server }
    }

    /// Turns both until nothing moves. Gives how often.
    pub(super) fn run(&mut self) -> usize {
        for turns in 0..1000 {
            let World { hub, transport, .. } = self;
            let has_moved = hub.turn(NOW);
            if transport.is_unpublished(hub) {
                transport.within(|transport| transport.publish(hub));
            }
            while let Some(event) = hub.poll_remote() {
                transport.within(|transport| transport.hear_hub(hub, event, NOW));
            }
            if !(transport.within(|transport| transport.turn(hub, NOW)) | has_moved) {
                return turns;
            }
        }
        panic!("it never rests");
    }

    fn say(&mut self, said: Said) {
        self.transport.inbox.say(said);
        self.run();
    }

    /// A stream of another host, from which messages have come until there was no room for one.
    fn unread(&mut self) -> Arc<Port> {
        let port = Port::new(None);
        self.say(Said::Begun(
            port.clone(),
            Box::new(Begun {
                service: "managed.Work".into(),
                method: "Chat".into(),
                message: None,
                metadata: <_>::default(),
                timeout: None,
                peer: "192.0.2.1".to_owned(),
                is_proved: false,
                is_sealed: false,
            }),
        ));
        let before = self.transport.waiting.len();
        for _ in 0..10 {
            if self.transport.waiting.len() > before {
                return port;
            }
            self.say(Said::Message(port.clone(), Vec::new()));
        }
        panic!("nothing holds the stream up");
    }
}

#[test]
fn while_messages_wait_for_applications_nothing_moves_and_the_daemon_sleeps() {
    let mut world = World::new();
    let ports: Vec<_> = (0..100).map(|_| world.unread()).collect();
    assert_eq!(world.transport.waiting.len(), 100);
    for _ in 0..10 {
        assert_eq!(world.run(), 0, "nothing is looked at");
    }
    let rest = world.transport.within(Transport::rest);
    assert!(rest.is_none_or(|rest| rest > IDLE_EVERY), "{rest:?}");
    // The application reads one of them.
    let call = CallNumber::new(Side::Service, 7);
    let application = world.hub.application(world.server).expect("it is there");
    application.take(&Descriptor::Grant { call, bytes: 2048 }, NOW).expect("it may");
    assert!((1..10).contains(&world.run()));
    assert_eq!(world.transport.waiting.len(), 99);
    assert!(!world.transport.waiting.iter().any(|(_, (port, _))| Arc::ptr_eq(port, &ports[7])));
    assert_eq!(world.run(), 0);
}

#[test]
fn what_waits_goes_with_its_stream_however_that_ends() {
    let mut world = World::new();
    let ports: Vec<_> = (0..3).map(|_| world.unread()).collect();
    world.say(Said::Left(ports[0].clone()));
    assert_eq!(world.transport.waiting.len(), 2, "the other host has given it up");
    let call = CallNumber::new(Side::Service, 1);
    let (message, metadata) = (petasos_abi::Contents::NONE, petasos_abi::Contents::NONE);
    let end = Descriptor::End { call, status: 5, has_not_run: false, message, metadata };
    let application = world.hub.application(world.server).expect("it is there");
    application.take(&end, NOW).expect("it may");
    world.run();
    assert_eq!(world.transport.waiting.len(), 1, "the server has ended it");
    world.hub.remove(world.server, NOW);
    world.run();
    assert_eq!(world.transport.waiting.len(), 0, "the server has gone");
    assert!(world.transport.handles.is_empty());
}
