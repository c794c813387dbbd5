//! Open-loop load: requests are sent when a schedule says so, whether or not earlier ones have been
//! answered, and each latency begins at the scheduled time.
//!
//! A generator that waits for answers before it sends more does not see what happens meanwhile
//! (coordinated omission); one that sends late measures itself. This one therefore checks the times
//! at which it has sent ([`checks`]), and refuses to report if they are not what was asked for
//! ([`Refusal`]). Lancet (Kogias, Mallon and Bugnion, "Lancet: a self-correcting latency measuring
//! tool", USENIX ATC 2019), with which R2P2 was measured, does so, too.
//!
//! The parts: [`Schedule`] has the times; [`run`] follows it against a [`Target`] in one thread;
//! [`closed_loop`] keeps requests outstanding instead;
//! [`TcpTarget`] and [`Calls`] are targets; [`Outcome`] has latencies with confidence intervals;
//! [`highest_load`] searches.
//!
//! Boundary rule: knows no command line, and nothing of Petasos but its clock and reports: what
//! calls Petasos is a future to it.

#![forbid(unsafe_code)]

mod arrivals;
mod calls;
pub mod checks;
mod closed;
mod generator;
mod http;
mod latencies;
mod outcome;
mod outstanding;
mod refusal;
mod resp;
mod search;
mod sent;
mod target;
mod tcp;
mod trace;

pub use arrivals::{Arrivals, REQUESTS_MAX, Schedule, ScheduleError};
pub use calls::{Calls, Driver, Parked};
pub use checks::Checks;
pub use closed::{Closed, closed_loop};
pub use generator::{Limits, Plan, RunError, probe, run};
pub use http::{Http, HttpError};
pub use latencies::{Latencies, Quantile};
pub use outcome::{Lag, Outcome, Run};
pub use refusal::Refusal;
pub use resp::{Resp, RespError};
pub use search::{Highest, highest_load};
pub use target::{Answers, Target, TargetError};
pub use tcp::{Protocol, Reply, TcpTarget, wait_readable};
pub use trace::{Trace, TraceError};
