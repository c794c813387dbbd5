//! Applications in threads of the test.

pub use crate::process::Daemon;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use petasos_abi::{
    Blocks, CallNumber, Contents, Credit, Descriptor, Released, Request, Side, TIME_NEVER, Taken,
};
use petasos_attach::ask::Ask;
use petasos_attach::reason::Text;
use petasos_attach::{Attachment, Lane, LaneError, PushError};
use petasos_message::{FieldPath, Leaf, NativeMsg, Types, Value};
use petasos_shm::HeapKind;

/// For what takes no time unless something is broken.
pub const PATIENCE: Duration = Duration::from_secs(30);
const SEND_BYTES: u64 = 4 << 20;
/// Methods go by name: `Chat`, `Greet`.
const CHAT: u16 = 0;
const GREET: u16 = 1;
pub const PROTOS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../crates/service/tests/protos");

/// An application: one lane, and a heap to send from.
pub struct Client {
    pub attachment: Attachment,
    /// Where its schema lies.
    pub schema: (u64, u32),
    lane: Lane,
    blocks: Blocks,
    pub types: Arc<Types>,
    calls: u64,
    /// What was said while it waited for memory or credit.
    unheard: VecDeque<Descriptor>,
    /// D8, by the numbers of streams.
    flows: HashMap<u64, (Credit, Taken)>,
    /// It grants what it hears of streams.
    pub reads: bool,
    /// A message that it keeps when it comes back.
    kept: Option<u64>,
}

/// What an application hears, with texts for messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    Request(CallNumber, Option<String>),
    Message(CallNumber, String),
    Close(CallNumber),
    Cancel(CallNumber),
    Head(CallNumber),
    End(CallNumber, u8, bool),
}

impl Client {
    pub fn new(mut attachment: Attachment, protos: &str, is_served: bool) -> Client {
        let lane = attachment.take_lanes().remove(0);
        let extent = attachment.grow(HeapKind::Send, SEND_BYTES).unwrap();
        let compiled = petasos_schema::compile(["greet.proto"], [protos], &Default::default());
        let schema = compiled.unwrap().schema;
        let mut blocks = Blocks::new();
        blocks.add(extent.offset, extent.bytes);
        let bytes = schema.encode();
        let offset = blocks.allocate(bytes.len() as u32).unwrap();
        attachment.write(offset, &bytes).unwrap();
        let types = Types::new(schema).unwrap();
        let place = (offset, bytes.len() as u32);
        let bind =
            Ask::Bind { offset, bytes: place.1, is_served, service: Text::new("greet.Greeter") };
        assert_eq!(attachment.ask(&bind).unwrap(), 0);
        let (unheard, flows) = (VecDeque::new(), HashMap::new());
        let (calls, reads, kept, schema) = (0, true, None, place);
        Client { attachment, schema, lane, blocks, types, calls, unheard, flows, reads, kept }
    }

    pub fn target(&mut self, name: &str) -> u32 {
        self.attachment.ask(&Ask::Target(Text::new(name))).unwrap()
    }

    /// Serves what it has bound.
    pub fn serve(&mut self, name: &str) {
        assert_eq!(self.attachment.ask(&Ask::Serve(Text::new(name))).unwrap(), 0);
    }

    /// Calls, and gives the text of the response or the status.
    pub fn greet(&mut self, target: u32, name: &str) -> Result<String, u8> {
        let call = self.begin(target, name);
        let (ended, status, message) = self.next_end();
        assert_eq!(ended, call);
        match status {
            0 => Ok(self.read("greet.Response", "text", message)),
            status => Err(status),
        }
    }

    /// Begins a call.
    pub fn begin(&mut self, target: u32, name: &str) -> CallNumber {
        self.begin_within(target, name, TIME_NEVER)
    }

    /// The same, with so much time.
    pub fn begin_within(&mut self, target: u32, name: &str, time_left_us: u64) -> CallNumber {
        let message = self.written("greet.Request", "name", name);
        self.request(target, Some(message), time_left_us)
    }

    /// Takes what the service says at the socket: who does not is given up.
    pub fn poll(&mut self) {
        while self.attachment.poll().unwrap().is_some() {}
    }

    /// A request that can be sent as often as one likes.
    pub fn kept_request(&mut self, name: &str) -> Contents {
        let message = self.written("greet.Request", "name", name);
        self.kept = Some(message.offset);
        message
    }

    /// Begins a call with such a request.
    pub fn begin_kept(&mut self, target: u32, message: Contents) {
        self.request(target, Some(message), TIME_NEVER);
    }

    /// The bytes of a message in the send heap, as they are now.
    pub fn sent(&self, message: Contents) -> Vec<u8> {
        let mut image = vec![0; message.bytes as usize];
        self.attachment.heap(HeapKind::Send).copy_out(message.offset - 8, &mut image).unwrap();
        image
    }

    /// Begins a stream.
    pub fn begin_chat(&mut self, target: u32) -> CallNumber {
        self.request(target, None, TIME_NEVER)
    }

    fn request(&mut self, target: u32, message: Option<Contents>, time_left_us: u64) -> CallNumber {
        let call = CallNumber::new(Side::Application, self.calls);
        self.calls += 1;
        self.say(&Descriptor::Request(Request {
            call,
            binding: 0,
            method: if message.is_some() { GREET } else { CHAT },
            partner: target,
            is_stream: message.is_none(),
            is_idempotent: false,
            waits_for_ready: false,
            time_left_us,
            message: message.unwrap_or(Contents::NONE),
            metadata: Contents::NONE,
        }));
        call
    }

    /// Says a message of a stream, as its caller or its callee.
    pub fn say_text(&mut self, call: CallNumber, text: &str) {
        let (name, field) = match call.begun_by() {
            Side::Application => ("greet.Request", "name"),
            Side::Service => ("greet.Response", "text"),
        };
        while !self.flow(call).0.may_send() {
            self.await_service();
        }
        let message = self.written(name, field, text);
        self.flow(call).0.spend(message.bytes);
        self.say(&Descriptor::Message { call, message });
    }

    /// Whether a stream has credit for another message now.
    pub fn may_say(&mut self, call: CallNumber) -> bool {
        self.hear_now();
        self.flow(call).0.may_send()
    }

    /// The calls that have ended by now, with their statuses. All else that was said is dropped.
    pub fn ends(&mut self) -> Vec<(CallNumber, u8)> {
        self.hear_now();
        let mut ends = Vec::new();
        for said in std::mem::take(&mut self.unheard) {
            if let Descriptor::End { call, status, message, metadata, .. } = said {
                self.release(metadata);
                self.release(message);
                ends.push((call, status));
            }
        }
        ends
    }

    /// Whether anything was said to it by now.
    pub fn has_heard(&mut self) -> bool {
        self.hear_now();
        !self.unheard.is_empty()
    }

    /// Hears what was said by now, and keeps what it does not know itself.
    fn hear_now(&mut self) {
        while let Some(said) = self.lane.pop().unwrap() {
            let said = self.noted(said);
            self.unheard.extend(said);
        }
        self.lane.release();
    }

    /// Answers a unary call.
    pub fn respond(&mut self, call: CallNumber, text: &str) {
        let message = self.written("greet.Response", "text", text);
        let metadata = Contents::NONE;
        self.say(&Descriptor::End { call, status: 0, has_not_run: false, message, metadata });
    }

    /// Ends a call that it serves, with a status.
    pub fn end(&mut self, call: CallNumber, status: u8) {
        let (message, metadata, has_not_run) = (Contents::NONE, Contents::NONE, false);
        self.say(&Descriptor::End { call, status, has_not_run, message, metadata });
    }

    /// Waits for what comes next.
    pub fn heard(&mut self) -> Heard {
        match self.hear().unwrap() {
            Descriptor::Request(Request { call, message, metadata, is_stream, .. }) => {
                self.release(metadata);
                let name = (!is_stream).then(|| self.read("greet.Request", "name", message));
                Heard::Request(call, name)
            }
            Descriptor::Message { call, message } => {
                let (name, field) = match call.begun_by() {
                    Side::Application => ("greet.Response", "text"),
                    Side::Service => ("greet.Request", "name"),
                };
                let text = self.read(name, field, message);
                let grant = self.flow(call).1.add(message.bytes);
                if let Some(bytes) = grant.filter(|_| self.reads) {
                    self.say(&Descriptor::Grant { call, bytes });
                }
                Heard::Message(call, text)
            }
            Descriptor::Close { call } => Heard::Close(call),
            Descriptor::Cancel { call } => Heard::Cancel(call),
            Descriptor::Head { call, metadata } => {
                self.release(metadata);
                Heard::Head(call)
            }
            Descriptor::End { call, status, has_not_run, message, metadata } => {
                self.release(metadata);
                self.release(message);
                Heard::End(call, status, has_not_run)
            }
            other => panic!("{other:?}"),
        }
    }

    /// The status of the next call that ends.
    pub fn next_status(&mut self) -> u8 {
        self.next_end().1
    }

    fn next_end(&mut self) -> (CallNumber, u8, Contents) {
        match self.hear().unwrap() {
            Descriptor::End { call, status, message, metadata, .. } => {
                self.release(metadata);
                (call, status, message)
            }
            other => panic!("{other:?}"),
        }
    }

    /// Waits for a request and answers it. Gives the name in it.
    pub fn answer(&mut self) -> String {
        let Descriptor::Request(request) = self.hear().unwrap() else { panic!("no request") };
        let name = self.read("greet.Request", "name", request.message);
        self.release(request.metadata);
        let message = self.written("greet.Response", "text", &format!("hello, {name}"));
        let (call, metadata) = (request.call, Contents::NONE);
        self.say(&Descriptor::End { call, status: 0, has_not_run: false, message, metadata });
        // The answer has been taken when its memory comes back.
        let before = self.blocks.used_bytes();
        while self.blocks.used_bytes() == before {
            match self.lane.pop().unwrap() {
                Some(Descriptor::Release(released)) => self.take_back(&released),
                Some(request @ Descriptor::Request(_)) => self.unheard.push_back(request),
                Some(other) => panic!("{other:?}"),
                None => {
                    self.lane.wait(PATIENCE).unwrap();
                }
            }
        }
        self.lane.release();
        name
    }

    pub fn say(&mut self, said: &Descriptor) {
        while let Err(PushError::Full(_)) = self.lane.push(said) {
            self.lane.flush();
            std::thread::sleep(Duration::from_millis(1));
        }
        self.lane.flush();
    }

    /// How the lane ends.
    pub fn ended(&mut self) -> LaneError {
        loop {
            match self.lane.wait(PATIENCE) {
                Err(end) => return end,
                Ok(_) => drop(self.lane.pop().unwrap()),
            }
        }
    }

    /// Bytes of the send heap that the service has, beside the schema.
    pub fn used_bytes(&mut self) -> u64 {
        let schema = u64::from(self.schema.1);
        loop {
            match self.lane.pop().unwrap() {
                Some(Descriptor::Release(released)) => self.take_back(&released),
                Some(other) => panic!("{other:?}"),
                None if self.blocks.used_bytes() > 2 * schema => {
                    {
                        self.lane.wait(PATIENCE).unwrap();
                    };
                }
                None => break,
            }
        }
        self.blocks.free(self.schema.0).unwrap();
        self.blocks.used_bytes()
    }

    /// The next descriptor that is no release.
    fn hear(&mut self) -> Result<Descriptor, LaneError> {
        if let Some(said) = self.unheard.pop_front() {
            return Ok(said);
        }
        loop {
            let popped = self.lane.pop()?;
            self.lane.release();
            match popped {
                Some(said) => {
                    if let Some(said) = self.noted(said) {
                        return Ok(said);
                    }
                }
                None => {
                    self.lane.wait(PATIENCE)?;
                }
            }
        }
    }

    /// Waits until something comes back, or is granted.
    fn await_service(&mut self) {
        match self.lane.pop().unwrap() {
            Some(said) => {
                let said = self.noted(said);
                self.unheard.extend(said);
            }
            None => drop(self.lane.wait(PATIENCE).unwrap()),
        }
        self.lane.release();
    }

    /// What is said, unless it is a release or a grant.
    fn noted(&mut self, said: Descriptor) -> Option<Descriptor> {
        match said {
            Descriptor::Release(released) => self.take_back(&released),
            Descriptor::Grant { call, bytes } => self.flow(call).0.add(bytes),
            said => return Some(said),
        }
        None
    }

    fn flow(&mut self, call: CallNumber) -> &mut (Credit, Taken) {
        let bytes = self.attachment.limits().grant_bytes;
        self.flows.entry(call.get()).or_insert((Credit::new(bytes), Taken::new(bytes)))
    }

    fn take_back(&mut self, released: &Released) {
        for token in released.tokens().iter().filter(|token| Some(**token) != self.kept) {
            // A message is named by its root, behind the image's header.
            self.blocks.free(token - 8).unwrap();
        }
    }

    fn written(&mut self, message: &str, field: &str, text: &str) -> Contents {
        let (id, _) = self.types.schema().message_by_name(message).unwrap();
        let mut message = NativeMsg::empty(&self.types, id);
        message.set(&FieldPath::new(&self.types, id, field).unwrap(), Leaf::Text(text)).unwrap();
        let bytes = message.image().len() as u32;
        let offset = loop {
            match self.blocks.allocate(bytes) {
                Some(offset) => break offset,
                None => self.await_service(),
            }
        };
        self.attachment.write(offset, message.image()).unwrap();
        Contents { offset: offset + 8, bytes }
    }

    /// Copies a message out of the receive heap, and releases it.
    fn read(&mut self, message: &str, field: &str, contents: Contents) -> String {
        let mut image = vec![0; contents.bytes as usize];
        // An extent may have been announced that was not mapped yet.
        while self.attachment.heap(HeapKind::Receive).copy_out(contents.offset, &mut image).is_err()
        {
            self.attachment.poll().unwrap();
        }
        self.release(contents);
        let (id, _) = self.types.schema().message_by_name(message).unwrap();
        let message = NativeMsg::received(&self.types, id, &image).unwrap();
        match message.get(&FieldPath::new(&self.types, id, field).unwrap()) {
            Some(Value::String(text)) => text.to_owned(),
            _ => panic!("no text"),
        }
    }

    fn release(&mut self, contents: Contents) {
        if contents.bytes > 0 {
            let mut released = Released::new();
            released.push(contents.offset).unwrap();
            self.say(&Descriptor::Release(released));
        }
    }
}
