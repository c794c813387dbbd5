//! Applications for tests. They write their send heaps and read their receive heaps through the
//! file descriptors that they were given, as another process would.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use petasos_abi::{
    COUNTED_BYTES_MIN, CallNumber, Contents, Descriptor, Released, Request, Side, TIME_NEVER,
    Untrusted,
};
use petasos_base::Time;
use petasos_engine::Application as Number;
use petasos_message::{FieldPath, Leaf, NativeMsg, Types, Value};
use petasos_schema::Schema;
use petasos_service::{Application, ApplicationLimits, Detached, Host, Hub, SchemaLimits};
use petasos_shm::{HeapKind, OwnedHeap};

pub const NOW: Time = Time::from_nanos(1_000_000);
pub const SEND_BYTES: u64 = 1 << 20;
/// The index of each method in its service: methods go by name.
pub const CHAT: u16 = 0;
pub const GREET: u16 = 1;

pub struct World {
    pub hub: Hub<(OwnedHeap, OwnedHeap)>,
    pub types: Arc<Types>,
    pub schema: Vec<u8>,
}

/// One application, as itself.
pub struct App {
    pub number: Number,
    pub send: File,
    receive: File,
    next: u64,
    calls: u64,
    pub said: Vec<Descriptor>,
}

pub fn schema() -> Schema {
    let protos = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/protos");
    petasos_schema::compile(["greet.proto"], [protos], &Default::default()).unwrap().schema
}

/// Limits that grant as many bytes as three short messages count, less one.
pub fn limits_of_three() -> ApplicationLimits {
    let grant_bytes = 3 * u64::from(COUNTED_BYTES_MIN) - 1;
    ApplicationLimits { grant_bytes, ..ApplicationLimits::default() }
}

impl World {
    pub fn new() -> World {
        World::on(&Host::new(SchemaLimits::default()))
    }

    /// With a hub of a host that may have others.
    pub fn on(host: &Arc<Host>) -> World {
        let schema = schema();
        let encoded = schema.encode();
        let types = Types::new(schema).unwrap();
        World { hub: Hub::on(host), types, schema: encoded }
    }

    pub fn app(&mut self, name: &str) -> App {
        self.app_with(name, SEND_BYTES, ApplicationLimits::default())
    }

    /// An application that has bound the service, with so much memory to receive in.
    pub fn app_with(&mut self, name: &str, receive_bytes: u64, limits: ApplicationLimits) -> App {
        self.app_of((name, None), receive_bytes, limits)
    }

    /// The same, of a user.
    pub fn app_of(
        &mut self,
        (name, user): (&str, Option<u32>),
        receive_bytes: u64,
        limits: ApplicationLimits,
    ) -> App {
        let of_user = |it: &mut Application<_>| user.into_iter().for_each(|user| it.of_user(user));
        self.app_who(name, receive_bytes, limits, of_user)
    }

    /// An application whose name is proved, and which has bound the service.
    pub fn proved_app(&mut self, name: &str) -> App {
        self.app_who(name, SEND_BYTES, ApplicationLimits::default(), Application::prove_name)
    }

    fn app_who(
        &mut self,
        name: &str,
        receive_bytes: u64,
        limits: ApplicationLimits,
        who: impl FnOnce(&mut Application<(OwnedHeap, OwnedHeap)>),
    ) -> App {
        let mut send = OwnedHeap::reserve(HeapKind::Send, 1 << 30).unwrap();
        let mut receive = OwnedHeap::reserve(HeapKind::Receive, 1 << 30).unwrap();
        let (_, send_file) = send.grow(SEND_BYTES).unwrap();
        let (_, receive_file) = receive.grow(receive_bytes).unwrap();
        let number = self.hub.next_number();
        let mut application = Application::new(number, name, (send, receive), limits, 1);
        who(&mut application);
        self.hub.add(application);
        assert_eq!(self.hub.bind(number, &self.schema, "greet.Greeter", true).unwrap(), 0);
        let (send, receive) = (File::from(send_file), File::from(receive_file));
        App { number, send, receive, next: 0, calls: 0, said: Vec::new() }
    }

    /// A client and a server that it can call.
    pub fn pair(&mut self) -> (App, App) {
        self.pair_with(ApplicationLimits::default())
    }

    /// The same, with these limits.
    pub fn pair_with(&mut self, limits: ApplicationLimits) -> (App, App) {
        let [client, server] =
            ["client", "server"].map(|name| self.app_with(name, SEND_BYTES, limits));
        self.hub.serve(server.number, "greeter").unwrap();
        assert_eq!(self.hub.target(client.number, "greeter").unwrap().0, 0);
        (client, server)
    }

    pub fn handle(&mut self, app: &App, descriptor: Descriptor) -> Result<(), Detached> {
        self.hub.application(app.number).unwrap().handle(&descriptor.to_bytes(), NOW)
    }

    /// Runs until nothing moves, and gives each application what it is told.
    pub fn run(&mut self, apps: &mut [&mut App]) {
        loop {
            let mut has_moved = self.hub.turn(NOW);
            for app in apps.iter_mut() {
                has_moved |= self.listen(app);
            }
            if !has_moved {
                return;
            }
        }
    }

    /// One turn of the hub.
    pub fn turn(&mut self, now: Time) -> bool {
        self.hub.turn(now)
    }

    /// What an application is told now.
    pub fn listen(&mut self, app: &mut App) -> bool {
        let Some(application) = self.hub.application(app.number) else { return false };
        let before = app.said.len();
        while let Some(descriptor) = application.poll_descriptor() {
            // It travels as bytes, and is judged as a library would.
            let bytes = descriptor.to_bytes();
            app.said.push(Untrusted::new(&bytes).check(Side::Service).unwrap());
        }
        app.said.len() > before
    }

    pub fn message(&self, name: &str, fields: &[(&str, Leaf<'_>)]) -> NativeMsg {
        let (id, _) = self.types.schema().message_by_name(name).unwrap();
        let mut message = NativeMsg::empty(&self.types, id);
        for (field, value) in fields {
            message.set(&FieldPath::new(&self.types, id, field).unwrap(), *value).unwrap();
        }
        message
    }

    pub fn text(&self, app: &App, name: &str, message: Contents, field: &str) -> String {
        let (id, _) = self.types.schema().message_by_name(name).unwrap();
        let mut image = vec![0; message.bytes as usize];
        app.receive.read_exact_at(&mut image, message.offset).unwrap();
        let message = NativeMsg::received(&self.types, id, &image).unwrap();
        let path = FieldPath::new(&self.types, id, field).unwrap();
        match message.get(&path) {
            Some(Value::String(text)) => text.to_owned(),
            other => panic!("{:?}", other.is_some()),
        }
    }

    /// Bytes that an application has received.
    pub fn bytes(&self, app: &App, contents: Contents) -> Vec<u8> {
        let mut bytes = vec![0; contents.bytes as usize];
        app.receive.read_exact_at(&mut bytes, contents.offset).unwrap();
        bytes
    }

    /// Begins a unary call.
    pub fn call(&mut self, app: &mut App, name: &str) -> CallNumber {
        let message = self.message("greet.Request", &[("name", Leaf::Text(name))]);
        let message = app.write(&message);
        let call = app.next_call();
        let request = Request { message, ..app.request(call, GREET) };
        self.handle(app, Descriptor::Request(request)).unwrap();
        call
    }

    /// Answers every request that an application was told of; gives the names in them.
    pub fn serve(&mut self, app: &mut App) -> Vec<String> {
        let requests: Vec<Request> = app.take(|said| match said {
            Descriptor::Request(request) => Some(*request),
            _ => None,
        });
        let mut names = Vec::new();
        for request in requests {
            let call = request.call;
            if request.is_stream {
                let (message, metadata) = (Contents::NONE, Contents::NONE);
                let end =
                    Descriptor::End { call, status: 12, has_not_run: true, message, metadata };
                self.handle(app, end).unwrap();
                continue;
            }
            let name = self.text(app, "greet.Request", request.message, "name");
            let text = format!("hello, {name}");
            let message = self.message("greet.Response", &[("text", Leaf::Text(&text))]);
            let message = app.write(&message);
            let metadata = Contents::NONE;
            let end = Descriptor::End { call, status: 0, has_not_run: false, message, metadata };
            self.handle(app, end).unwrap();
            self.release(app, request.message).unwrap();
            self.release(app, request.metadata).unwrap();
            names.push(name);
        }
        names
    }

    /// An application has dropped what it received.
    pub fn release(&mut self, app: &App, message: Contents) -> Result<(), Detached> {
        if message.is_none() {
            return Ok(());
        }
        let mut released = Released::new();
        released.push(message.offset).unwrap();
        self.handle(app, Descriptor::Release(released))
    }
}

impl App {
    /// Writes an image into the send heap, and gives the place of its root.
    pub fn write(&mut self, message: &NativeMsg) -> Contents {
        let image = message.image();
        let at = self.place(image.len());
        self.send.write_all_at(image, at).unwrap();
        Contents { offset: at + 8, bytes: image.len() as u32 }
    }

    pub fn write_bytes(&mut self, bytes: &[u8]) -> Contents {
        let offset = self.place(bytes.len());
        self.send.write_all_at(bytes, offset).unwrap();
        Contents { offset, bytes: bytes.len() as u32 }
    }

    /// The next place: the heap is written round and round.
    fn place(&mut self, bytes: usize) -> u64 {
        let bytes = bytes.next_multiple_of(8) as u64;
        if self.next + bytes > SEND_BYTES {
            self.next = 0;
        }
        self.next += bytes;
        self.next - bytes
    }

    pub fn next_call(&mut self) -> CallNumber {
        self.calls += 1;
        CallNumber::new(Side::Application, self.calls - 1)
    }

    pub fn request(&self, call: CallNumber, method: u16) -> Request {
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

    /// Takes out of what was said.
    pub fn take<T>(&mut self, of: impl Fn(&Descriptor) -> Option<T>) -> Vec<T> {
        let taken = self.said.iter().filter_map(&of).collect();
        self.said.retain(|said| of(said).is_none());
        taken
    }

    /// What the application was granted.
    pub fn grants(&mut self) -> Vec<(CallNumber, u64)> {
        self.take(|said| match said {
            Descriptor::Grant { call, bytes } => Some((*call, *bytes)),
            _ => None,
        })
    }

    /// The ends that the application was told of: call, status, whether it has not run, response.
    pub fn ends(&mut self) -> Vec<(CallNumber, u8, bool, Contents)> {
        self.take(|said| match said {
            Descriptor::End { call, status, has_not_run, message, .. } => {
                Some((*call, *status, *has_not_run, *message))
            }
            _ => None,
        })
    }
}
