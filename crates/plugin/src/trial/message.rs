//! What a service and its child say to each other.

use petasos_engine::State;
use serde::{Deserialize, Serialize};

/// An answer has at most so many bytes.
pub(super) const ANSWER_BYTES_MAX: u64 = 64 << 10;

/// What is to be tried: a line of JSON, behind which the object follows.
#[derive(Serialize, Deserialize)]
pub(super) struct Request {
    pub(super) making: Option<Making>,
    pub(super) limit_ms: u64,
}

/// A policy that is to be made.
#[derive(Serialize, Deserialize)]
pub(super) struct Making {
    pub(super) configuration: String,
    /// Kind, version and contents.
    state: Option<(String, u32, String)>,
}

#[derive(Serialize, Deserialize)]
pub(super) enum Answer {
    Passed,
    Refused(Refusal),
}

/// Why an object is refused, with a text for people.
#[derive(Serialize, Deserialize)]
pub(super) enum Refusal {
    Object(String),
    Configuration(String),
    State(String),
}

impl Making {
    pub(super) fn new(configuration: &str, state: Option<&State>) -> Making {
        let state = state.map(|state| (state.kind.clone(), state.version, state.json.clone()));
        Making { configuration: configuration.to_owned(), state }
    }

    pub(super) fn state(&self) -> Option<State> {
        let (kind, version, json) = self.state.clone()?;
        Some(State { kind, version, json })
    }
}

impl Request {
    /// JSON has no line breaks but between tokens, and this has none there.
    pub(super) fn to_line(&self) -> Vec<u8> {
        let mut line = serde_json::to_vec(self).expect("it is plain data");
        line.push(b'\n');
        line
    }

    /// The request and the object behind it.
    pub(super) fn parse(input: &[u8]) -> Option<(Request, &[u8])> {
        let end = input.iter().position(|byte| *byte == b'\n')?;
        Some((serde_json::from_slice(&input[..end]).ok()?, &input[end + 1..]))
    }
}
