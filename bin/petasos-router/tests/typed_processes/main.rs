//! Typed calls by way of routers and workers that are processes: while some are killed, and where
//! the router's packets come and go by AF_XDP, or an XDP program gives them to workers.

#[path = "../../../../crates/endpoint/tests/certificates/mod.rs"]
mod certificates;
#[path = "../../../../crates/etcd/tests/cluster/mod.rs"]
mod cluster;
#[path = "../../../../crates/petasos/tests/greeter/generated.rs"]
mod generated;
#[path = "../../../../crates/endpoint/tests/routers/namespace.rs"]
mod namespace;
#[path = "../operating/operator.rs"]
#[allow(dead_code, reason = "each test file uses its own part")]
mod operator;
#[path = "../support/mod.rs"]
mod support;
#[path = "../support/typed.rs"]
mod typed;
#[path = "../../../../crates/petasos/tests/servers/until.rs"]
mod until;

mod callers;
mod held;
mod kills;
mod listed;
mod network;
mod program;
mod xdp;

/// What the etcd of tests waits with.
mod servers {
    pub use crate::until::until;
}

/// Not a test of its own: what a worker's process runs.
#[test]
fn child_worker() {
    typed::run_worker();
}
