//! Fuzz target: see `petasos_fuzz::raft`.
#![no_main]

petasos_fuzz::target!(raft);
