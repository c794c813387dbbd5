//! Groups over sockets: nodes, a router that runs, and endpoints that attach to it and join it.

mod calls;
#[path = "../../../endpoint/tests/certificates/mod.rs"]
mod certificates;
mod members;
mod moving;
mod operate;
mod places;
mod sealed;
mod split;
mod tables;
mod world;
