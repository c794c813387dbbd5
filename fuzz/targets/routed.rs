//! Fuzz target: see `petasos_fuzz::routed`.
#![no_main]

petasos_fuzz::target!(routed);
