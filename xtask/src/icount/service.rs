//! Instructions of the managed service for a unary call between two applications of one host.

use std::path::Path;

use super::{Built, Program};
use crate::TaskResult;

pub(super) const SERVICE: Program =
    Program { package: "petasos-service", example: "icount_service" };

/// What a call may cost, with a null policy on each side, in batches of 16: the 7,039 that were
/// counted, and 3 % more.
const CEILING: f64 = 7_250.0;

/// What an unlimited rate limit on each side may cost, of a call with null policies.
const RATE_LIMIT_SHARE: f64 = 0.01;
/// What access control by a field of the request may cost on both sides together: the 1,173 that
/// were counted, and 3 % more. It compares texts, for which the C library has other instructions on
/// other processors: on another one, the same program took 1,119.
const ACCESS_CEILING: f64 = 1_208.0;

/// Prints what a call costs. Fails if that exceeds the ceilings, if they are to be checked.
pub fn run(root: &Path, is_checked: bool) -> TaskResult {
    let built = Built::new(root, SERVICE)?;
    let per_call = built.measure(&["null"])?.instructions;
    let without = built.measure(&["none"])?.instructions;
    println!("a call in the managed service: {per_call:.1} instructions, at most {CEILING}");
    println!("  without policies: {without:.1}");
    check("a call", per_call, CEILING, is_checked)?;
    for (policy, most) in [("rate_limit", per_call * RATE_LIMIT_SHARE), ("access", ACCESS_CEILING)]
    {
        let more = built.measure(&[policy])?.instructions - per_call;
        let percent = 100.0 * more / per_call;
        println!(
            "  with `{policy}` on both sides: {more:+.1} ({percent:+.1} %), at most {most:.1}"
        );
        check(&format!("`{policy}`"), more, most, is_checked)?;
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
