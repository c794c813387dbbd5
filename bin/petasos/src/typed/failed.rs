//! How typed commands fail: as people and programs see it.

use std::fmt;

use petasos::grpc::base64;
use petasos::{Code, Status};
use serde_json::json;

use petasos_cli::failure::Failure;

/// Added to the code of a status for the exit status.
const STATUS_BASE: u8 = 64;

/// Why a command failed.
#[derive(Debug)]
pub struct Failed {
    /// The code of the status with which a call ended, if one did.
    code: Option<Code>,
    what: String,
    advice: Option<String>,
    details: Vec<serde_json::Value>,
}

impl Failed {
    /// A failure that is no call's.
    pub fn new(what: impl Into<String>) -> Failed {
        Failed { code: None, what: what.into(), advice: None, details: Vec::new() }
    }

    /// The same, with what can be done about it.
    pub fn with_advice(self, advice: impl Into<String>) -> Failed {
        Failed { advice: Some(advice.into()), ..self }
    }

    /// A call ended so. Nobody knows the types of its details.
    pub fn of_status(status: &Status) -> Failed {
        Failed::with_details(status, |_, _| None)
    }

    /// A call ended so. `read` reads a detail of a type with this name, if it knows that.
    pub fn with_details(
        status: &Status,
        read: impl Fn(&str, &[u8]) -> Option<serde_json::Value>,
    ) -> Failed {
        let what = printable(status.message());
        let advice = advice(status.code()).map(str::to_owned);
        let details = details(status.details(), read);
        Failed { code: Some(status.code()), what, advice, details }
    }

    /// Gives a failure that is no call's the code of a status: what a server would have said.
    pub fn with_status(self, code: Code) -> Failed {
        Failed { code: Some(code), ..self }
    }

    /// For the process's exit status.
    pub fn exit_code(&self) -> u8 {
        self.code.map_or(1, |code| STATUS_BASE + code as u8)
    }

    /// For programs.
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

/// A peer may have written it: control characters do nothing to a terminal.
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

/// The messages in an encoded `google.rpc.Status`; of unknown types as base64.
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
