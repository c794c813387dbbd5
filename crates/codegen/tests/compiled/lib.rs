//! The golden files as a library with the lints that a careful one has: it only has to compile.
//! What the code does is tested in `main.rs`, which compiles it as part of a program.

#![deny(warnings, missing_docs)]
#![forbid(unsafe_code)]

pub mod calls;
pub mod protos;
