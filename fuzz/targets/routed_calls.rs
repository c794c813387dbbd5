//! Fuzz target: see `petasos_fuzz::routed_calls`.
#![no_main]

petasos_fuzz::target!(routed_calls);
