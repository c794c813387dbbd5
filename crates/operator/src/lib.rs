//! What the control planes of `petasosd` and `petasos-router` share: who may do what, what was
//! done, how operators' sockets are bounded, what scrapers read, and what systemd is told.
//!
//! A program serves its own typed service at a Unix socket, and asks a [`Gate`] about each call: it
//! knows the caller's role by the user of its process, and writes down what was called.
//!
//! The modules, from below: `wall_time`, `account` (users and groups), `roles`, `audit` (the log),
//! `gate` (calls, judged and written down), `bounds` (of operators' connections), `scrape` (the
//! server of one page), `paths` (of sockets and logs), `page` (Prometheus' text format), `notify`
//! (systemd).
//!
//! Boundary rule: knows no state of any program, and decides nothing but who may call.

#![forbid(unsafe_code)]

mod account;
mod audit;
mod bounds;
mod gate;
pub mod notify;
mod page;
mod paths;
mod roles;
mod scrape;
mod wall_time;

pub use account::Account;
pub use audit::{Audit, Entry, fill_audit};
pub use bounds::bounds;
pub use gate::{Gate, Needs, caller, shortened};
pub use page::{Escaped, Page};
pub use paths::{check_log, check_socket};
pub use roles::{Role, Roles};
pub use scrape::{Place, check, listen, serve};
pub use wall_time::unix_time;
