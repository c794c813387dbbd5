//! The control plane of a managed service: the typed service `petasos.admin.v1.Admin`, which
//! `petasosd` serves at a Unix socket and `petasos ctl` calls.
//!
//! What the methods do, and who may call them, is in `proto/petasos/admin/v1/admin.proto`; why it
//! is so, in `docs/adr/0024-control-plane.md`.
//!
//! Boundary rule: types only. It neither serves nor calls.

#[rustfmt::skip]
pub(crate) mod generated;
/// The control plane of a router: the typed service `petasos.router.v1.Router`, which
/// `petasos-router` serves at a Unix socket and `petasos ctl router` calls.
#[rustfmt::skip]
pub mod router;

pub use generated::*;

/// Where the service listens for operators, unless it is told another path.
pub const DEFAULT_SOCKET: &str = "/run/petasos/admin.sock";
/// Where a router listens for operators, unless it is told another path.
pub const DEFAULT_ROUTER_SOCKET: &str = "/run/petasos-router/admin.sock";
/// The most steps of a change.
pub const STEPS_MAX: usize = 256;
/// The longest configuration, in bytes.
pub const CONFIGURATION_BYTES_MAX: usize = 64 << 10;
/// The longest request, in bytes.
pub const REQUEST_BYTES_MAX: usize = 1 << 20;
/// The longest response, in bytes.
pub const RESPONSE_BYTES_MAX: usize = 64 << 20;
