//! Checks of configurations. Each error names the field, and what it may be.

use std::fmt::Display;
use std::ops::RangeInclusive;

use petasos_engine::{Code, PolicyError, PolicyKind, State, Version};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A kind of policy, which its errors name.
pub(crate) type Kind = dyn PolicyKind;

/// The range of durations: from 1 to an hour in microseconds.
pub(crate) const DURATION_US: RangeInclusive<u64> = 1..=3_600_000_000;
/// The range of durations: from 1 to an hour in milliseconds.
pub(crate) const DURATION_MS: RangeInclusive<u64> = 1..=3_600_000;
/// The range of probabilities and shares.
pub(crate) const SHARE: RangeInclusive<f64> = 0.0..=1.0;
/// How many keys a policy may keep apart.
pub(crate) const KEYS: RangeInclusive<u32> = 1..=65_536;
/// How many items an engine may hold.
pub(crate) const HELD: RangeInclusive<u32> = 0..=65_536;
/// How many rules a policy may have.
pub(crate) const RULES_MAX: usize = 64;

/// Reads a configuration. An error names the field in which it is.
pub(crate) fn parse<T: DeserializeOwned>(kind: &Kind, text: &str) -> Result<T, PolicyError> {
    serde_json::from_str(text).map_err(|error| {
        let why = error.to_string();
        match culprit::<T>(text).filter(|field| !why.contains(&format!("`{field}`"))) {
            Some(field) => kind.wrong(format!("`{field}`: {why}")),
            None => kind.wrong(why),
        }
    })
}

/// The field without which a configuration would be right, or would lack just that field.
fn culprit<T: DeserializeOwned>(text: &str) -> Option<String> {
    let fields: Map<String, Value> = serde_json::from_str(text).ok()?;
    let is_it = |field: &&String| {
        let mut others = fields.clone();
        others.remove(*field);
        match T::deserialize(Value::Object(others)) {
            Ok(_) => true,
            Err(error) => error.to_string() == format!("missing field `{field}`"),
        }
    };
    fields.keys().find(is_it).cloned()
}

/// Checks that a number is in its range.
pub(crate) fn within<T: PartialOrd + Display>(
    kind: &Kind,
    field: &str,
    value: &T,
    range: RangeInclusive<T>,
) -> Result<(), PolicyError> {
    if range.contains(value) {
        return Ok(());
    }
    let (start, end) = range.into_inner();
    Err(kind.wrong(format!("`{field}` must be from {start} to {end}, and is {value}")))
}

/// Checks that a list has at least one entry and is not too long.
pub(crate) fn listed<T>(
    kind: &Kind,
    field: &str,
    list: &[T],
    longest: usize,
) -> Result<(), PolicyError> {
    if (1..=longest).contains(&list.len()) {
        return Ok(());
    }
    let found = list.len();
    Err(kind.wrong(format!("`{field}` must have 1 to {longest} entries, and has {found}")))
}

/// Checks the state that an engine without one is given: its predecessor had none either, or was of
/// the same kind and not later.
pub(crate) fn no_state(state: Option<&State>, version: Version) -> Result<(), PolicyError> {
    state.map_or(Ok(()), |state| state.read::<Value>(version).map(drop))
}

/// What a predecessor has left, or nothing.
pub(crate) fn contents<T: DeserializeOwned + Default>(
    state: Option<&State>,
    version: Version,
) -> Result<T, PolicyError> {
    state.map_or(Ok(T::default()), |state| state.read(version))
}

/// Nanoseconds of microseconds.
pub(crate) const fn micros(us: u64) -> u64 {
    us.saturating_mul(1000)
}

/// Nanoseconds of milliseconds.
pub(crate) const fn millis(ms: u64) -> u64 {
    ms.saturating_mul(1_000_000)
}

/// A status code by gRPC's name, other than `OK`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct Failure(pub(crate) Code);

impl TryFrom<String> for Failure {
    type Error = String;

    fn try_from(name: String) -> Result<Failure, String> {
        let code = Code::from_name(&name).filter(|code| *code != Code::Ok);
        let wrong = || format!("`{name}` is not the name of a failure, such as `UNAVAILABLE`");
        code.map(Failure).ok_or_else(wrong)
    }
}

impl From<Failure> for String {
    fn from(failure: Failure) -> String {
        failure.0.name().to_owned()
    }
}

/// A number, or the word `unlimited`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Value")]
pub(crate) enum Limit {
    /// At most so many.
    AtMost(u64),
    /// As many as come.
    Unlimited,
}

impl TryFrom<Value> for Limit {
    type Error = String;

    fn try_from(value: Value) -> Result<Limit, String> {
        match (value.as_u64(), value.as_str()) {
            (Some(number), _) => Ok(Limit::AtMost(number)),
            (None, Some("unlimited")) => Ok(Limit::Unlimited),
            _ => Err(format!("a limit must be a whole number or \"unlimited\", and is {value}")),
        }
    }
}
