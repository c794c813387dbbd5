//! The command line: `serve`, `call`, `list`, `describe`, `health`, `raw`, `demo`, `bench`,
//! `simulate`, `check`, `load`, `doctor`, `kv`, `quorum`, `ctl`, `top` and `dashboard`.
//!
//! Exit status: 0 if the command succeeded, 1 if it failed (one line on standard error says why and
//! what to do), 2 if the command line is invalid; 64 and above for the statuses of typed calls.
//!
//! Boundary rule: uses endpoint, packet I/O and report; implements no mechanism itself.

mod call;
mod check;
mod client;
mod companion;
mod ctl;
mod demo;
mod doctor;
mod load;
mod serve;
mod simulate;
mod typed;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use petasos_cli::output;

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
    /// Call a method of a typed service with JSON, over datagrams or gRPC.
    Call(Box<typed::CallArgs>),
    /// List a server's typed services, or the methods of one.
    List(typed::ListArgs),
    /// Show a server's services, methods and messages as .proto files declare them.
    Describe(typed::DescribeArgs),
    /// Ask whether a server, or one of its services, takes calls.
    Health(typed::HealthArgs),
    /// See and change the managed service of this host (`petasosd`), or a router, while it runs.
    Ctl(Box<ctl::CtlArgs>),
    /// Watch the calls of the managed service of this host: rates, latencies, engines' costs; or a
    /// router.
    Top(Box<ctl::TopArgs>),
    /// Serve a web page that shows the managed service of this host: who calls whom, rates,
    /// latencies, datapaths, policies. It changes nothing.
    Dashboard(companion::CompanionArgs),
    /// Serve keys and values in memory, and ask such a server.
    Kv(companion::CompanionArgs),
    /// Run a member of a group that keeps a table on several hosts, and ask such a group.
    Quorum(companion::CompanionArgs),
    /// Call the demonstration services of `serve`, or any method by its number, with plain bytes.
    Raw(call::CallArgs),
    /// Store a text in another process line by line, read it back, check every byte, and measure.
    Demo(demo::DemoArgs),
    /// Calculate by simulation what a router's policies do.
    #[command(subcommand)]
    Simulate(simulate::SimulateCommand),
    /// Say whether recorded calls are linearizable: whether a service that does one call after the
    /// other can have answered them so.
    Check(check::CheckArgs),
    /// Send requests at a rate, whether or not earlier ones are answered, and measure latencies.
    Load(Box<load::LoadArgs>),
    /// Say what this host supports, and why not.
    Doctor(doctor::DoctorArgs),
    /// Measure latency, rate and bandwidth against what the bare transport allows.
    Bench(companion::CompanionArgs),
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Serve(args) => serve::run(&args),
        Command::Call(args) => return typed::call(&args),
        Command::List(args) => return typed::list(&args),
        Command::Describe(args) => return typed::describe(&args),
        Command::Health(args) => return typed::health(&args),
        Command::Ctl(args) => return ctl::run(&args),
        Command::Top(args) => return ctl::run_top(&args),
        Command::Dashboard(args) => companion::DASHBOARD.run(&args),
        Command::Kv(args) => companion::KV.run(&args),
        Command::Quorum(args) => companion::QUORUM.run(&args),
        Command::Raw(args) => call::run(&args),
        Command::Demo(args) => demo::run(&args),
        Command::Simulate(command) => simulate::run(&command),
        Command::Check(args) => return check::run(&args),
        Command::Load(args) => return load::run(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Bench(args) => companion::BENCH.run(&args),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            output::note(&format!("petasos: {failure}"));
            ExitCode::FAILURE
        }
    }
}
