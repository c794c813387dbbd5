//! Calls of typed services by their schemas, which come from the server or from files: `call`,
//! `list`, `describe` and `health`, over datagrams or gRPC.
//!
//! Exit status: 0 on success; 64 + N if a call ended with status code N; 1 for all other failures;
//! 2 if the command line is invalid.

mod call;
mod data;
mod describe;
mod health;
mod list;
mod schema;
mod server;
mod table;

pub use call::{CallArgs, path};
pub use describe::DescribeArgs;
pub use health::HealthArgs;
pub use list::ListArgs;
pub use schema::{Known, SchemaArgs};
pub use server::{ServerArgs, time};

use std::process::ExitCode;

use petasos_cli::failed::Failed;
use petasos_cli::output;

/// Calls a method.
pub fn call(args: &CallArgs) -> ExitCode {
    ended(call::run(args), args.server.json)
}

/// Lists services or methods.
pub fn list(args: &ListArgs) -> ExitCode {
    ended(list::run(args), args.server.json)
}

/// Shows declarations.
pub fn describe(args: &DescribeArgs) -> ExitCode {
    ended(describe::run(args), args.server.json)
}

/// Prints the health of a server or a service.
pub fn health(args: &HealthArgs) -> ExitCode {
    ended(health::run(args), args.server.json)
}

/// Reports the result of a command.
pub fn ended(result: Result<(), Failed>, json: bool) -> ExitCode {
    let Err(failed) = result else { return ExitCode::SUCCESS };
    match json {
        true => output::note(&failed.to_json().to_string()),
        false => output::note(&format!("petasos: {failed}")),
    }
    ExitCode::from(failed.exit_code())
}
