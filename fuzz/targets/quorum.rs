//! Fuzz target: see `petasos_fuzz::quorum`.
#![no_main]

petasos_fuzz::target!(quorum);
