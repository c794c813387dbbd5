//! Fuzz target: see `petasos_fuzz::protobuf`.
#![no_main]

petasos_fuzz::target!(protobuf);
