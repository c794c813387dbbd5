//! Where an experiment's outcome goes: to the screen for people, or as JSON for programs.

use std::path::Path;

use petasos_report::{Machine, write_atomically};
use serde_json::Value;

use crate::error::BenchError;

/// Writes `json` to the file that was asked for, and prints it if that was asked for; otherwise
/// what `print` prints, below a line about the machine.
///
/// # Errors
/// If the file cannot be written, or those of `print`.
pub fn publish(
    (path, print_json): (Option<&Path>, bool),
    json: &Value,
    print: impl FnOnce() -> Result<(), BenchError>,
) -> Result<(), BenchError> {
    let text = format!("{json:#}\n");
    if let Some(path) = path {
        write_atomically(path, text.as_bytes())?;
    }
    if print_json {
        print!("{text}");
        return Ok(());
    }
    println!("{}", Machine::read());
    print()
}
