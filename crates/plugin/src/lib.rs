//! Policies of the managed service from outside (ADR 19): shared objects of the operator, and, with
//! the cargo feature `wasm`, WebAssembly modules of tenants.
//!
//! Both are kinds of policies ([`petasos_engine::PolicyKind`]): what runs them does not know where
//! they come from. [`Plugin`] is a shared object with a table of C functions, which
//! `include/petasos_plugin.h` documents. It is tried in a child process ([`Trial`]) before it is
//! loaded, and again with each configuration before a policy is made of it.
//!
//! # Invariants
//!
//! - No Rust type, panic or allocation crosses the boundary: bytes, numbers, and handles do.
//! - A plug-in never sees message memory, only copies of the fields that it has declared (ADR 17).
//! - What it says is bounded ([`TEXT_BYTES_MAX`], [`STATE_BYTES_MAX`]), and so is what it declares.
//! - A shared object is unloaded when the last of its kind, policies and engines has gone;
//!   [`Watch`] tells whether the system has unmapped it.
//!
//! `unsafe` is in `object` (loading), `native` (calling a table's functions), `host` (pointers that
//! these pass) and `context` (finding the call that goes on).
//!
//! Boundary rule: knows the engines' interface only; neither the service nor where messages lie. It
//! reads files and starts children when a plug-in is loaded or configured, never while calls run.

mod context;
mod host;
mod name;
mod native;
mod object;
mod plugin;
mod sample;
mod trial;
#[cfg(feature = "wasm")]
mod wasm;

pub use name::{NAMES_MAX, NameError};
pub use object::{Mapping, OBJECT_BYTES_MAX, ObjectError, Watch};
pub use petasos_plugin_abi::{ABI_VERSION, NAME_BYTES_MAX, STATE_BYTES_MAX, TEXT_BYTES_MAX};
pub use plugin::{LoadError, Plugin};
pub use trial::{Trial, TrialError, run_trial};
#[cfg(feature = "wasm")]
pub use wasm::{MAKING_FUEL, MODULE_BYTES_MAX, WasmError, WasmKind};
