//! DeathStarBench's hotel reservation: seven services and a frontend, over Petasos, the managed
//! service, or tonic. `README.md` says how to run it.

mod cache;
mod calls;
mod dates;
mod error;
mod frontend;
mod load;
mod logic;
mod measure;
mod messages;
mod packages;
mod pool;
mod rpc;
mod serve;
mod service;
mod stage;
mod store;
mod timing;

use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

use error::Error;
use store::postgres::Postgres;

/// DeathStarBench's hotel reservation
#[derive(Debug, Parser)]
#[command(name = "hotel")]
struct Line {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Serve(serve::ServeArgs),
    Frontend(serve::FrontendArgs),
    LoadData(LoadDataArgs),
    Load(load::LoadArgs),
    Stage(stage::PlayArgs),
    Measure(measure::MeasureArgs),
    #[command(hide = true)]
    Launch(stage::launch::LaunchArgs),
}

/// Make the tables in PostgreSQL, and fill them
#[derive(Args, Debug)]
struct LoadDataArgs {
    /// PostgreSQL, as libpq takes it
    #[arg(long)]
    store: String,
}

/// Runs a future on this thread, with tasks of the same thread.
fn run(future: impl Future<Output = Result<(), Error>>) -> Result<(), Error> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Error::internal(error.to_string()))?;
    tokio::task::LocalSet::new().block_on(&runtime, future)
}

/// Drops the future, and so ends what it has started, when the process is told to end.
async fn until_signal(future: impl Future<Output = Result<(), Error>>) -> Result<(), Error> {
    tokio::select! {
        outcome = future => outcome,
        outcome = serve::told_to_end() => outcome,
    }
}

fn act(command: &Command) -> Result<(), Error> {
    match command {
        Command::Serve(args) => run(serve::serve(args)),
        Command::Load(args) => run(load::load(args)),
        Command::Stage(args) => run(until_signal(stage::play(args))),
        Command::Measure(args) => run(until_signal(measure::measure(args))),
        Command::Launch(args) => stage::launch::launch(args),
        Command::Frontend(args) => run(serve::serve_frontend(args)),
        Command::LoadData(args) => {
            run(async { Postgres::connect(&args.store).await?.load().await })
        }
    }
}

fn main() -> ExitCode {
    match act(&Line::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("hotel: {error}");
            ExitCode::FAILURE
        }
    }
}
