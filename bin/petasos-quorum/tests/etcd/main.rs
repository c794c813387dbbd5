//! `petasos quorum serve --etcd` as etcd's clients see it: beside etcd itself, with its own tools,
//! and while members are killed.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

mod beside;
mod clients;
mod commands;
mod hostile;
mod names;
mod outages;
mod servers;
