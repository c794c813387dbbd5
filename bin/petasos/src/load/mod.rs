//! `petasos load`: open-loop load on a server, whatever it speaks.
//!
//! The mechanism is `petasos-load`'s. Here are its options, the targets that are made of Petasos
//! (`typed`, `raw`), and the results.
//!
//! Exit status: 0 if there is a result, 2 if the command line is invalid, and otherwise 1, or that
//! of `petasos call` if the server or its schema cannot be asked.

mod args;
mod measure;
mod outcome;
mod raw;
mod target;
mod tcp;
mod typed;

use std::process::ExitCode;

pub use args::LoadArgs;
use petasos_cli::failed::Failed;
use petasos_cli::output;

/// Measures, and prints the results.
pub fn run(args: &LoadArgs) -> ExitCode {
    crate::typed::ended(measured(args), args.server.json)
}

fn measured(args: &LoadArgs) -> Result<(), Failed> {
    let outcome = measure::measure(args)?;
    match args.server.json {
        true => output::answer(format!("{:#}", outcome.json()).as_bytes())?,
        false => outcome.print()?,
    }
    Ok(())
}
