//! Fuzz target: see `petasos_fuzz::holder`.
#![no_main]

petasos_fuzz::target!(holder);
