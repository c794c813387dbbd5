//! Instructions of the managed service for a unary call between two applications of one host.

use std::path::Path;

use super::{Built, Program};
use crate::TaskResult;

const SERVICE: Program = Program { package: "petasos-service", example: "icount_service" };

/// What a call may cost, with a null policy on each side, in batches of 16: the 7,785 that were
/// counted, and 3 % more.
const CEILING: f64 = 8_019.0;

/// Other policies on each side, and what they may cost, of a call with null policies.
const POLICIES: [(&str, f64); 2] = [("rate_limit", 0.01), ("access", 0.15)];

/// Prints what a call costs. Fails if that exceeds the ceilings, if they are to be checked.
pub fn run(root: &Path, is_checked: bool) -> TaskResult {
    let built = Built::new(root, SERVICE)?;
    let per_call = built.measure(&["null"])?.instructions;
    let without = built.measure(&["none"])?.instructions;
    println!("a call in the managed service: {per_call:.1} instructions, at most {CEILING}");
    println!("  without policies: {without:.1}");
    check("a call", per_call, CEILING, is_checked)?;
    for (policy, share_max) in POLICIES {
        let share = built.measure(&[policy])?.instructions / per_call - 1.0;
        let (percent, percent_max) = (100.0 * share, 100.0 * share_max);
        println!("  with `{policy}` on both sides: {percent:+.1} %, at most {percent_max} %");
        check(&format!("`{policy}` in percent of a call"), percent, percent_max, is_checked)?;
    }
    Ok(())
}

fn check(what: &str, counted: f64, ceiling: f64, is_checked: bool) -> TaskResult {
    if is_checked && counted > ceiling {
        return Err(format!(
            "{what} in the managed service: {counted:.1}, over the ceiling of {ceiling}"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_has_a_ceiling_where_it_is_checked() {
        let check = |counted, is_checked| check("a call", counted, CEILING, is_checked);
        assert!(check(CEILING, true).is_ok() && check(CEILING + 0.1, false).is_ok());
        let message = check(CEILING + 0.1, true).unwrap_err();
        assert!(message.contains("over the ceiling"), "{message}");
    }
}
