//! Fuzz target: see `petasos_fuzz::capi`.
#![no_main]

petasos_fuzz::target!(capi);
