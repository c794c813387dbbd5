//! The C ABI: calls and services whose messages are bytes in protobuf's encoding.
//!
//! `include/petasos.h` is generated from this crate (`tests/header.rs`) and says what programs have
//! to know. How it is made:
//!
//! - **Handles** are opaque boxes. Whoever gets one frees it, with the function of its type.
//! - **Nothing waits by itself.** A call is futures of the facade in a box, polled on the thread
//!   that asks; what ends a wait goes through a `notifier`: it unparks a thread that blocks, or
//!   calls back into the program. So there is no executor and no thread of the ABI's own.
//! - **Errors** are codes; what else there is to say is kept per thread (`failure`).
//! - **No panic leaves**: every function runs within `failure::guarded`.
//!
//! Who may touch what: only functions that C calls see raw pointers, and turn them into references
//! at once (`pointer`). No lock is held while code of the program runs, but for a notifier's own,
//! so that none is called once its notifier was cleared.
//!
//! Boundary rule: adds no mechanism of calls; knows no more than the facade offers to anyone.

#![allow(non_camel_case_types, reason = "types are named as C names them")]

mod accept;
mod bytes;
mod call;
mod channel;
mod failure;
mod handler;
mod handling;
mod metadata;
mod metadata_access;
mod notifier;
mod parts;
mod pointer;
mod queue;
mod server;
mod service;
mod sigpipe;
mod tls;
mod wait;

pub use bytes::{petasos_bytes, petasos_bytes_free, petasos_slice};
pub use call::*;
pub use channel::*;
pub use failure::*;
pub use handler::*;
pub use metadata::petasos_metadata;
pub use metadata_access::*;
pub use notifier::{petasos_wake, petasos_waker};
pub use queue::*;
pub use server::*;
pub use service::*;
pub use tls::petasos_tls_options;

/// The version of this interface. It grows with each change that programs can notice; a program
/// that was built for a smaller number goes on working, but for gRPC in the clear beyond this host,
/// which takes consent since version 2.
pub const PETASOS_ABI_VERSION: u32 = 2;

/// The version of the interface that the library has: PETASOS_ABI_VERSION or more.
// SAFETY: nothing else has this name.
#[unsafe(no_mangle)]
pub extern "C" fn petasos_abi_version() -> u32 {
    PETASOS_ABI_VERSION
}
