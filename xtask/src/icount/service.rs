//! Instructions of the managed service for a unary call between two applications of one host.

use std::path::Path;

use super::{Built, Program};
use crate::TaskResult;

const SERVICE: Program = Program { package: "petasos-service", example: "icount_service" };

/// What a call may cost, with a null policy on each side, in batches of 16: the 7,993 that were
/// counted, and 3 % more.
const CEILING: f64 = 8_233.0;

/// Prints what a call costs. Fails if that exceeds the ceiling, if it is to be checked.
pub fn run(root: &Path, is_checked: bool) -> TaskResult {
    let built = Built::new(root, SERVICE)?;
    let per_call = built.measure(&["1"])?.instructions;
    let without = built.measure(&["0"])?.instructions;
    println!("a call in the managed service: {per_call:.1} instructions, at most {CEILING}");
    println!("  without policies: {without:.1}");
    check(per_call, is_checked)
}

fn check(per_call: f64, is_checked: bool) -> TaskResult {
    if is_checked && per_call > CEILING {
        return Err(format!(
            "{per_call:.1} instructions per call in the managed service, over the ceiling of \
             {CEILING}"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_has_a_ceiling_where_it_is_checked() {
        assert!(check(CEILING, true).is_ok() && check(CEILING + 0.1, false).is_ok());
        let message = check(CEILING + 0.1, true).unwrap_err();
        assert!(message.contains("over the ceiling"), "{message}");
    }
}
