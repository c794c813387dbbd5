//! Fuzz target: see `petasos_fuzz::packets`.
#![no_main]

petasos_fuzz::target!(packets);
