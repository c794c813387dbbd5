//! Fuzz target: see `petasos_fuzz::descriptors`.
#![no_main]

petasos_fuzz::target!(descriptors);
