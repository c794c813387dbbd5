//! Printing lists of names.

use petasos_cli::failed::Failed;
use petasos_cli::output;
use serde_json::Value;

/// Prints one name per line, or all as one JSON array.
pub fn print(lines: &[String], json: bool) -> Result<(), Failed> {
    let text = match json {
        true => Value::from(lines.to_vec()).to_string(),
        false => lines.join("\n"),
    };
    if text.is_empty() {
        return Ok(());
    }
    Ok(output::answer(text.as_bytes())?)
}
