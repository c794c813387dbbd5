//! The router's decisions: which worker gets a request, and which requests wait.
//!
//! [`Router`] takes requests and what workers tell, and says who gets what. It follows R2P2
//! (Kogias, Prekas, Ghosn, Fietz, Bugnion, USENIX ATC 2019, sections 2.3, 3.3 and 4.2): JBSQ(n)
//! bounds how many requests a worker has, and the rest wait in one queue. Other policies are
//! random, in turn, the better of two, and the shortest queue. Requests for the primary only, and
//! requests with a key, are exceptions from the group's policy.
//!
//! ```
//! use petasos_base::{Rng, Time};
//! use petasos_router::{Config, Join, Output, Request, Router, WorkerCounts};
//!
//! let (now, mut rng) = (Time::ZERO, Rng::new(1));
//! let mut router = Router::new(&Config::default())?;
//! let worker = router.handle_join(now, Join { identity: 7, bound: 1, weight: 100 })?;
//! for name in ["first", "second"] {
//!     let _admitted = router.handle_request(now, Request::new(name));
//! }
//! let Some(Output::Give(given)) = router.poll(now, &mut rng) else { panic!("it is idle") };
//! assert_eq!((given.token, given.worker, given.number), ("first", worker, 1));
//! assert_eq!(router.poll(now, &mut rng), None, "it may have one");
//! let told = WorkerCounts { sequence: 1, received: 1, settled: 1, bound: 1 };
//! router.handle_feedback(now, worker, &told)?;
//! let Some(Output::Give(given)) = router.poll(now, &mut rng) else { panic!("it is idle again") };
//! assert_eq!((given.token, given.number), ("second", 2));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Invariants, whatever workers say and in which order it arrives:
//!
//! - A worker gets no request while it has as many as it may have.
//! - Slots are conserved: see [`Account`].
//! - Of the same priority and for the same workers, requests go in the order of arrival.
//! - No request waits while a worker that may take it has a free slot, unless [`Hold`] says so.
//! - Time and random numbers are arguments: the same inputs have the same outputs.
//! - A decision takes a time that does not grow with the number of workers or requests, and
//!   allocates nothing.
//!
//! Boundary rule: no module here knows packets (but what a worker tells: [`WorkerCounts`]),
//! sockets, clocks or threads.

#![forbid(unsafe_code)]

mod account;
mod adjust;
mod board;
mod choose;
mod config;
mod health;
mod levels;
mod members;
mod output;
mod policy;
mod queue;
mod request;
mod ring;
mod router;
mod schedule;
mod set;
mod shared;
mod sharing;
mod timers;
mod worker;
mod workers;

pub use account::Account;
pub use adjust::Adjustment;
pub use board::{FeedbackBoard, HeardWorker, Put};
pub use config::{
    Config, ConfigError, Ejection, HOLD_REQUESTS, Hold, Keys, Liveness, PRIORITIES, WAITING_MAX,
    WORKERS_MAX,
};
pub use members::{FeedbackError, GroupFull};
pub use output::{Admission, Assignment, Counts, Event, Output, Refusal};
pub use petasos_wire::{GIVEN_NUMBERS, WorkerCounts};
pub use policy::{BOUND_MAX, Bound, Policy, Rule, UnknownPolicy};
pub use request::{Affinity, Request};
pub use router::Router;
pub use shared::{SharedCounts, SharedSlots};
pub use worker::{Join, WorkerId, WorkerState};
