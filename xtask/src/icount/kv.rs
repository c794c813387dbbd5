//! Instructions of a key-value request, at both ends, and how much more that is than an echo of as
//! many bytes.

use std::path::Path;

use super::{Built, Program};
use crate::TaskResult;

pub(super) const KV: Program = Program { package: "petasos-kv", example: "icount_kv" };

/// What a request may cost more than an echo: the 1,038 and 1,467 that were counted, and 6 % more.
const CEILINGS: [(&str, f64); 2] = [("get", 1_100.0), ("set", 1_560.0)];

/// Prints what requests cost. Fails if that exceeds the ceilings, if they are to be checked.
pub fn run(root: &Path, is_checked: bool) -> TaskResult {
    let built = Built::new(root, KV)?;
    let echo = built.measure(&["echo"])?.instructions;
    println!("an echo of as many bytes as a key-value request: {echo:.1}");
    for (what, ceiling) in CEILINGS {
        let more = built.measure(&[what])?.instructions - echo;
        println!("a key-value request ({what}): {more:.1} more, at most {ceiling}");
        check(what, more, ceiling, is_checked)?;
    }
    Ok(())
}

fn check(what: &str, counted: f64, ceiling: f64, is_checked: bool) -> TaskResult {
    if is_checked && counted > ceiling {
        return Err(format!(
            "{counted:.1} instructions per key-value request ({what}) more than an echo, over the \
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
        assert!(check("get", 100.0, 100.0, true).is_ok());
        assert!(check("get", 100.1, 100.0, false).is_ok());
        let message = check("get", 100.1, 100.0, true).unwrap_err();
        assert!(message.contains("(get) more than an echo, over the ceiling of 100"), "{message}");
    }
}
