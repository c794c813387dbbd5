//! Typed calls by way of routers and workers that are processes: while some are killed, and where
//! the router's packets come and go by AF_XDP.

#[path = "../../../../crates/endpoint/tests/certificates/mod.rs"]
mod certificates;
#[path = "../../../../crates/petasos/tests/greeter/generated.rs"]
mod generated;
#[path = "../../../../crates/endpoint/tests/routers/namespace.rs"]
mod namespace;
#[path = "../support/mod.rs"]
mod support;
#[path = "../support/typed.rs"]
mod typed;

mod callers;
mod kills;
mod network;
mod xdp;

/// Not a test of its own: what a worker's process runs.
#[test]
fn child_worker() {
    typed::run_worker();
}
