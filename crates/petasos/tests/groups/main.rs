//! Typed calls to groups of workers, by way of routers (`docs/spec/route.md`): stubs and handlers
//! are those of other calls.
//!
//! Some modules are those of calls to servers; only the servers are others here.

#[cfg(feature = "tls")]
#[path = "../../../endpoint/tests/certificates/mod.rs"]
mod certificates;
#[path = "../flaky/mod.rs"]
mod flaky;
#[path = "../flow/mod.rs"]
mod flow;
#[path = "../greeter/mod.rs"]
mod greeter;
mod routers;
mod servers;
#[path = "../versions/mod.rs"]
mod versions;

#[path = "../calls/threads.rs"]
mod threads;

mod again;
mod callers;
mod ejected;
mod ends;
mod gated;
mod listed;
mod priority;
mod routed;
#[cfg(feature = "tls")]
mod sealed;
mod streams;
mod tampered;
mod upgrade;
mod workers;
