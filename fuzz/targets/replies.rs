//! Fuzz target: see `petasos_fuzz::replies`.
#![no_main]

petasos_fuzz::target!(replies);
