//! The work of the managed service for a unary call between two applications of one host, with a
//! policy on each side, in batches of 16. It takes in, checks, passes and delivers the request, and
//! then the response. Rings and wake-ups are not included. Count the instructions with `valgrind
//! --tool=callgrind`, at two numbers of calls: the difference excludes the cost of starting.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::Instant;

use petasos_abi::{
    CallNumber, Contents, Descriptor, Released, Request, Side, TIME_NEVER, Untrusted,
};
use petasos_base::Time;
use petasos_engine::Application as Number;
use petasos_message::{FieldPath, Leaf, NativeMsg, Types};
use petasos_service::{Application, ApplicationLimits, Hub, SchemaLimits};
use petasos_shm::{HeapKind, OwnedHeap};

const BATCH: u64 = 16;

/// Policies by their kinds, with what they let through: everything.
const POLICIES: [(&str, &str); 3] =
    [("null", "{}"), ("rate_limit", r#"{"rate_per_s": "unlimited"}"#), ("access", ACCESS)];
const ACCESS: &str = r#"{"default": "allow", "rules": [{"name": "mallory", "action": "deny",
    "methods": ["greet.Greeter/Greet"],
    "fields": [{"path": "name", "is": {"equals": "mallory"}}]}]}"#;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let rpcs = arguments.next().map_or(Ok(200_000), |argument| argument.parse::<u64>());
    let policy = arguments.next().unwrap_or_else(|| "null".to_owned());
    let known = POLICIES.iter().find(|(kind, _)| *kind == policy);
    let (Ok(rpcs), true) = (rpcs, known.is_some() || policy == "none") else {
        eprintln!("usage: icount_service [CALLS [none | null | rate_limit | access]]");
        std::process::exit(2);
    };
    let mut world = World::new(known.copied());
    let begin = now();
    let mut done = 0;
    while done < rpcs {
        done += world.batch(BATCH.min(rpcs - done));
    }
    let per_second = (done as f64 / begin.elapsed().as_secs_f64()) as u64;
    println!("{{\"rpcs\":{done},\"packets\":0,\"syscalls\":0,\"calls_per_second\":{per_second}}}");
}

#[expect(clippy::disallowed_methods, reason = "a rate that is printed, and nothing depends on it")]
fn now() -> Instant {
    Instant::now()
}

struct World {
    hub: Hub<(OwnedHeap, OwnedHeap)>,
    client: Number,
    server: Number,
    request: Contents,
    response: Contents,
    calls: u64,
    /// As in the daemon, what was said is written to one place.
    said: Descriptor,
}

impl World {
    fn new(policy: Option<(&str, &str)>) -> World {
        let protos = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/protos");
        let schema = petasos_schema::compile(["greet.proto"], [protos], &Default::default());
        let schema = schema.expect("the schema compiles").schema;
        let mut hub = Hub::new(SchemaLimits::default());
        let bytes = schema.encode();
        let types = Types::new(schema).expect("the schema has plans");
        let (client, request) = add(&mut hub, &types, &bytes, ("greet.Request", "name"));
        let (server, response) = add(&mut hub, &types, &bytes, ("greet.Response", "text"));
        hub.serve(server, "greeter").expect("the name is free");
        hub.target(client, "greeter").expect("there is room");
        for number in [client, server] {
            let application = hub.application(number).expect("it was added");
            let Some((kind, configuration)) = policy else { continue };
            let kind = petasos_engines::find(kind).expect("there is one");
            let policy = kind.make(configuration, None).expect("it is valid");
            application.attach(0, policy.into()).expect("the fields are there");
        }
        let said = Descriptor::default();
        World { hub, client, server, request, response, calls: 0, said }
    }

    /// Calls there and back; how many.
    fn batch(&mut self, count: u64) -> u64 {
        for _ in 0..count {
            let call = CallNumber::new(Side::Application, self.calls);
            self.calls += 1;
            let request = Descriptor::Request(Request {
                call,
                binding: 0,
                // Methods go by name: `Chat`, `Greet`.
                method: 1,
                partner: 0,
                is_stream: false,
                is_idempotent: false,
                waits_for_ready: false,
                time_left_us: TIME_NEVER,
                message: self.request,
                metadata: Contents::NONE,
            });
            self.handle(self.client, request);
        }
        self.turn();
        for told in self.told(self.server) {
            let Descriptor::Request(request) = told else { continue };
            let (call, message, metadata) = (request.call, self.response, Contents::NONE);
            let end = Descriptor::End { call, status: 0, has_not_run: false, message, metadata };
            self.handle(self.server, end);
            self.release(self.server, request.message);
        }
        self.turn();
        let mut ended = 0;
        for told in self.told(self.client) {
            let Descriptor::End { message, .. } = told else { continue };
            self.release(self.client, message);
            ended += 1;
        }
        ended
    }

    fn turn(&mut self) {
        while self.hub.turn(Time::ZERO) {}
    }

    fn handle(&mut self, number: Number, descriptor: Descriptor) {
        let application = self.hub.application(number).expect("it is there");
        let record = descriptor.to_bytes();
        let checked = Untrusted::new(&record[..]).check_into(Side::Application, &mut self.said);
        checked.expect("it is a descriptor");
        application.take(&self.said, Time::ZERO).expect("it keeps the rules");
    }

    fn release(&mut self, number: Number, message: Contents) {
        let mut released = Released::new();
        released.push(message.offset).expect("there is room");
        self.handle(number, Descriptor::Release(released));
    }

    fn told(&mut self, number: Number) -> Vec<Descriptor> {
        let application = self.hub.application(number).expect("it is there");
        std::iter::from_fn(|| application.poll_descriptor()).collect()
    }
}

/// An application, with a message of 32 bytes of text in its send heap.
fn add(
    hub: &mut Hub<(OwnedHeap, OwnedHeap)>,
    types: &Arc<Types>,
    schema: &[u8],
    (message, field): (&str, &str),
) -> (Number, Contents) {
    let mut heaps = [HeapKind::Send, HeapKind::Receive]
        .map(|kind| OwnedHeap::reserve(kind, 1 << 30).expect("there are addresses"));
    let [send, receive] = &mut heaps;
    let (_, file) = send.grow(1 << 20).expect("there is memory");
    receive.grow(1 << 20).expect("there is memory");
    let message = image(types, message, field);
    File::from(file).write_all_at(message.image(), 0).expect("it is memory");
    let [send, receive] = heaps;
    let number = hub.next_number();
    let limits = ApplicationLimits::default();
    hub.add(Application::new(number, "bench", (send, receive), limits, 1));
    hub.bind(number, schema, "greet.Greeter", true).expect("the service is there");
    (number, Contents { offset: 8, bytes: message.image().len() as u32 })
}

fn image(types: &Arc<Types>, name: &str, field: &str) -> NativeMsg {
    let (id, _) = types.schema().message_by_name(name).expect("the message is there");
    let mut message = NativeMsg::empty(types, id);
    let path = FieldPath::new(types, id, field).expect("the field is there");
    message.set(&path, Leaf::Text("thirty-two bytes of text, a name")).expect("it is text");
    message
}
