//! Groups over sockets: nodes, a router that runs, and endpoints that attach to it and join it.

mod calls;
mod members;
mod operate;
mod places;
mod tables;
mod world;
