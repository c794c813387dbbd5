//! Fuzz target: see `petasos_fuzz::grpc`.
#![no_main]

petasos_fuzz::target!(grpc);
