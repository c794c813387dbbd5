//! Fuzz target: see `petasos_fuzz::hub`.
#![no_main]

petasos_fuzz::target!(hub);
