//! The command line: `serve`, `call`, `demo`, `bench`, `doctor`.
//!
//! Exit status: 0 if everything asked for was done, 1 if it failed (with one line on standard
//! error that says why and what to do), 2 if the command line itself is wrong.
//!
//! Boundary rule: joins endpoint, packet I/O and report; has no mechanism of its own.

mod bench;
mod call;
mod client;
mod demo;
mod doctor;
mod failure;
mod output;
mod serve;
mod service;
mod size;
mod transport;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Petasos: remote procedure calls in microseconds over plain UDP.
#[derive(Parser)]
#[command(name = "petasos", version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run a server with the demonstration services: echo and a key-value store.
    Serve(serve::ServeArgs),
    /// Make one call to a server and print the answer.
    Call(call::CallArgs),
    /// Store a text in another process line by line, read it back, check every byte, and measure.
    Demo(demo::DemoArgs),
    /// Say what this host supports, and why not.
    Doctor(doctor::DoctorArgs),
    /// Measure latency, rate and bandwidth against what the bare transport allows.
    Bench(Box<bench::BenchCommand>),
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Serve(args) => serve::run(&args),
        Command::Call(args) => call::run(&args),
        Command::Demo(args) => demo::run(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Bench(args) => return bench::run(*args),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            output::note(&format!("petasos: {failure}"));
            ExitCode::FAILURE
        }
    }
}
