//! The messages of `petasos bench router`.

pub mod generated {
    include!(concat!(env!("OUT_DIR"), "/petasos.bench.routed.rs"));
}

/// The service that all workers serve.
pub const SERVICE: &str = "petasos.bench.routed.Work";
