//! The types of calls on which policies are measured.

pub mod policies {
    include!(concat!(env!("OUT_DIR"), "/petasos.bench.policies.rs"));
}

pub mod wide {
    include!(concat!(env!("OUT_DIR"), "/petasos.bench.wide.rs"));
}

pub mod tensors {
    include!(concat!(env!("OUT_DIR"), "/petasos.bench.tensors.rs"));
}
