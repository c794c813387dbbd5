//! Fuzz target: see `petasos_fuzz::hello`.
#![no_main]

petasos_fuzz::target!(hello);
