//! Fuzz target: see `petasos_fuzz::router_program`.
#![no_main]

petasos_fuzz::target!(router_program);
