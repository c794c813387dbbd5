//! Fuzz targets: each module gives one kind of bytes from outside to the code that reads them.
//!
//! A module has `run`, which takes any bytes and panics if a promise is broken, and `seeds`, real
//! messages made by the encoders, from which `cargo xtask fuzz --seeds` writes the corpus. Bytes
//! are mostly a *program*: choices are read from them ([`Input`]), so that mutations reach
//! sequences of operations and not only one parser. No target depends on time or on global
//! randomness, except `grpc` and `capi`, which use real sockets and threads.

mod application;
pub mod attach;
pub mod calls;
pub mod capi;
pub mod control;
pub mod descriptors;
pub mod dictionary;
pub mod fabric_messages;
mod groups;
pub mod grpc;
pub mod header;
pub mod hello;
pub mod histories;
pub mod holder;
pub mod hub;
mod input;
pub mod journal;
pub mod json;
pub mod kv;
pub mod memcached;
pub mod native;
mod network;
pub mod packets;
pub mod protobuf;
pub mod quorum;
pub mod raft;
pub mod records;
pub mod replies;
pub mod resp;
pub mod rings;
pub mod router_program;
pub mod routed;
pub mod routed_calls;
pub mod schema;
mod types;

use std::path::Path;

pub use input::Input;
pub use libfuzzer_sys;

/// An input by the name of its file in the corpus.
pub type Seed = (&'static str, Vec<u8>);

/// Set to a folder, it makes a target write its seeds there and end.
const SEEDS_VARIABLE: &str = "PETASOS_FUZZ_SEEDS";

/// What every target does before its first input.
pub fn begin(seeds: fn() -> Vec<Seed>) {
    let Some(folder) = std::env::var_os(SEEDS_VARIABLE) else { return };
    for (name, bytes) in seeds() {
        std::fs::write(Path::new(&folder).join(name), bytes).expect("the folder can be written");
    }
    std::process::exit(0);
}

/// Makes a program of the module `$name`.
#[macro_export]
macro_rules! target {
    ($name:ident) => {
        $crate::libfuzzer_sys::fuzz_target!(
            init: $crate::begin($crate::$name::seeds),
            |bytes: &[u8]| $crate::$name::run(bytes)
        );
    };
}
