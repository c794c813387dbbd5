//! Fuzz target: see `petasos_fuzz::header`.
#![no_main]

petasos_fuzz::target!(header);
