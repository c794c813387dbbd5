//! Fuzz target: see `petasos_fuzz::resp`.
#![no_main]

petasos_fuzz::target!(resp);
