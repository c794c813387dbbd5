//! Failures of commands that call services, for users and programs.
//!
//! Exit status: 64 + N if a call ended with status code N; 1 for all other failures.

use std::fmt;

use petasos::grpc::base64;
use petasos::{Code, Status};
use serde_json::json;

use crate::failure::Failure;

/// The exit status of a failed call is this plus the status code.
const STATUS_BASE: u8 = 64;

/// Why a command failed.
#[derive(Debug)]
pub struct Failed {
    /// The status code of the call, if a call failed.
    code: Option<Code>,
    what: String,
    advice: Option<String>,
    details: Vec<serde_json::Value>,
}

impl Failed {
    /// A failure without a call.
    pub fn new(what: impl Into<String>) -> Failed {
        Failed { code: None, what: what.into(), advice: None, details: Vec::new() }
    }

    /// Adds advice.
    pub fn with_advice(self, advice: impl Into<String>) -> Failed {
        Failed { advice: Some(advice.into()), ..self }
    }

    /// The failure of a call with this status. Its details are not decoded.
    pub fn of_status(status: &Status) -> Failed {
        Failed::with_details(status, |_, _| None)
    }

    /// The failure of a call with this status. `read` decodes a detail, if it knows the type with
    /// the given name.
    pub fn with_details(
        status: &Status,
        read: impl Fn(&str, &[u8]) -> Option<serde_json::Value>,
    ) -> Failed {
        let what = printable(status.message());
        let advice = advice(status.code()).map(str::to_owned);
        let details = details(status.details(), read);
        Failed { code: Some(status.code()), what, advice, details }
    }

    /// Gives a failure without a call a status code: the one that a server would have sent.
    pub fn with_status(self, code: Code) -> Failed {
        Failed { code: Some(code), ..self }
    }

    /// Says where it has happened, and what came of it.
    pub fn in_context(self, place: &str, outcome: &str) -> Failed {
        Failed { what: format!("{place}: {}{outcome}", self.what), ..self }
    }

    /// Whether a call has failed with this code.
    pub fn is(&self, code: Code) -> bool {
        self.code == Some(code)
    }

    /// Whether a call has failed in a way that leaves open what it did.
    pub fn is_uncertain(&self) -> bool {
        use Code::{Cancelled, DeadlineExceeded, Internal, Unavailable, Unknown};
        self.code.is_some_and(|code| {
            [Cancelled, DeadlineExceeded, Internal, Unavailable, Unknown].contains(&code)
        })
    }

    /// The exit status of the process.
    pub fn exit_code(&self) -> u8 {
        self.code.map_or(1, |code| STATUS_BASE + code as u8)
    }

    /// The failure as JSON.
    pub fn to_json(&self) -> serde_json::Value {
        json!({
            "error": {
                "code": self.code.map(|code| code as u8),
                "status": self.code.map(Code::name),
                "message": self.what,
                "advice": self.advice,
                "details": self.details,
            }
        })
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let status = self.code.map(Code::name);
        let colon = if status.is_some() && !self.what.is_empty() { ": " } else { "" };
        write!(f, "{}{colon}{}", status.unwrap_or_default(), self.what)?;
        if let Some(advice) = &self.advice {
            write!(f, "; {advice}")?;
        }
        self.details.iter().try_for_each(|detail| write!(f, "\n  detail: {detail}"))
    }
}

impl From<Failure> for Failed {
    fn from(failure: Failure) -> Failed {
        Failed::new(failure.to_string())
    }
}

/// Escapes control characters, because a peer may have written the text.
fn printable(text: &str) -> String {
    let mut printable = String::with_capacity(text.len());
    for character in text.chars() {
        match character.is_control() {
            true => printable.extend(character.escape_default()),
            false => printable.push(character),
        }
    }
    printable
}

fn advice(code: Code) -> Option<&'static str> {
    Some(match code {
        Code::Unavailable => "check the address, and that a server runs there",
        Code::DeadlineExceeded => "allow more with --timeout",
        Code::Unimplemented => "`petasos list` shows what the server offers",
        Code::Unauthenticated => "give what the server asks for with -H",
        _ => return None,
    })
}

/// The messages in an encoded `google.rpc.Status`. Unknown types are printed as base64.
fn details(
    bytes: &[u8],
    read: impl Fn(&str, &[u8]) -> Option<serde_json::Value>,
) -> Vec<serde_json::Value> {
    use petasos::message::{DecodeLimits, Input};
    let limits = DecodeLimits::for_input(bytes.len());
    let status = petasos::Msg::<rpc::Status>::from_protobuf(Input::Borrowed(bytes), &limits);
    let Ok(status) = status else { return vec![json!({ "value": base64::encode(bytes) })] };
    let one = |any: &petasos::message::well_known::Any| {
        let name = any.type_url().rsplit('/').next().unwrap_or_default();
        let mut object = match read(name, any.value()) {
            Some(serde_json::Value::Object(object)) => object,
            Some(value) => serde_json::Map::from_iter([("value".to_owned(), value)]),
            None => {
                let text = base64::encode(any.value()).into();
                serde_json::Map::from_iter([("value".to_owned(), text)])
            }
        };
        object.insert("@type".to_owned(), any.type_url().into());
        serde_json::Value::Object(object)
    };
    status.details().iter().map(one).collect()
}

#[allow(missing_docs, reason = "generated")]
mod rpc {
    include!(concat!(env!("OUT_DIR"), "/google.rpc.rs"));
}
