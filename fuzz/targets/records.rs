//! Fuzz target: see `petasos_fuzz::records`.
#![no_main]

petasos_fuzz::target!(records);
