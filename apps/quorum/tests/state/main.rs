//! The replicated state beside models, and replicas beside each other.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

mod etcd;
mod replicas;
mod table;
