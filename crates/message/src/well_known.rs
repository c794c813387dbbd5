//! Protobuf's well-known types: the package `google.protobuf`.
//!
//! Codegen refers to these types instead of generating them. The modules here are codegen's output
//! for protobuf's own files; a test of `petasos-codegen` compares them, and writes them again with
//! `BLESS=1`. Nothing in them is written by hand; conversions for programs are in `time`.

mod any;
mod duration;
mod empty;
mod field_mask;
mod structs;
mod time;
mod timestamp;
mod wrappers;

pub use any::*;
pub use duration::*;
pub use empty::*;
pub use field_mask::*;
pub use structs::*;
pub use time::OutOfRange;
pub use timestamp::*;
pub use wrappers::*;
