//! Fuzz target: see `petasos_fuzz::kv`.
#![no_main]

petasos_fuzz::target!(kv);
