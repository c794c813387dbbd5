//! The checkers against services that are right, or wrong in one way.

mod faults;
mod format;
mod long;
mod oracle;
mod stored;
#[allow(dead_code, reason = "the other program of tests uses the rest")]
mod support;
