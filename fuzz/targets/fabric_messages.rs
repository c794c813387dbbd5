//! Fuzz target: see `petasos_fuzz::fabric_messages`.
#![no_main]

petasos_fuzz::target!(fabric_messages);
