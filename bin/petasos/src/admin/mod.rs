//! What the programs for operators share: how they reach the managed service's control plane
//! (`petasos.admin.v1.Admin`), and how they show what it tells.

pub mod counts;
pub mod forms;
mod frame;
mod service;
mod table;

pub use frame::{Calls, Engine, Frame, Order};
pub use service::{ServiceArgs, ended, failed};
pub use table::table;
