//! Instructions that a null engine of the managed service adds to each message.

use std::path::Path;

use super::{Built, Program};
use crate::TaskResult;

pub(super) const ENGINE: Program = Program { package: "petasos-engines", example: "icount_engine" };

/// What a null engine may cost per message, in batches of 16.
const CEILING: f64 = 60.0;

/// Prints what a null engine costs. Fails if that exceeds the ceiling, if it is to be checked.
pub fn run(root: &Path, is_checked: bool) -> TaskResult {
    let built = Built::new(root, ENGINE)?;
    let without = built.measure(&["0"])?.instructions;
    let with = built.measure(&["1"])?.instructions;
    // A unary call has two messages.
    let [without, per_message] = [without / 2.0, (with - without) / 2.0];
    println!("a null engine: {per_message:.1} instructions per message, at most {CEILING}");
    println!("  a datapath without engines: {without:.1} per message");
    check(per_message, is_checked)
}

fn check(per_message: f64, is_checked: bool) -> TaskResult {
    if is_checked && per_message > CEILING {
        return Err(format!(
            "{per_message:.1} instructions per message of a null engine, over the ceiling of \
             {CEILING}"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_engine_has_a_ceiling_where_it_is_checked() {
        assert!(check(60.0, true).is_ok() && check(60.1, false).is_ok());
        let message = check(60.1, true).unwrap_err();
        assert!(message.contains("ceiling of 60"), "{message}");
    }
}
