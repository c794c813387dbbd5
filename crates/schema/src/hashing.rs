//! Computes canonical hashes. The crate's documentation says what they cover, and why.
//!
//! A message's digest covers its fields, including the digests of their messages. So messages are
//! processed in the order of `cycles::components`. Messages of one cycle have no such order. Their
//! first digests cover their own fields only. Each round then adds the digests of the messages that
//! the fields lead to, until a round distinguishes no more messages than the one before. Finally a
//! digest of all of them goes into each, so that cycles of two schemas agree only if they are the
//! same graph at every depth.

use std::collections::{BTreeSet, HashMap};

use sha2::{Digest as _, Sha256};

use crate::cycles;
use crate::hash::Hash;
use crate::ids::{CycleId, MessageId, OneofIndex};
use crate::model::{Cardinality, Kind, Message};
use crate::service::Service;

type Digest = [u8; 32];

/// A cycle that would take more steps than allowed.
pub(crate) struct CycleTooLarge;

/// Finds the cycles among `messages` and gives each its hash.
pub(crate) fn seal(messages: &mut [Message], steps_max: usize) -> Result<(), CycleTooLarge> {
    let mut digests = vec![Digest::default(); messages.len()];
    let mut cycles_found = 0;
    for component in cycles::components(messages) {
        if cycles::is_cycle(messages, &component) {
            let cycle = CycleId::new(cycles_found);
            cycles_found += 1;
            component.iter().for_each(|id| messages[id.index()].cycle = Some(cycle));
            refine(messages, &component, &mut digests, steps_max)?;
        } else {
            let id = component[0];
            digests[id.index()] = shape(id, messages, &digests).0;
        }
    }
    for (message, digest) in messages.iter_mut().zip(&digests) {
        message.hash = Hash::of(digest);
    }
    Ok(())
}

/// The digests of the messages of one cycle.
fn refine(
    messages: &[Message],
    cycle: &[MessageId],
    digests: &mut [Digest],
    steps_max: usize,
) -> Result<(), CycleTooLarge> {
    let shapes: Vec<_> = cycle.iter().map(|id| shape(*id, messages, digests)).collect();
    let references: usize = shapes.iter().map(|(_, within)| within.len()).sum();
    if cycle.len().saturating_mul(references) > steps_max {
        return Err(CycleTooLarge);
    }
    for (id, (shape, _)) in cycle.iter().zip(&shapes) {
        digests[id.index()] = *shape;
    }
    let mut distinct = BTreeSet::from_iter(shapes.iter().map(|(shape, _)| *shape)).len();
    let all = loop {
        let next = shapes.iter().map(|(shape, within)| {
            let mut input = Input::new("petasos schema cycle 1");
            input.bytes(shape);
            within.iter().for_each(|to| input.bytes(&digests[to.index()]));
            input.digest()
        });
        let next: Vec<Digest> = next.collect();
        for (id, digest) in cycle.iter().zip(&next) {
            digests[id.index()] = *digest;
        }
        let all = BTreeSet::from_iter(next);
        if all.len() == distinct {
            break all;
        }
        distinct = all.len();
    };
    let mut input = Input::new("petasos schema cycle members 1");
    all.iter().for_each(|digest| input.bytes(digest));
    let all = input.digest();
    for id in cycle {
        let mut input = Input::new("petasos schema cycle member 1");
        input.bytes(&digests[id.index()]);
        input.bytes(&all);
        digests[id.index()] = input.digest();
    }
    Ok(())
}

/// A digest of a message's fields, and the messages of its own cycle that they lead to, which the
/// digest does not cover.
fn shape(id: MessageId, messages: &[Message], digests: &[Digest]) -> (Digest, Vec<MessageId>) {
    let message = &messages[id.index()];
    let mut input = Input::new("petasos schema message 1");
    let mut first_of_oneof: HashMap<OneofIndex, u32> = HashMap::new();
    let mut within = Vec::new();
    for field in &message.fields {
        input.number(field.number);
        input.byte(code(field.kind));
        match field.cardinality {
            Cardinality::Implicit => input.byte(0),
            Cardinality::Optional => input.byte(1),
            Cardinality::Repeated { packed } => input.byte(2 + u8::from(packed)),
            Cardinality::Map { key } => input.bytes(&[4, code(key)]),
            Cardinality::Oneof(index) => {
                input.byte(5);
                input.number(*first_of_oneof.entry(index).or_insert(field.number));
            }
        }
        let Some(to) = field.kind.message() else { continue };
        let is_within = message.cycle.is_some() && messages[to.index()].cycle == message.cycle;
        input.byte(is_within.into());
        match is_within {
            true => within.push(to),
            false => input.bytes(&digests[to.index()]),
        }
    }
    (input.digest(), within)
}

/// Sets each service's hash. Its messages must have theirs.
pub(crate) fn seal_service(service: &mut Service, messages: &[Message]) {
    let mut input = Input::new("petasos schema service 1");
    input.text(service.full_name());
    for method in &service.methods {
        input.text(&method.name);
        input.byte(u8::from(method.client_streaming) | u8::from(method.server_streaming) << 1);
        input.bytes(&messages[method.input.index()].hash.to_bytes());
        input.bytes(&messages[method.output.index()].hash.to_bytes());
    }
    service.hash = Hash::of(&input.digest());
}

/// The hash of a schema with these parts, which have theirs.
pub(crate) fn of_schema(messages: &[Message], services: &[Service]) -> Hash {
    let mut input = Input::new("petasos schema 1");
    input.number(u32::try_from(messages.len()).expect("limits keep counts below 2^32"));
    for message in messages {
        input.text(message.full_name());
        input.bytes(&message.hash.to_bytes());
    }
    for service in services {
        input.text(service.full_name());
        input.bytes(&service.hash.to_bytes());
    }
    Hash::of(&input.digest())
}

/// The bytes to be hashed. Every part has a fixed length, or begins with its length.
struct Input(Vec<u8>);

impl Input {
    /// `domain` keeps digests of different things apart, and names the version of the rules.
    fn new(domain: &str) -> Input {
        let mut input = Input(Vec::with_capacity(256));
        input.text(domain);
        input
    }

    fn byte(&mut self, byte: u8) {
        self.0.push(byte);
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    fn number(&mut self, number: u32) {
        self.bytes(&number.to_le_bytes());
    }

    fn text(&mut self, text: &str) {
        self.number(u32::try_from(text.len()).expect("names are short"));
        self.bytes(text.as_bytes());
    }

    fn digest(&self) -> Digest {
        Sha256::digest(&self.0).into()
    }
}

/// A kind's number in `google.protobuf.FieldDescriptorProto.Type`.
pub(crate) fn code(kind: Kind) -> u8 {
    match kind {
        Kind::Double => 1,
        Kind::Float => 2,
        Kind::Int64 => 3,
        Kind::Uint64 => 4,
        Kind::Int32 => 5,
        Kind::Fixed64 => 6,
        Kind::Fixed32 => 7,
        Kind::Bool => 8,
        Kind::String => 9,
        Kind::Message(_) => 11,
        Kind::Bytes => 12,
        Kind::Uint32 => 13,
        Kind::Enum(_) => 14,
        Kind::Sfixed32 => 15,
        Kind::Sfixed64 => 16,
        Kind::Sint32 => 17,
        Kind::Sint64 => 18,
    }
}
