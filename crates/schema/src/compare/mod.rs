//! Whether two schemas can exchange protobuf.
//!
//! The rules are those of protobuf for updating a message type
//! (<https://protobuf.dev/programming-guides/proto3/#updating>), applied strictly: schemas are
//! compatible if every message that one side can send has a meaning for the other, whatever its
//! values. Fields are the same if they have the same number, whatever their names.
//!
//! - A field or method that one side lacks is fine: it is skipped and kept, or answered as unknown.
//! - Kinds may change within `int32 uint32 int64 uint64 bool enum` (numbers are cut off), within
//!   `sint32 sint64`, within `fixed32 sfixed32`, and within `fixed64 sfixed64`. All enums are the
//!   same, since they are open.
//! - `string` and `bytes` may change into each other, as in protobuf. Bytes that are not UTF-8 make
//!   only the message fail that has them. That is better than to refuse the usual replacement for a
//!   `string` that turned out too narrow.
//! - A message and `bytes` may not: nothing guarantees that the bytes are such a message.
//! - Singular and repeated: allowed for strings, bytes and messages, where the last value counts or
//!   all are merged, and for numbers that are not packed. A singular reader treats packed ones as a
//!   field of unknown form. Every reader accepts both packed and unpacked.
//! - A map is the same as its entries, repeated: messages with a key 1 and a value 2.
//! - Two fields that both sides have must share a oneof on both sides or on none: otherwise a
//!   reader would drop fields that a writer may send together. One field may move into a new oneof
//!   or out of one, and presence may change.
//!
//! If a pair of messages is already being compared further up, it counts as compatible.

mod rules;

use std::collections::HashSet;
use std::fmt;

use thiserror::Error;

use crate::ids::{MessageId, ServiceId};
use crate::model::{Field, Message};
use crate::schema::Schema;
use crate::service::Method;

/// How two schemas' versions of a message or service relate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Compatibility {
    /// The hashes are equal, so that the native encoding can be used.
    Equal,
    /// Each side understands protobuf from the other.
    Compatible,
    /// They disagree.
    Incompatible(Mismatch),
}

/// The first disagreement, in the order of field numbers, depth first; of methods' names, requests
/// first. Shown as `hello.Request.items.price (field 2.3): ...`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// The compared item, and the names in the first schema that lead to the field.
    pub path: String,
    /// The numbers of the fields in the path; none if the disagreement is a method's.
    pub numbers: Vec<u32>,
    /// What the two schemas disagree about.
    pub difference: Difference,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.path)?;
        if !self.numbers.is_empty() {
            let numbers: Vec<String> = self.numbers.iter().map(u32::to_string).collect();
            write!(f, " (field {})", numbers.join("."))?;
        }
        write!(f, ": {}", self.difference)
    }
}

/// What two schemas disagree about.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Difference {
    /// Types that are encoded differently, or mean something else.
    #[error("{first} here, {second} there")]
    Type {
        /// The type in the first schema, such as `repeated int32`.
        first: String,
        /// The type in the second schema.
        second: String,
    },
    /// The field shares a oneof with other fields in one schema only.
    #[error("in one oneof with field {other} only {}", if *is_first { "here" } else { "there" })]
    Oneof {
        /// The other field's number.
        other: u32,
        /// Whether it is so in the first schema.
        is_first: bool,
    },
    /// A method's requests or responses are a stream in one schema only.
    #[error("a stream of {} on one side only", streamed(*of_requests))]
    Streaming {
        /// Requests, or responses.
        of_requests: bool,
    },
    /// The comparison was given up: the schemas refer to themselves in too many ways.
    #[error("too many pairs of messages to compare")]
    TooManyPairs,
}

fn streamed(of_requests: bool) -> &'static str {
    if of_requests { "requests" } else { "responses" }
}

/// The most pairs of messages that are compared. Schemas that people write need one pair for each
/// message.
const PAIRS_MAX: usize = 1 << 17;

impl Schema {
    /// Compares a message of this schema, the first, with one of `other`, the second.
    pub fn compare_messages(
        &self,
        id: MessageId,
        other: &Schema,
        other_id: MessageId,
    ) -> Compatibility {
        if self.message(id).hash() == other.message(other_id).hash() {
            return Compatibility::Equal;
        }
        let mut comparison = Comparison::new(self, other);
        match comparison.run(id, other_id, self.message(id).full_name()) {
            Ok(()) => Compatibility::Compatible,
            Err(mismatch) => Compatibility::Incompatible(mismatch),
        }
    }

    /// Compares a method of this schema, the first, with one of `other`, the second: the method of
    /// this index in the service. Gives the comparison up after `pairs_max` pairs of messages, so
    /// that nobody's schemas can make it take long.
    ///
    /// # Panics
    /// If a service has no such method.
    pub fn compare_methods(
        &self,
        (id, index): (ServiceId, usize),
        other: &Schema,
        (other_id, other_index): (ServiceId, usize),
        pairs_max: usize,
    ) -> Compatibility {
        let (first, second) = (self.service(id), other.service(other_id));
        let (method, there) = (&first.methods()[index], &second.methods()[other_index]);
        let path = format!("{}.{}", first.full_name(), method.name());
        let mut comparison = Comparison { pairs_max, ..Comparison::new(self, other) };
        match comparison.methods(&path, method, there) {
            Err(mismatch) => Compatibility::Incompatible(mismatch),
            Ok(()) if comparison.seen.is_empty() => Compatibility::Equal,
            Ok(()) => Compatibility::Compatible,
        }
    }

    /// Compares a service of this schema, the first, with one of `other`, the second.
    pub fn compare_services(
        &self,
        id: ServiceId,
        other: &Schema,
        other_id: ServiceId,
    ) -> Compatibility {
        let (first, second) = (self.service(id), other.service(other_id));
        if first.hash() == second.hash() {
            return Compatibility::Equal;
        }
        let mut comparison = Comparison::new(self, other);
        for method in first.methods() {
            let Some(there) = second.method_by_name(method.name()) else { continue };
            let path = format!("{}.{}", first.full_name(), method.name());
            if let Err(mismatch) = comparison.methods(&path, method, there) {
                return Compatibility::Incompatible(mismatch);
            }
        }
        Compatibility::Compatible
    }
}

/// Pairs of messages that were compared already are not compared again.
struct Comparison<'a> {
    first: &'a Schema,
    second: &'a Schema,
    seen: HashSet<(MessageId, MessageId)>,
    /// More pairs of messages are not compared.
    pairs_max: usize,
}

/// A pair of messages on the way to the current one, and its fields that are still to compare.
struct Step<'a> {
    pairs: std::vec::IntoIter<(&'a Field, &'a Field)>,
    /// The field that is being compared.
    field: Option<&'a Field>,
    /// The first field whose oneofs differ, by number: a difference in an earlier one goes first.
    oneof: Option<(u32, Difference)>,
}

impl<'a> Comparison<'a> {
    fn new(first: &'a Schema, second: &'a Schema) -> Comparison<'a> {
        Comparison { first, second, seen: HashSet::new(), pairs_max: PAIRS_MAX }
    }

    /// Compares two methods: what streams, and the messages.
    fn methods(&mut self, path: &str, here: &Method, there: &Method) -> Result<(), Mismatch> {
        let of_requests = here.client_streaming() != there.client_streaming();
        if of_requests || here.server_streaming() != there.server_streaming() {
            let difference = Difference::Streaming { of_requests };
            let (path, numbers) = (path.to_owned(), Vec::new());
            return Err(Mismatch { path, numbers, difference });
        }
        for (here, there) in [(here.input(), there.input()), (here.output(), there.output())] {
            let found = self.run(here, there, self.first.message(here).full_name());
            found.map_err(|mismatch| {
                let path = format!("{path}: {}", mismatch.path);
                Mismatch { path, ..mismatch }
            })?;
        }
        Ok(())
    }

    /// Compares two messages. Nested messages are compared with an explicit stack, however deep
    /// they are.
    fn run(&mut self, first: MessageId, second: MessageId, root: &str) -> Result<(), Mismatch> {
        let mut steps: Vec<Step<'a>> = Vec::new();
        let found = |steps: &[Step<'a>], difference| {
            let fields = || steps.iter().filter_map(|step| step.field);
            let path = fields().fold(root.to_owned(), |path, field| path + "." + field.name());
            Mismatch { path, numbers: fields().map(Field::number).collect(), difference }
        };
        let mut next = Some((first, second));
        loop {
            if let Some((first, second)) = next.take()
                && self.is_new(first, second)
            {
                if self.seen.len() > self.pairs_max {
                    return Err(found(&steps, Difference::TooManyPairs));
                }
                let (first, second) = (self.first.message(first), self.second.message(second));
                let pairs = common(first, second);
                let oneof = rules::oneofs(first, second, &pairs);
                steps.push(Step { pairs: pairs.into_iter(), field: None, oneof });
            }
            let Some(step) = steps.last_mut() else { return Ok(()) };
            let Some((here, there)) = step.pairs.next() else {
                steps.pop();
                continue;
            };
            step.field = Some(here);
            if let Some((_, difference)) = step.oneof.take_if(|(at, _)| *at == here.number()) {
                return Err(found(&steps, difference));
            }
            next = rules::fields(self.first, here, self.second, there)
                .map_err(|difference| found(&steps, difference))?;
        }
    }

    /// Whether a pair needs a comparison.
    fn is_new(&mut self, first: MessageId, second: MessageId) -> bool {
        let is_equal = self.first.message(first).hash() == self.second.message(second).hash();
        !is_equal && self.seen.insert((first, second))
    }
}

/// The fields that both messages have, sorted by number.
fn common<'a>(first: &'a Message, second: &'a Message) -> Vec<(&'a Field, &'a Field)> {
    let pair = |field: &'a Field| Some((field, second.field(field.number())?));
    first.fields().iter().filter_map(pair).collect()
}
