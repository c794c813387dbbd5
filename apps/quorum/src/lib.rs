//! A replicated state.

#![forbid(unsafe_code)]

mod bytes;
pub mod contact;
pub mod log;
pub mod machine;
pub mod state;
pub mod table;
