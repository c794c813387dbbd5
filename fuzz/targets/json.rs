//! Fuzz target: see `petasos_fuzz::json`.
#![no_main]

petasos_fuzz::target!(json);
