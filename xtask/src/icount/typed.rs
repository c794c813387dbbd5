//! Instructions that typed calls add to raw ones, without their messages.

use std::path::Path;

use super::{Built, Program, RAW, TYPED_BYTES};
use crate::TaskResult;

pub(super) const TYPED: Program = Program { package: "petasos", example: "icount_typed" };

/// Prints the cost of a typed echo of 32 bytes, and how much of it is due to the raw RPC of as many
/// bytes and to the messages. Fails if the rest exceeds the ceiling, if there is one.
pub fn run(root: &Path, ceiling: Option<f64>) -> TaskResult {
    let typed = Built::new(root, TYPED)?;
    let raw = Built::new(root, RAW)?.measure(&["virtual", TYPED_BYTES])?.instructions;
    let whole = typed.measure(&[])?.instructions;
    let messages = typed.measure(&["messages"])?.instructions;
    let per_end = (whole - raw - messages) / 2.0;
    println!("per typed call, both ends: {whole:.1} instructions");
    println!("  the raw call of {TYPED_BYTES} bytes: {raw:.1}; its messages: {messages:.1}");
    println!("  so {per_end:.1} per end for what is typed of the call");
    check(per_end, ceiling)
}

fn check(per_end: f64, ceiling: Option<f64>) -> TaskResult {
    match ceiling {
        Some(ceiling) if per_end > ceiling => Err(format!(
            "{per_end:.1} instructions per end of a typed call, over the ceiling of {ceiling}"
        )),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typed_calls_have_a_ceiling_where_it_is_asked() {
        assert!(check(300.0, Some(300.0)).is_ok());
        assert!(check(300.1, None).is_ok());
        let message = check(300.1, Some(300.0)).unwrap_err();
        assert!(message.contains("ceiling of 300"), "{message}");
    }
}
