//! What the programs for operators share: how they reach the control planes of the managed service
//! (`petasos.admin.v1.Admin`) and of routers (`petasos.router.v1.Router`), and how they show what
//! these tell.

pub mod counts;
pub mod forms;
mod frame;
mod routed;
pub mod router_forms;
mod service;
mod table;

pub use frame::{Calls, Engine, Frame, Order};
pub use routed::{GroupRow, RoutedFrame, WorkerRow};
pub use service::{ROUTER, SERVICE, Served, ServiceArgs, ended, failed};
pub use table::{table, table_within};
