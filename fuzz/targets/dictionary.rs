//! Fuzz target: see `petasos_fuzz::dictionary`.
#![no_main]

petasos_fuzz::target!(dictionary);
