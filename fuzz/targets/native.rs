//! Fuzz target: see `petasos_fuzz::native`.
#![no_main]

petasos_fuzz::target!(native);
