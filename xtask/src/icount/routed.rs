//! Instructions of a call to a group of workers: both ends, and rewriting in between.

use std::path::Path;

use super::{Built, Program};
use crate::TaskResult;

pub(super) const ROUTED: Program =
    Program { package: "petasos-endpoint", example: "icount_routed" };

/// What a call may cost that runs at once, and one that asks for a worker first: the 3,178 and
/// 7,297 that were counted, and 2 % more. Of sealed ones, most is what the AEAD takes, which hangs
/// on the processor, so that they are only shown.
const CASES: [(&[&str], Option<f64>); 4] = [
    (&["whole"], Some(3_240.0)),
    (&["claim"], Some(7_440.0)),
    (&["whole", "sealed"], None),
    (&["claim", "sealed"], None),
];

/// Prints what a call costs. Fails if that exceeds the ceilings, if they are to be checked.
pub fn run(root: &Path, is_checked: bool) -> TaskResult {
    let built = Built::new(root, ROUTED)?;
    for (case, ceiling) in CASES {
        let (counted, name) = (built.measure(case)?.instructions, case.join(", "));
        let Some(ceiling) = ceiling else {
            println!("a call to a group ({name}): {counted:.1}");
            continue;
        };
        println!("a call to a group ({name}): {counted:.1}, at most {ceiling}");
        if is_checked && counted > ceiling {
            return Err(format!(
                "{counted:.1} instructions per call to a group ({name}), over the ceiling of \
                 {ceiling}"
            ));
        }
    }
    Ok(())
}
