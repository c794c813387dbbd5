//! Streams of all kinds, in one program.

#[path = "../flow/mod.rs"]
mod flow;
#[cfg(feature = "grpc")]
#[path = "../refuser/mod.rs"]
mod refuser;
#[path = "../unsteady/mod.rs"]
mod unsteady;

mod kinds;
mod resolvers;
mod restart;
mod retries;
mod threads;
mod withdrawn;
mod workers;
