//! What the managed service and its plug-ins share (ADR 19): the table of C functions of shared
//! objects, and the numbers that these and WebAssembly modules use.
//!
//! `petasos-plugin` is the service's side and `petasos-plugin-sdk` that of plug-ins in Rust. For
//! other languages, `crates/plugin/include` says the same: `petasos_plugin.h`, and
//! `petasos_plugin_wasm.md`.
//!
//! # Invariants
//!
//! - The layouts and numbers here are those of the header; a test of `petasos-plugin` compiles the
//!   header and compares.
//! - A number that is given has its meaning for ever. Later versions may add some.
//!
//! Boundary rule: declarations only. It calls nothing, follows no pointer, and knows neither side.

mod numbers;
mod table;

pub use numbers::*;
pub use table::*;

/// The version of the interface, of both kinds.
pub const ABI_VERSION: u32 = 1;

/// The longest reason or text of a status that a plug-in may say, in bytes.
pub const TEXT_BYTES_MAX: usize = 1024;
/// The longest state or report, in bytes.
pub const STATE_BYTES_MAX: usize = 1 << 20;
