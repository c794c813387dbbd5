//! Fuzz target: see `petasos_fuzz::journal`.
#![no_main]

petasos_fuzz::target!(journal);
