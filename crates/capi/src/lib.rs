//! The C ABI: calls and services whose messages are bytes in protobuf's encoding.
//!
//! `include/petasos.h` is generated from this crate (`tests/header.rs`), and is the documentation
//! for programs. The implementation:
//!
//! - **Handles** are opaque boxes. The program frees each one with the function of its type.
//! - **There is no executor and no thread of the ABI.** A call is a box with futures of the facade.
//!   The thread that calls a function polls them. The end of a wait goes through a `notifier`,
//!   which unparks a blocked thread or calls a callback of the program. A server has threads of its
//!   own; a program that has an event loop may drive one itself instead (`driven`, `answer`).
//! - **Errors** are codes; their details are kept per thread (`failure`).
//! - **No panic leaves the library**: every function runs within `failure::guarded`.
//!
//! Access: only functions that C calls see raw pointers, and they convert them to references at
//! once (`pointer`). No lock is held while code of the program runs, except a notifier's own: it
//! ensures that no callback runs once its notifier was cleared.
//!
//! Boundary rule: adds no mechanism for calls, and uses only the public API of the facade.

#![allow(non_camel_case_types, reason = "types are named as C names them")]

mod accept;
mod answer;
mod bytes;
mod call;
mod channel;
mod driven;
mod failure;
mod handler;
mod handling;
mod join;
mod listed;
mod metadata;
mod metadata_access;
mod notifier;
mod parts;
mod pointer;
mod queue;
mod routing;
mod server;
mod service;
mod sigpipe;
mod start;
mod tls;
mod wait;

pub use answer::{
    petasos_answer, petasos_answer_failure, petasos_answer_message, petasos_handle,
    petasos_handler, petasos_request,
};
pub use bytes::{petasos_bytes, petasos_bytes_free, petasos_slice};
pub use call::*;
pub use channel::*;
pub use driven::*;
pub use failure::*;
pub use handler::*;
pub use join::petasos_join_options;
pub use metadata::petasos_metadata;
pub use metadata_access::*;
pub use notifier::{petasos_wake, petasos_waker};
pub use queue::*;
pub use routing::{PETASOS_ROUTE_ANY, PETASOS_ROUTE_KEY, PETASOS_ROUTE_PRIMARY, petasos_routing};
pub use server::*;
pub use service::*;
pub use start::*;
pub use tls::petasos_tls_options;

/// The version of this interface. It grows with each change that programs can notice. A program
/// that was built for a smaller version still works, with one exception: since version 2,
/// unencrypted gRPC beyond this host must be allowed explicitly.
pub const PETASOS_ABI_VERSION: u32 = 4;

/// The version of the library's interface: PETASOS_ABI_VERSION or greater.
// SAFETY: nothing else has this name.
#[unsafe(no_mangle)]
pub extern "C" fn petasos_abi_version() -> u32 {
    PETASOS_ABI_VERSION
}
