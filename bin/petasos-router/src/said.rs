//! What the program says.

use std::io::Write;

/// Says something to whoever reads. Nobody may read any more.
pub fn say(line: &str) {
    let _ = writeln!(std::io::stdout(), "petasos-router: {line}");
}
