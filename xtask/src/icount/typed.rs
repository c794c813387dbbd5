//! Instructions that typed calls add to raw ones, messages apart.

use std::path::Path;

use super::{Built, Program, RAW, TYPED_BYTES};
use crate::TaskResult;

const TYPED: Program = Program { package: "petasos", example: "icount_typed" };

/// Prints what a typed echo of 32 bytes costs, and how much of it the raw RPC of as many bytes and
/// the messages alone do.
pub fn run(root: &Path) -> TaskResult {
    let typed = Built::new(root, TYPED)?;
    let raw = Built::new(root, RAW)?.measure(&["virtual", TYPED_BYTES])?.instructions;
    let whole = typed.measure(&[])?.instructions;
    let messages = typed.measure(&["messages"])?.instructions;
    let per_end = (whole - raw - messages) / 2.0;
    println!("per typed call, both ends: {whole:.1} instructions");
    println!("  the raw call of {TYPED_BYTES} bytes: {raw:.1}; its messages: {messages:.1}");
    println!("  so {per_end:.1} per end for what is typed of the call");
    Ok(())
}
