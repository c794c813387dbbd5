//! Output of an experiment's result: as text for users, or as JSON for programs.

use std::path::Path;

use petasos_report::{Machine, write_atomically};
use serde_json::Value;

use crate::error::BenchError;

/// Writes `json` to the requested file, and prints it if requested. Otherwise prints a line about
/// the machine, and what `print` prints.
///
/// # Errors
/// If the file cannot be written, or `print` fails.
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
