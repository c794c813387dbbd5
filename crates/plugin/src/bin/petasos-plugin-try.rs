//! Tries a plug-in, as the service does: it is the child that the service starts.

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    petasos_plugin::run_trial()
}
