//! Instructions of the router's core per request: the decision, its number, and feedback for it.

use std::path::Path;

use super::{Built, Program};
use crate::TaskResult;

pub(super) const ROUTER: Program = Program { package: "petasos-router", example: "icount_router" };

/// What a request may cost with JBSQ(3) and 16 workers, if a worker is free and if it has to wait:
/// the 655 and 1,089 that were counted, and 3 % more.
const CEILINGS: [(&str, f64); 2] = [("free", 675.0), ("waits", 1_122.0)];

/// Prints what a request costs. Fails if that exceeds the ceilings, if they are to be checked.
pub fn run(root: &Path, is_checked: bool) -> TaskResult {
    let built = Built::new(root, ROUTER)?;
    for (case, ceiling) in CEILINGS {
        let counted = built.measure(&[case])?.instructions;
        println!("a request in the router's core ({case}): {counted:.1}, at most {ceiling}");
        check(case, counted, ceiling, is_checked)?;
    }
    Ok(())
}

fn check(case: &str, counted: f64, ceiling: f64, is_checked: bool) -> TaskResult {
    if is_checked && counted > ceiling {
        return Err(format!(
            "{counted:.1} instructions per request in the router's core ({case}), over the \
             ceiling of {ceiling}"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_has_a_ceiling_where_it_is_checked() {
        assert!(check("free", 100.0, 100.0, true).is_ok());
        assert!(check("free", 100.1, 100.0, false).is_ok());
        let message = check("free", 100.1, 100.0, true).unwrap_err();
        assert!(message.contains("(free), over the ceiling of 100"), "{message}");
    }
}
