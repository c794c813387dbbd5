//! Fuzz target: see `petasos_fuzz::calls`.
#![no_main]

petasos_fuzz::target!(calls);
