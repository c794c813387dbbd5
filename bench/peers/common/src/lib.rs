//! The common code of peer programs: command line, payloads, the turns that the parent asks for,
//! and the closed loop of calls in each. `bench/peers/README.md` has the contract.

#![forbid(unsafe_code)]

mod error;
mod histogram;
mod lines;
mod load;
mod options;
mod payloads;
#[cfg(feature = "tokio")]
mod tokio_ends;

pub use error::Error;
pub use lines::{Command, Phase, commands, say};
pub use load::{Call, Load};
pub use options::{Options, Role};
pub use payloads::Payloads;
#[cfg(feature = "tokio")]
pub use tokio_ends::{Caller, call, serve};

/// Runs a peer as its command line says: `serve` or `call`.
pub fn run(
    serve: impl FnOnce(&Options) -> Result<(), Error>,
    call: impl FnOnce(&Options) -> Result<(), Error>,
) -> std::process::ExitCode {
    let outcome = Options::parse(std::env::args().skip(1)).map_err(Error::from);
    let outcome = outcome.and_then(|options| match options.role {
        Role::Serve => serve(&options),
        Role::Call => call(&options),
    });
    match outcome {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            std::process::ExitCode::FAILURE
        }
    }
}
