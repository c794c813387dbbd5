//! Recorded calls of a service, and whether they are linearizable.
//!
//! A [`Recorder`] writes a line of JSON for each call and each return. [`Reader`] joins files of
//! them to a [`History`], and [`check()`] says whether a service that does one call after the other
//! may have given these answers: each call between its begin and its end. A call that ended as *not
//! done* has no effect; one whose outcome is unknown may have one at any later time, or never.
//!
//! Boundary rule: knows neither who recorded the calls, nor clocks, nor files.
//!
//! # Example
//! ```
//! use petasos_history::{Budget, Header, ModelKind, Op, Recorder, Reply, Verdict, check, read};
//!
//! let header = Header { model: Some(ModelKind::Counter), revision: None };
//! let recorder = Recorder::new(Vec::new(), 7, Some(header))?;
//! let call = recorder.call(100, &Op::Add { key: "visits".into(), by: 1 })?;
//! recorder.ok(call, 180, Reply { number: Some(2), ..Reply::default() })?;
//! let history = read(recorder.finish()?.as_slice())?;
//! let report = check(&history, ModelKind::Counter, Budget::default())?;
//! assert!(matches!(report.verdict, Verdict::Violated(_)), "it was 1");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

mod bytes;
mod check;
mod evidence;
mod history;
mod line;
mod list;
mod misuse;
mod model;
mod models;
mod op;
mod recorder;
mod search;

pub use bytes::Bytes;
pub use check::{Report, check};
pub use evidence::{Happening, Mention, Prefix, Verdict, Violation};
pub use history::{CALLS_MAX, Call, Flaw, History, Outcome, Place, ReadError, Reader, read};
pub use line::{CallId, Header, LINE_BYTES_MAX, Line, LineError, ModelKind, Said, UnknownModel};
pub use misuse::Misuse;
pub use model::{Model, Part, Step, Timed, digest};
pub use models::{counter, etcd, register};
pub use op::{Compare, Event, Item, Keys, Op, Operand, Refusal, Relation, Reply, Seen};
pub use recorder::Recorder;
pub use search::{Answer, Budget, search};
