//! The policies that come with the managed service.
//!
//! Each kind is a [`PolicyKind`], which makes policies from JSON. [`find`] returns a kind by its
//! name. Fields that a configuration leaves out have defaults. Unknown fields and values out of
//! range are errors that name the field. Durations are whole numbers, with the unit in the field's
//! name.
//!
//! The state that the engines of a policy share consists of atomics, or has a lock that is not
//! taken for each item. State by key (application, method, peer) is in tables of a bounded size:
//! keys that find no room share one entry. State of calls is bounded by the number of running
//! calls. A new policy continues from the state of its predecessor, so an upgrade fills no bucket
//! and closes no breaker.
//!
//! # The kinds
//!
//! **`null`** passes everything on. It shows the cost of an engine:
//!
//! ```json
//! {}
//! ```
//!
//! **`rate_limit`** limits how many calls begin per second:
//!
//! ```json
//! {"rate_per_s": 500000, "burst": 64, "by": "application", "waiting_max": 1024}
//! ```
//!
//! By application, one that attaches again goes on with the share that it had: it is known by its
//! name if that is proved, otherwise by its user and its name.
//!
//! **`access`** decides who may call what, by methods, fields, metadata and identities:
//!
//! ```json
//! {"default": "allow", "rules": [
//!   {"name": "blocked customers", "action": "deny", "methods": ["hotel.Reservation/*"],
//!    "fields": [{"path": "customer_name", "is": {"one_of": ["mallory", "trudy"]}}]},
//!   {"name": "large groups", "action": "deny", "methods": ["hotel.Reservation/Book"],
//!    "fields": [{"path": "guests", "is": {"range": {"min": 20}}}]},
//!   {"name": "guests", "action": "deny", "identity": "spiffe://guests/*",
//!    "metadata": [{"key": "x-debug"}]}]}
//! ```
//!
//! **`require_sealing`** denies calls that are not sealed:
//!
//! ```json
//! {}
//! ```
//!
//! **`qos`** orders items: small ones first, by deadline, or by shares:
//!
//! ```json
//! {"order": {"shares": [{"methods": ["hotel.Search/*"], "weight": 3}]},
//!  "bytes_per_s": 1000000000, "burst_bytes": 65536, "hold_max_us": 1000,
//!  "applications": [{"application": "checkout", "weight": 4}]}
//! ```
//!
//! **`telemetry`** counts calls, failures and bytes, and measures latencies:
//!
//! ```json
//! {"by": "method_and_peer", "series_max": 1000}
//! ```
//!
//! **`tracing`** puts trace contexts into requests, and keeps the last spans:
//!
//! ```json
//! {"probability": 0.01, "spans_max": 1000}
//! ```
//!
//! **`circuit_breaker`** refuses calls to failing peers:
//!
//! ```json
//! {"by": "peer", "consecutive_failures": 5, "open_ms": 1000, "probes": 3,
//!  "ratio": {"failures": 0.5, "window_ms": 10000, "calls_min": 20}}
//! ```
//!
//! **`retry_budget`** refuses excessive retries:
//!
//! ```json
//! {"by": "peer", "ratio": 0.2, "min_per_s": 10, "saved_max": 100}
//! ```
//!
//! **`overload`** finds out how many calls a server can take, and refuses further ones:
//!
//! ```json
//! {"by": "peer", "calls_min": 4, "calls_max": 10000, "tolerance": 1.5,
//!  "priorities": {"key": "x-priority", "shares": {"batch": 0.5}}}
//! ```
//!
//! **`faults`** delays calls or makes them fail:
//!
//! ```json
//! {"rules": [{"methods": ["hotel.Search/*"], "probability": 0.01, "delay_us": 5000},
//!            {"probability": 0.001, "abort": {"code": "UNAVAILABLE", "message": "a test"}}]}
//! ```
//!
//! **`mirror`** sends copies of unary requests to another server, and drops the answers:
//!
//! ```json
//! {"to": "search-next", "share": 0.05, "methods": ["hotel.Search/*"]}
//! ```
//!
//! **`metadata`** sets, appends, removes and renames entries of metadata:
//!
//! ```json
//! {"rules": [{"on": ["requests"], "changes": [{"set": {"key": "x-zone", "value": "a"}},
//!                                             {"remove": {"key": "x-internal"}}]}]}
//! ```
//!
//! Boundary rule: engines depend on `petasos-engine` only. They know neither the service, nor
//! clocks, nor where messages lie.

mod access;
mod calls;
mod circuit_breaker;
mod config;
mod faults;
mod gate;
mod hold;
mod key;
mod metadata;
mod mirror;
mod null;
mod overload;
mod pattern;
mod qos;
mod rate;
mod rate_limit;
mod retry_budget;
mod table;
mod telemetry;
mod tracing;

use petasos_engine::PolicyKind;

pub use access::{Access, RequireSealing};
pub use circuit_breaker::CircuitBreaker;
pub use faults::Faults;
pub use metadata::MetadataChange;
pub use mirror::Mirror;
pub use null::Null;
pub use overload::Overload;
pub use qos::Qos;
pub use rate_limit::RateLimit;
pub use retry_budget::RetryBudget;
pub use telemetry::Telemetry;
pub use tracing::Tracing;

/// All kinds.
static KINDS: [&dyn PolicyKind; 13] = [
    &Null,
    &RateLimit,
    &Access,
    &RequireSealing,
    &Qos,
    &Telemetry,
    &Tracing,
    &CircuitBreaker,
    &RetryBudget,
    &Overload,
    &Faults,
    &Mirror,
    &MetadataChange,
];

/// All kinds of policies that there are here.
pub fn kinds() -> &'static [&'static dyn PolicyKind] {
    &KINDS
}

/// The kind of this name.
pub fn find(name: &str) -> Option<&'static dyn PolicyKind> {
    KINDS.iter().copied().find(|kind| kind.version().kind == name)
}

#[cfg(test)]
mod tests;
