//! Instructions of a call to a group of workers: both ends, and rewriting in between.

use std::path::Path;

use super::{Built, Program};
use crate::TaskResult;

const ROUTED: Program = Program { package: "petasos-endpoint", example: "icount_routed" };

/// What a call may cost that runs at once, and one that asks for a worker first: the 3,116 and
/// 7,141 that were counted, and 2 % more.
const CEILINGS: [(&str, f64); 2] = [("whole", 3_180.0), ("claim", 7_245.0)];

/// Prints what a call costs. Fails if that exceeds the ceilings, if they are to be checked.
pub fn run(root: &Path, is_checked: bool) -> TaskResult {
    let built = Built::new(root, ROUTED)?;
    for (case, ceiling) in CEILINGS {
        let counted = built.measure(&[case])?.instructions;
        println!("a call to a group ({case}): {counted:.1}, at most {ceiling}");
        if is_checked && counted > ceiling {
            return Err(format!(
                "{counted:.1} instructions per call to a group ({case}), over the ceiling of \
                 {ceiling}"
            ));
        }
    }
    Ok(())
}
