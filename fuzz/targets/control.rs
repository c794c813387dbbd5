//! Fuzz target: see `petasos_fuzz::control`.
#![no_main]

petasos_fuzz::target!(control);
