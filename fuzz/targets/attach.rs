//! Fuzz target: see `petasos_fuzz::attach`.
#![no_main]

petasos_fuzz::target!(attach);
