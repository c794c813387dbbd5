//! What `petasos kv` runs: a server of keys and values in memory, and commands that ask one.
//!
//! Exit status: 0 if the command succeeded; 1 if it failed, which includes a key that has no item
//! (one line on standard error says why and what to do); 2 if the command line is invalid.
//!
//! Boundary rule: joins `petasos-kv` with sockets, threads and the command line; decides nothing
//! about keys.

mod ask;
mod client;
mod serve;
mod sizing;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use petasos_cli::output;

/// Keys and values in memory: a server, and commands that ask one.
#[derive(Parser)]
#[command(name = "petasos kv", bin_name = "petasos kv", version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Serve a table of keys and values.
    Serve(Box<serve::ServeArgs>),
    /// Print the value of a key, or of several.
    Get(ask::GetArgs),
    /// Store a value under a key.
    Set(ask::SetArgs),
    /// Delete a key's item.
    Delete(ask::DeleteArgs),
    /// Give a key's item another expiry.
    Touch(ask::TouchArgs),
    /// Add to a number, which is 0 if there is none.
    Add(ask::AddArgs),
    /// Print what the server holds and has counted.
    Stats(ask::StatsArgs),
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Serve(args) => serve::run(&args),
        Command::Get(args) => ask::get(&args),
        Command::Set(args) => ask::set(&args),
        Command::Delete(args) => ask::delete(&args),
        Command::Touch(args) => ask::touch(&args),
        Command::Add(args) => ask::add(&args),
        Command::Stats(args) => ask::stats(&args),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            output::note(&format!("petasos: {failure}"));
            ExitCode::FAILURE
        }
    }
}
