//! A whole application of the managed service that does anything: its memory, its descriptors, its
//! schemas and its names (D2 to D13), beside good ones.
//!
//! What a policy forbids it never reaches a server, a good application's calls end well beside it,
//! and nothing of it is left when it has gone. Bytes that change *between* a check and a use are a
//! test with threads (`bin/petasosd/tests/daemon/flips.rs`).

use std::collections::VecDeque;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, OnceLock};

use petasos_abi::{
    CallNumber, Contents, DESCRIPTOR_BYTES, Descriptor, Released, Request, Side, TIME_NEVER,
    Untrusted,
};
use petasos_base::Time;
use petasos_engine::{Application as Number, Policy};
use petasos_message::{FieldPath, Leaf, NativeMsg, Types, Value};
use petasos_service::{Application, ApplicationLimits, Hub, SchemaLimits};
use petasos_shm::{HeapKind, OwnedHeap};

use crate::{Input, Seed};

const PROTOS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../crates/service/tests/protos");
const SERVICE: &str = "greet.Greeter";
/// Of each heap: one extent is all of it.
const HEAP_BYTES: u64 = 1 << 20;
/// Methods go by name: `Chat`, `Greet`.
const CHAT: u16 = 0;
const GREET: u16 = 1;
/// A name that the hostile application may not say.
const FORBIDDEN: &str = "eve";
const ACCESS: &str = r#"{"default": "allow", "rules": [{
    "name": "no eve", "action": "deny", "methods": ["greet.Greeter/*"],
    "fields": [{"path": "name", "is": {"equals": "eve"}}]}]}"#;
/// Operations of one input, and applications that come in the place of one that was given up.
const STEPS_MAX: usize = 200;
const LIVES_MAX: usize = 8;

/// The program of the hostile application.
pub fn run(bytes: &[u8]) {
    let (mut input, mut world) = (Input::new(bytes), World::new());
    let mut lives = 1;
    for _ in 0..STEPS_MAX {
        if input.is_empty() {
            break;
        }
        if !world.step(&mut input) {
            world.hub.remove(world.hostile.number, world.now);
            lives += 1;
            if lives > LIVES_MAX {
                break;
            }
            world.hostile = world.hostile();
            world.prepare();
        }
    }
    world.check();
}

/// An application, as itself.
struct App {
    number: Number,
    send: File,
    receive: File,
    calls: u64,
    said: VecDeque<Descriptor>,
}

struct World {
    hub: Hub<(OwnedHeap, OwnedHeap)>,
    now: Time,
    client: App,
    server: App,
    hostile: App,
}

fn types() -> &'static (Arc<Types>, Vec<u8>) {
    static TYPES: OnceLock<(Arc<Types>, Vec<u8>)> = OnceLock::new();
    TYPES.get_or_init(|| {
        let compiled = petasos_schema::compile(["greet.proto"], [PROTOS], &Default::default());
        let schema = compiled.expect("it is a test's").schema;
        let encoded = schema.encode();
        (Types::new(schema).expect("it is a schema"), encoded)
    })
}

fn policy(kind: &str, configuration: &str) -> Arc<dyn Policy> {
    let kind = petasos_engines::find(kind).expect("it is built in");
    Arc::from(kind.make(configuration, None).expect("the configuration is right"))
}

impl World {
    fn new() -> World {
        let (mut hub, now) = (Hub::new(SchemaLimits::default()), Time::from_nanos(1_000_000));
        let [client, server, hostile] = ["client", "server", "hostile"].map(|it| app(&mut hub, it));
        hub.serve(server.number, "greeter").expect("nobody else does");
        hub.target(client.number, "greeter").expect("it is the first");
        let mut world = World { hub, now, client, server, hostile };
        world.prepare();
        world
    }

    fn hostile(&mut self) -> App {
        app(&mut self.hub, "hostile")
    }

    /// The hostile application may call, but not say everything.
    fn prepare(&mut self) {
        let number = self.hostile.number;
        self.hub.target(number, "greeter").expect("there is room");
        let application = self.hub.application(number).expect("it is there");
        for (place, kind) in [("access", ACCESS), ("null", "{}")].into_iter().enumerate() {
            application.attach(place, policy(kind.0, kind.1)).expect("the fields are there");
        }
    }

    /// One thing that the hostile application does. False if the service has given it up.
    fn step(&mut self, input: &mut Input<'_>) -> bool {
        let number = self.hostile.number;
        match input.u8() % 8 {
            0 => {
                let offset = u64::from(input.u16());
                self.hostile.send.write_all_at(input.short(), offset).expect("it is its memory");
            }
            1 => return self.say(input.bytes(DESCRIPTOR_BYTES)),
            2 | 3 => {
                let said = self.chosen(input);
                return self.say(&said.to_bytes());
            }
            4 => {
                let names = [SERVICE, "greet.Other", ""];
                let name = names[usize::from(input.u8()) % names.len()];
                let is_served = input.bool();
                let schema = if input.bool() { &types().1[..] } else { input.short() };
                let _ = self.hub.bind(number, schema, name, is_served);
            }
            5 => {
                let name = String::from_utf8_lossy(input.short());
                let _ = self.hub.target(number, &name);
                let _ = self.hub.serve(number, &name);
            }
            6 => {
                self.now = Time::from_nanos(self.now.as_nanos() + u64::from(input.u32()));
                self.turn();
            }
            _ => self.turn(),
        }
        true
    }

    fn say(&mut self, record: &[u8]) -> bool {
        let application = self.hub.application(self.hostile.number).expect("it is there");
        // Without room, it waits in the ring.
        !application.has_room() || application.handle(record, self.now).is_ok()
    }

    /// A descriptor that is well formed.
    fn chosen(&mut self, input: &mut Input<'_>) -> Descriptor {
        let contents = |input: &mut Input<'_>| Contents {
            offset: input.u16().into(),
            bytes: input.u8().into(),
        };
        let side = if input.bool() { Side::Application } else { Side::Service };
        let call = CallNumber::new(side, u64::from(input.u8() % 16));
        let (message, metadata) = (contents(input), Contents::NONE);
        match input.u8() % 8 {
            0..=2 => {
                let call = CallNumber::new(Side::Application, self.hostile.calls);
                self.hostile.calls += 1;
                let method = u16::from(input.u8() % 3);
                let request = request(call, method);
                let message = if request.is_stream { Contents::NONE } else { message };
                let metadata = if input.bool() { contents(input) } else { metadata };
                let partner = u32::from(input.u8() % 3);
                Descriptor::Request(Request { partner, message, metadata, ..request })
            }
            3 => Descriptor::Message { call, message },
            4 => Descriptor::Close { call },
            5 => Descriptor::Grant { call, bytes: input.u64() },
            6 => {
                let status = input.u8() % 17;
                let message = if status == 0 { message } else { Contents::NONE };
                Descriptor::End { call, status, has_not_run: false, message, metadata }
            }
            _ => {
                let mut released = Released::new();
                released.push(input.u16().into()).expect("six fit");
                Descriptor::Release(released)
            }
        }
    }

    /// Turns the hub, and lets the good ones do what they do.
    fn turn(&mut self) {
        self.hub.turn(self.now);
        let World { hub, client, server, hostile, .. } = self;
        for app in [client, server, hostile] {
            listen(hub, app);
        }
        // It keeps what it is told, but not for ever.
        self.hostile.said.truncate(64);
        self.serve();
    }

    /// Answers what the server was told of.
    fn serve(&mut self) {
        while let Some(said) = self.server.said.pop_front() {
            let Descriptor::Request(request) = said else { continue };
            let mut message = Contents::NONE;
            if !request.is_stream {
                let name = text(&self.server, request.message);
                assert_ne!(name, FORBIDDEN, "a policy has refused that");
                message = write(&self.server, 0, "greet.Response", ("text", &name));
                let mut released = Released::new();
                released.push(request.message.offset).expect("six fit");
                self.handle_of_server(Descriptor::Release(released));
            }
            let status = if request.is_stream { 12 } else { 0 };
            let (call, metadata) = (request.call, Contents::NONE);
            let end = Descriptor::End { call, status, has_not_run: false, message, metadata };
            self.handle_of_server(end);
        }
    }

    fn handle_of_server(&mut self, said: Descriptor) {
        let server = self.hub.application(self.server.number).expect("it is good");
        server.handle(&said.to_bytes(), self.now).expect("it keeps to the rules");
    }

    /// A good call beside the hostile application, and what is left after that.
    fn check(&mut self) {
        let message = write(&self.client, 0, "greet.Request", ("name", "ann"));
        let call = CallNumber::new(Side::Application, 0);
        let said = Descriptor::Request(Request { message, ..request(call, GREET) });
        let client = self.hub.application(self.client.number).expect("it is good");
        client.handle(&said.to_bytes(), self.now).expect("it keeps to the rules");
        for _ in 0..8 {
            self.turn();
        }
        let end = self.client.said.iter().find_map(|said| match said {
            Descriptor::End { status, message, .. } => Some((*status, *message)),
            _ => None,
        });
        let (status, message) = end.expect("its call has ended");
        assert_eq!(
            (status, &*text_of(&self.client, "greet.Response", "text", message)),
            (0, "ann")
        );
        self.hub.remove(self.hostile.number, self.now);
        for _ in 0..8 {
            self.turn();
        }
        for number in [self.client.number, self.server.number] {
            let counts = self.hub.application(number).expect("it is good").datapath().counts();
            assert_eq!((counts.queued, counts.held), (0, 0), "nothing is left of it");
        }
    }
}

/// An application that has bound the service.
fn app(hub: &mut Hub<(OwnedHeap, OwnedHeap)>, name: &str) -> App {
    let [(send, send_file), (receive, receive_file)] =
        [HeapKind::Send, HeapKind::Receive].map(|kind| {
            let mut heap = OwnedHeap::reserve(kind, HEAP_BYTES).expect("there are addresses");
            let (_, file) = heap.grow(HEAP_BYTES).expect("there is memory");
            (heap, File::from(file))
        });
    let number = hub.next_number();
    hub.add(Application::new(number, name, (send, receive), ApplicationLimits::default(), 1));
    hub.bind(number, &types().1, SERVICE, true).expect("it is right");
    App { number, send: send_file, receive: receive_file, calls: 0, said: VecDeque::new() }
}

/// What it is told goes as bytes, and is judged as a library would.
fn listen(hub: &mut Hub<(OwnedHeap, OwnedHeap)>, app: &mut App) {
    let Some(application) = hub.application(app.number) else { return };
    while let Some(descriptor) = application.poll_descriptor() {
        let said = Untrusted::new(&descriptor.to_bytes()).check(Side::Service);
        app.said.push_back(said.expect("the service keeps to the rules"));
    }
}

fn request(call: CallNumber, method: u16) -> Request {
    Request {
        call,
        binding: 0,
        method,
        partner: 0,
        is_stream: method == CHAT,
        is_idempotent: false,
        waits_for_ready: false,
        time_left_us: TIME_NEVER,
        message: Contents::NONE,
        metadata: Contents::NONE,
    }
}

/// The image of a message with a text.
fn image(message: &str, (field, text): (&str, &str)) -> Vec<u8> {
    let types = &types().0;
    let (id, _) = types.schema().message_by_name(message).expect("it is there");
    let mut native = NativeMsg::empty(types, id);
    let path = FieldPath::new(types, id, field).expect("it is there");
    native.set(&path, Leaf::Text(text)).expect("it is short");
    native.image().to_vec()
}

fn write(app: &App, at: u64, message: &str, field: (&str, &str)) -> Contents {
    let image = image(message, field);
    app.send.write_all_at(&image, at).expect("it is its memory");
    Contents { offset: at + 8, bytes: image.len() as u32 }
}

/// The name in a request that has reached a server.
fn text(app: &App, message: Contents) -> String {
    text_of(app, "greet.Request", "name", message)
}

fn text_of(app: &App, name: &str, field: &str, message: Contents) -> String {
    let types = &types().0;
    let (id, _) = types.schema().message_by_name(name).expect("it is there");
    let mut image = vec![0; message.bytes as usize];
    app.receive.read_exact_at(&mut image, message.offset).expect("it is its memory");
    let native = NativeMsg::received(types, id, &image).expect("the service has made it");
    let path = FieldPath::new(types, id, field).expect("it is there");
    match native.get(&path) {
        Some(Value::String(text)) => text.to_owned(),
        _ => panic!("it is a text"),
    }
}

/// Calls with what may be said and what may not, and one of a stream.
pub fn seeds() -> Vec<Seed> {
    let written = |name: &str| {
        let image = image("greet.Request", ("name", name));
        let (bytes, len) = (image.len() as u8, (image.len() as u8).to_le_bytes());
        ([&[0, 0, 0][..], &len, &image].concat(), Contents { offset: 8, bytes: bytes.into() })
    };
    let call = CallNumber::new(Side::Application, 0);
    let said = |descriptor: Descriptor| [&[1][..], &descriptor.to_bytes()].concat();
    let calls = |name: &str| {
        let (memory, message) = written(name);
        let request = Request { message, ..request(call, GREET) };
        [memory, said(Descriptor::Request(request)), vec![7, 7, 7]].concat()
    };
    let (memory, message) = written("bob");
    let stream = [
        memory,
        said(Descriptor::Request(request(call, CHAT))),
        said(Descriptor::Message { call, message }),
        said(Descriptor::Close { call }),
        vec![7, 7, 5, 3, b'm', b'e', b'!', 4, 0, 1, 1, 7],
    ];
    vec![
        ("allowed", calls("bob")),
        ("forbidden", calls(FORBIDDEN)),
        ("stream", stream.concat()),
        ("chosen", vec![2, 0, 3, 8, 0, 40, 0, 1, 0, 0, 7, 3, 1, 2, 8, 0, 40, 3, 7, 7]),
    ]
}
