//! Fuzz target: see `petasos_fuzz::schema`.
#![no_main]

petasos_fuzz::target!(schema);
