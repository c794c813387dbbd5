//! One line of a history: a header, a call, what a call has seen before its end, or its end.
//!
//! ```text
//! {"history":1,"model":"register"}
//! {"process":0,"id":1,"at":100,"call":{"set":{"key":"a","value":"1"}}}
//! {"process":0,"id":1,"at":180,"ok":{"stamp":4}}
//! {"process":1,"id":1,"at":150,"call":{"get":{"key":"a"}}}
//! {"process":1,"id":1,"at":190,"end":"unknown"}
//! ```
//!
//! A process (a client, or a thread of one) gives each of its calls a number of its own. `at` is in
//! nanoseconds of a clock that all processes share and that does not go back. A call without an end
//! is one whose outcome is unknown.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::op::{Op, Reply, Seen};

/// The version of the format.
pub const VERSION: u32 = 1;
/// The longest line, in bytes.
pub const LINE_BYTES_MAX: usize = 4 << 20;

/// The highest revision of a store before its first call: each call may make one more.
const REVISION_MAX: u64 = 1 << 62;

/// What a history's calls mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelKind {
    /// Keys with values, each key for itself; and transactions over several.
    Register,
    /// Numbers by name, that are added to.
    Counter,
    /// Numbers that are given once each.
    Sequence,
    /// A store with revisions, leases and watches.
    Etcd,
}

impl ModelKind {
    /// All of them.
    pub const ALL: [ModelKind; 4] =
        [ModelKind::Register, ModelKind::Counter, ModelKind::Sequence, ModelKind::Etcd];

    /// The name, as in a header.
    pub fn name(self) -> &'static str {
        match self {
            ModelKind::Register => "register",
            ModelKind::Counter => "counter",
            ModelKind::Sequence => "sequence",
            ModelKind::Etcd => "etcd",
        }
    }
}

impl FromStr for ModelKind {
    type Err = UnknownModel;

    fn from_str(name: &str) -> Result<ModelKind, UnknownModel> {
        ModelKind::ALL.into_iter().find(|model| model.name() == name).ok_or(UnknownModel)
    }
}

/// There is no such model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the models are register, counter, sequence and etcd")]
pub struct UnknownModel;

/// What the first line of a file may say of all of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// What the calls mean, if it is said.
    pub model: Option<ModelKind>,
    /// Etcd: the revision of the store, without keys, before the first call. 1 unless it is said.
    pub revision: Option<u64>,
}

/// Which call a line is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CallId {
    /// Who has made it.
    pub process: u64,
    /// Its number there.
    pub id: u64,
}

/// What a line says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    /// What the history is.
    Header(Header),
    /// Something about a call.
    Call(CallId, u64, Said),
}

/// What a line says of its call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    /// It begins.
    Call(Op),
    /// It has seen something.
    Seen(Seen),
    /// It was done, and answered.
    Ok(Box<Reply>),
    /// It has not had, and will not have, any effect.
    NotDone,
    /// It may have had an effect, may yet have one, or may never.
    Unknown,
}

/// A line as JSON has it.
#[derive(Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a line of a history, which is an object")]
struct Raw {
    #[serde(skip_serializing_if = "Option::is_none")]
    history: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<ModelKind>,
    #[serde(skip_serializing_if = "Option::is_none")]
    revision: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    process: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    call: Option<Op>,
    #[serde(skip_serializing_if = "Option::is_none")]
    seen: Option<Seen>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ok: Option<Box<Reply>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    end: Option<End>,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum End {
    NotDone,
    Unknown,
}

/// Why a line is none.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LineError {
    /// It is not JSON, or has other fields or values than lines have.
    #[error("{}", in_one_line(.0))]
    Json(#[from] serde_json::Error),
    /// Fields are missing, or do not fit each other.
    #[error("{0}")]
    Fields(&'static str),
    /// A version that is not known.
    #[error("it is of version {0} of the format, and this program reads version {VERSION}")]
    Version(u32),
}

/// What the parser says, without its own count of lines: that is always 1.
fn in_one_line(error: &serde_json::Error) -> String {
    error.to_string().replace(" at line 1 column", " at column")
}

impl Line {
    /// Reads a line.
    ///
    /// # Errors
    /// If it is none.
    pub fn parse(text: &[u8]) -> Result<Line, LineError> {
        let raw: Raw = serde_json::from_slice(text)?;
        match raw.history {
            Some(VERSION) => raw.header(),
            Some(other) => Err(LineError::Version(other)),
            None => raw.about_a_call(),
        }
    }

    /// The line as text, without its end.
    ///
    /// # Errors
    /// Those of `serde_json`, which has none for these types.
    pub fn to_json(&self) -> serde_json::Result<String> {
        serde_json::to_string(&self.raw())
    }

    fn raw(&self) -> Raw {
        let (call, at, said) = match self {
            Line::Header(Header { model, revision }) => {
                let history = Some(VERSION);
                return Raw { history, model: *model, revision: *revision, ..Raw::default() };
            }
            Line::Call(call, at, said) => (call, *at, said.clone()),
        };
        let (process, id) = (Some(call.process), Some(call.id));
        let raw = Raw { process, id, at: Some(at), ..Raw::default() };
        match said {
            Said::Call(op) => Raw { call: Some(op), ..raw },
            Said::Seen(seen) => Raw { seen: Some(seen), ..raw },
            Said::Ok(reply) => Raw { ok: Some(reply), ..raw },
            Said::NotDone => Raw { end: Some(End::NotDone), ..raw },
            Said::Unknown => Raw { end: Some(End::Unknown), ..raw },
        }
    }
}

impl Raw {
    fn header(self) -> Result<Line, LineError> {
        if self.revision.is_some_and(|revision| revision > REVISION_MAX) {
            return Err(LineError::Fields("`revision` is too large"));
        }
        match self {
            Raw {
                process: None,
                id: None,
                at: None,
                call: None,
                seen: None,
                ok: None,
                end: None,
                ..
            } => Ok(Line::Header(Header { model: self.model, revision: self.revision })),
            _ => Err(LineError::Fields("a header has `model` and `revision` only")),
        }
    }

    fn about_a_call(self) -> Result<Line, LineError> {
        if self.model.is_some() || self.revision.is_some() {
            return Err(LineError::Fields(
                "`model` and `revision` belong to a header: `history` is missing",
            ));
        }
        let (Some(process), Some(id), Some(at)) = (self.process, self.id, self.at) else {
            return Err(LineError::Fields("it needs `process`, `id` and `at`"));
        };
        let said = match (self.call, self.seen, self.ok, self.end) {
            (Some(op), None, None, None) => Said::Call(op),
            (None, Some(seen), None, None) => Said::Seen(seen),
            (None, None, Some(reply), None) => Said::Ok(reply),
            (None, None, None, Some(End::NotDone)) => Said::NotDone,
            (None, None, None, Some(End::Unknown)) => Said::Unknown,
            _ => return Err(LineError::Fields("it needs one of `call`, `seen`, `ok` and `end`")),
        };
        Ok(Line::Call(CallId { process, id }, at, said))
    }
}
