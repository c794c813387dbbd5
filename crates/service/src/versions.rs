//! Versions of a method at its caller and its server.
//!
//! Both are applications of this host, so the service has both schemas. It judges as a caller does
//! of another host (R3): if the messages have the same layout, they are handed over as they are;
//! if the schemas are compatible, they are decoded and encoded again; otherwise no call is made.
//!
//! Schemas come from applications, so a comparison is bounded, and its outcome is remembered: it
//! depends on the messages' hashes only, which say all that is compared.

use std::collections::HashMap;
use std::sync::Arc;

use petasos_call::Status;
use petasos_message::{DecodeError, DecodeLimits, Input, NativeMsg, Types};
use petasos_schema::{Compatibility, Difference, Hash, MessageId, Mismatch};

use crate::Binding;

/// More pairs of messages are not compared: about a millisecond.
const PAIRS_MAX: usize = 1024;
/// As many outcomes are remembered.
const OUTCOMES_MAX: usize = 4096;

/// Of the caller's method and of the server's: requests and responses, and whether they stream.
type Pair = [([Hash; 2], bool); 2];

/// What comparisons of methods have led to.
#[derive(Debug, Default)]
pub(crate) struct Versions {
    /// The first difference, if the two do not go together.
    outcomes: HashMap<Pair, Option<Box<str>>>,
}

impl Versions {
    /// Whether a caller's method can be served by another one of the same name.
    ///
    /// # Errors
    /// The two contradict each other: both operators' fault.
    pub(crate) fn agree(
        &mut self,
        caller: (&Binding, usize),
        server: (&Binding, usize),
    ) -> Result<(), Status> {
        let pair = [caller, server].map(described);
        if pair[0] == pair[1] {
            return Ok(());
        }
        if self.outcomes.len() >= OUTCOMES_MAX && !self.outcomes.contains_key(&pair) {
            self.outcomes.clear();
        }
        let outcome = self.outcomes.entry(pair).or_insert_with(|| difference(caller, server));
        match outcome {
            None => Ok(()),
            Some(why) => {
                let why = format!("the server has an incompatible version of the method: {why}");
                Err(Status::failed_precondition(why))
            }
        }
    }
}

fn described((binding, method): (&Binding, usize)) -> ([Hash; 2], bool) {
    let method = &binding.methods[method];
    (binding.message_hashes(method), method.is_stream)
}

/// Why a caller's method does not go together with a server's.
#[cold]
fn difference(caller: (&Binding, usize), server: (&Binding, usize)) -> Option<Box<str>> {
    let [here, there] = [caller, server].map(|(binding, method)| {
        let schema = binding.types.schema();
        let (id, service) = schema.service_by_name(&binding.service)?;
        let name = binding.methods[method].name.rsplit('/').next()?;
        let index = service.methods().iter().position(|method| method.name() == name)?;
        Some((schema, (id, index)))
    });
    let (Some((first, here)), Some((second, there))) = (here, there) else {
        return Some("one of them does not describe it".into());
    };
    match first.compare_methods(here, second, there, PAIRS_MAX) {
        Compatibility::Incompatible(mismatch) => Some(shown(&mismatch)),
        Compatibility::Equal | Compatibility::Compatible => None,
    }
}

/// What two methods disagree about, without names: the outcome is that of others, too, whose
/// messages are laid out alike and have other names.
fn shown(mismatch: &Mismatch) -> Box<str> {
    match &mismatch.difference {
        Difference::Streaming { .. } => "it streams otherwise".into(),
        Difference::TooManyPairs => "there is too much to compare".into(),
        _ => {
            let numbers: Vec<_> = mismatch.numbers.iter().map(u32::to_string).collect();
            format!("field {} is another", numbers.join(".")).into()
        }
    }
}

/// A message for an application whose schema may be of another version. It has at most `bytes_max`
/// then.
///
/// # Errors
/// It cannot be encoded or is too large.
#[inline]
pub(crate) fn retyped(
    message: NativeMsg,
    (types, id): (&Arc<Types>, MessageId),
    bytes_max: usize,
) -> Result<NativeMsg, Status> {
    match message.retyped(types, id) {
        Ok(message) => Ok(message),
        Err(message) => converted(&message, (types, id), bytes_max),
    }
}

#[cold]
#[inline(never)]
fn converted(
    message: &NativeMsg,
    (types, id): (&Arc<Types>, MessageId),
    bytes_max: usize,
) -> Result<NativeMsg, Status> {
    let encoded = message.to_protobuf(0);
    let encoded = encoded.map_err(|error| Status::resource_exhausted(error.to_string()))?;
    let encoded = encoded.into_buf();
    let limits = DecodeLimits::for_input(encoded.len());
    let decoded =
        NativeMsg::from_protobuf(types, id, Input::Borrowed(&encoded), &limits, bytes_max);
    decoded.map_err(|error| match error {
        DecodeError::TooLarge => Status::resource_exhausted("the message is too large"),
        error => Status::internal(format!("the message is none of the other version: {error}")),
    })
}
