//! Fuzz target: see `petasos_fuzz::rings`.
#![no_main]

petasos_fuzz::target!(rings);
