//! Fuzz target: see `petasos_fuzz::histories`.
#![no_main]

petasos_fuzz::target!(histories);
