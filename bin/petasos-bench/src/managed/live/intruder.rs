//! A hostile application of the managed service: it attaches, does what it may not, and attaches
//! again when it is given up, as fast as it can. It leaves as a process does that has died: in the
//! middle.

use std::hint::black_box;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use petasos::message::{Message, NativeMsg, Types};
use petasos_abi::{CallNumber, Contents, Descriptor, Released, Request, Side, TIME_NEVER};
use petasos_attach::ask::Ask;
use petasos_attach::hello::Hello;
use petasos_attach::reason::Text;
use petasos_attach::{AskError, Attachment, Lane, PushError};
use petasos_base::{Rng, random_seed};
use petasos_shm::HeapKind;

use crate::error::BenchError;
use crate::managed::part_args::PartArgs;
use crate::managed::relay::end_with_input;
use crate::rpc::typed_messages::generated::Payload;

/// What the service knows intruders as.
const NAME: &str = "intruder";
const PATIENCE: Duration = Duration::from_secs(5);
const HEAP_BYTES: u64 = 1 << 20;
/// After so many steps, an attachment that still stands is left for another one.
const STEPS: u32 = 20_000;

/// Harms the service as well as it can, until the standard input ends. With two threads, it
/// computes besides.
///
/// # Errors
/// If no service is named.
pub fn intrude(args: &PartArgs) -> Result<(), BenchError> {
    let service = args.service.as_deref().and_then(|path| path.strip_prefix("unix:"));
    let path = Path::new(service.ok_or("--service names no service")?);
    println!("ready");
    std::io::stdout().flush()?;
    end_with_input();
    if args.shape().threads > 1 {
        // It takes as much of the processor as it gets, as well.
        std::thread::spawn(|| {
            let mut sum = 0_u64;
            loop {
                sum = black_box(sum.wrapping_mul(31).wrapping_add(1));
            }
        });
    }
    let mut rng = Rng::new(random_seed());
    loop {
        match rng.below(8) {
            0 => stammer(path, &mut rng),
            _ => drop(attached(path, &mut rng)),
        }
    }
}

/// Begins to say something at the socket, and leaves.
fn stammer(path: &Path, rng: &mut Rng) {
    for _ in 0..16 {
        let Ok(mut socket) = UnixStream::connect(path) else { return };
        let bytes: Vec<u8> = (0..rng.below(64)).map(|_| rng.below(256) as u8).collect();
        // It may have been refused already.
        let _ = socket.write_all(&bytes);
    }
}

/// Attaches, and does one thing over and over, until it is given up or has done enough.
fn attached(path: &Path, rng: &mut Rng) -> Option<()> {
    let hello = Hello::new(NAME, 1).ok()?;
    let mut attachment = Attachment::connect(path, &hello, PATIENCE).ok()?;
    let heap_at = attachment.grow(HeapKind::Send, HEAP_BYTES).ok()?.offset;
    let lane = attachment.take_lanes().pop()?;
    let mut attached = Attached { attachment, lane, heap_at, own: Own::new(), rng };
    let way = attached.rng.below(8);
    if matches!(way, 4 | 5) {
        attached.own.serve(&mut attached.attachment, heap_at)?;
    }
    (0..STEPS).try_for_each(|step| attached.step(way, step))
}

/// One attachment. All that it does gives `None` once the service has given it up.
struct Attached<'a> {
    attachment: Attachment,
    lane: Lane,
    /// Where its memory begins.
    heap_at: u64,
    own: Own,
    rng: &'a mut Rng,
}

impl Attached<'_> {
    fn step(&mut self, way: u64, step: u32) -> Option<()> {
        match way {
            0 => self.bind_noise(),
            1 => self.name(),
            // Calls of nothing, which are answered and never released or read.
            2 => self.request(u64::from(step)),
            // Calls that go back in their numbers.
            3 => {
                let number = self.rng.below(100);
                self.request(number)
            }
            4 => self.call_itself(step),
            5 => self.stream_to_itself(step),
            6 => self.bind_another(),
            _ => self.release(),
        }
    }

    /// Schemas of any bytes, in memory that changes.
    fn bind_noise(&mut self) -> Option<()> {
        let bytes = 1 + self.rng.below(60_000) as u32;
        let noise: Vec<u8> = (0..256).map(|_| self.rng.below(256) as u8).collect();
        self.attachment.write(self.heap_at + self.rng.below(60_000), &noise).ok()?;
        self.bind(bytes, Text::new("any.Service"))
    }

    /// Schemas without end, each of which is right.
    fn bind_another(&mut self) -> Option<()> {
        let (schema, service) = self.own.renamed(self.rng);
        self.attachment.write(self.heap_at, &schema).ok()?;
        self.bind(schema.len() as u32, service)
    }

    fn bind(&mut self, bytes: u32, service: Text) -> Option<()> {
        let bind = Ask::Bind { offset: self.heap_at, bytes, is_served: true, service };
        // It may be refused; an error is the end.
        (!matches!(self.attachment.ask(&bind), Err(AskError::Ended(_)))).then_some(())
    }

    /// Names without end.
    fn name(&mut self) -> Option<()> {
        let name = format!("name {}", self.rng.below(u64::MAX));
        let _ = self.attachment.ask(&Ask::Target(Text::new(&name)));
        let _ = self.attachment.ask(&Ask::Serve(Text::new(&self.rng.below(9999).to_string())));
        Some(())
    }

    fn request(&mut self, number: u64) -> Option<()> {
        push(&mut self.lane, &request(self.rng, number))
    }

    /// Calls of what it serves itself, which it never takes up: of a message, of one that changes
    /// while it is looked at, and of what is none.
    fn call_itself(&mut self, step: u32) -> Option<()> {
        let at = self.heap_at + 8 * self.rng.below(HEAP_BYTES / 16);
        let message = match self.rng.below(4) {
            0 => self.own.message(at),
            _ => self.own.write(&mut self.attachment, at)?,
        };
        let call = CallNumber::new(Side::Application, u64::from(step));
        push(&mut self.lane, &called(call, UNARY, message))?;
        if self.rng.below(2) == 0 {
            let noise = self.rng.below(u64::MAX).to_le_bytes();
            let at = message.offset + self.rng.below(u64::from(message.bytes));
            self.attachment.write(at.min(self.heap_at + HEAP_BYTES - 8), &noise).ok()?;
        }
        Some(())
    }

    /// Streams that nobody reads, with more messages than they may have.
    fn stream_to_itself(&mut self, step: u32) -> Option<()> {
        let call = CallNumber::new(Side::Application, u64::from(step / 64));
        let message = self.own.write(&mut self.attachment, self.heap_at)?;
        let said = match step % 64 {
            0 => called(call, STREAM, Contents::NONE),
            _ => Descriptor::Message { call, message },
        };
        push(&mut self.lane, &said)
    }

    /// Releases of what it does not have.
    fn release(&mut self) -> Option<()> {
        let mut released = Released::new();
        released.push(self.rng.below(HEAP_BYTES)).ok()?;
        push(&mut self.lane, &Descriptor::Release(released))
    }
}

/// What it serves itself.
struct Own {
    schema: Vec<u8>,
    /// A message.
    image: Vec<u8>,
}

/// Its methods, by name.
const UNARY: u16 = 0;
const STREAM: u16 = 1;
/// The part of its package's name that others have otherwise.
const PACKAGE: &str = "bench";

impl Own {
    fn new() -> Own {
        let schema = Payload::TYPE.module.schema();
        let types = Types::new(schema.clone()).expect("it is this program's");
        let (payload, _) = schema.message_by_name("petasos.bench.Payload").expect("it is there");
        let image = NativeMsg::empty(&types, payload).image().to_vec();
        Own { schema: schema.encode(), image }
    }

    /// Binds its service, serves it under a name of this process, and calls that: its first.
    fn serve(&self, attachment: &mut Attachment, at: u64) -> Option<()> {
        attachment.write(at, &self.schema).ok()?;
        let (offset, bytes) = (at, self.schema.len() as u32);
        let service = Text::new("petasos.bench.Bench");
        let bind = Ask::Bind { offset, bytes, is_served: true, service };
        let name = format!("intruder {}", std::process::id());
        attachment.ask(&bind).ok()?;
        attachment.ask(&Ask::Serve(Text::new(&name))).ok()?;
        attachment.ask(&Ask::Target(Text::new(&name))).ok().map(drop)
    }

    /// Its message, as if it were at this place of the heap.
    fn message(&self, at: u64) -> Contents {
        Contents { offset: at + 8, bytes: self.image.len() as u32 }
    }

    fn write(&self, attachment: &mut Attachment, at: u64) -> Option<Contents> {
        attachment.write(at, &self.image).ok()?;
        Some(self.message(at))
    }

    /// Its schema as that of another package, and the service's name there.
    fn renamed(&self, rng: &mut Rng) -> (Vec<u8>, Text) {
        let name: String =
            (0..PACKAGE.len()).map(|_| char::from(b'a' + rng.below(26) as u8)).collect();
        let mut schema = self.schema.clone();
        for at in 0..=schema.len() - PACKAGE.len() {
            if schema[at..].starts_with(PACKAGE.as_bytes()) {
                schema[at..at + PACKAGE.len()].copy_from_slice(name.as_bytes());
            }
        }
        (schema, Text::new(&format!("petasos.{name}.Bench")))
    }
}

/// A call of its own service.
fn called(call: CallNumber, method: u16, message: Contents) -> Descriptor {
    Descriptor::Request(Request {
        call,
        binding: 0,
        method,
        partner: 0,
        is_stream: method == STREAM,
        is_idempotent: false,
        waits_for_ready: false,
        time_left_us: TIME_NEVER,
        message,
        metadata: Contents::NONE,
    })
}

/// A request of anything, with a message anywhere.
fn request(rng: &mut Rng, number: u64) -> Descriptor {
    let message = Contents { offset: rng.below(2 * HEAP_BYTES), bytes: rng.below(70_000) as u32 };
    Descriptor::Request(Request {
        call: CallNumber::new(Side::Application, number),
        binding: rng.below(3) as u16,
        method: rng.below(3) as u16,
        partner: rng.below(3) as u32,
        is_stream: false,
        is_idempotent: false,
        waits_for_ready: false,
        time_left_us: TIME_NEVER,
        message,
        metadata: Contents::NONE,
    })
}

/// Puts a descriptor into the lane. Waits for no room for long: the service may not hear it.
fn push(lane: &mut Lane, said: &Descriptor) -> Option<()> {
    for _ in 0..1000 {
        match lane.push(said) {
            Ok(()) => {
                lane.flush();
                return Some(());
            }
            Err(PushError::Full(_)) => std::thread::yield_now(),
            Err(_) => return None,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use petasos_schema::{Limits, Schema};

    use super::*;

    #[test]
    fn schemas_of_other_packages_are_right_and_differ() {
        let (own, mut rng) = (Own::new(), Rng::new(1));
        let (one, service) = own.renamed(&mut rng);
        let schema = Schema::decode(&one, &Limits::default()).expect("it is right");
        assert!(schema.service_by_name(service.as_str()).is_some());
        assert_ne!(one, own.renamed(&mut rng).0);
    }
}
