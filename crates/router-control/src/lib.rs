//! Who is in a group: the router's part of the control protocol (`docs/spec/route.md`, RT28 to
//! RT36).
//!
//! A [`RouterService`] makes a node the router of a group. Clients attach and workers join at the
//! node's address; a thread of its own turns the group's plane (`petasos-router-plane`), which has
//! their packets. Both meet in two mailboxes and share nothing else.
//!
//! The modules, from below: `change_log` (what has changed since a reader looked), `epochs`,
//! `config`, `plane_thread`, `links` (what each connection was told), `group` (who may, and who is
//! there), `service`.
//!
//! Boundary rule: knows no schemas, files or operators; those are the program's.
//!
//! Not here yet: tables of methods (RT31), seals and expelling (RT27, RT30), *place me* (RT37), and
//! taking over from another router (RT38).

#![forbid(unsafe_code)]

mod change_log;
mod config;
mod epochs;
mod group;
mod links;
mod plane_thread;
mod service;

pub use config::{GroupSettings, Workers};
pub use epochs::EpochTimes;
pub use petasos_control::Active;
pub use petasos_router_plane::PlaneConfig;
pub use service::{RouterService, StartError};
