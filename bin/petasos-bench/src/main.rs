//! `petasos bench`: compares Petasos with its transport alone, in the same run.
//!
//! Client and server are two processes, pinned to two cores (`loopback`: one core). Petasos and
//! each floor take turns of about 100 ms, one at a time. The reported ratio is the median of the
//! ratios of neighbouring turns, because the results of single turns on a shared machine differ by
//! up to a factor of three. All experiments use the default configuration.
//!
//! `petasos bench` runs this as a separate program. Otherwise everybody who builds `petasos` would
//! have to build the systems that it is compared with.

mod against;
mod args;
mod bottleneck;
mod contention;
mod error;
mod factors;
mod floor;
mod incast;
mod lab;
mod load;
mod loopback;
mod loss;
mod managed;
mod network;
mod peer;
mod publish;
mod remote;
mod report;
mod resources;
mod result;
mod router;
mod rpc;
mod server;
mod timeline;
mod turns;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use petasos_cli::security::SecurityArgs;

use args::{BenchArgs, Experiment, Transport};
use contention::ContentionArgs;
use error::BenchError;

/// Measure Petasos against the floor of its transport, or in simulation
#[derive(Parser)]
#[command(name = "petasos bench", bin_name = "petasos bench", version)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
struct Cli {
    #[command(subcommand)]
    apart: Option<Apart>,
    #[command(flatten)]
    measured: Option<BenchArgs>,
    #[command(flatten)]
    contention: ContentionArgs,
    #[command(flatten)]
    security: SecurityArgs,
}

/// Experiments with separate command lines: in simulation, in networks made for them, or without
/// Petasos.
#[derive(Subcommand)]
enum Apart {
    Incast(incast::IncastArgs),
    Bottleneck(bottleneck::BottleneckArgs),
    Loss(loss::LossArgs),
    Lab(lab::LabArgs),
    Rpc(rpc::RpcArgs),
    Managed(managed::ManagedArgs),
    #[command(hide = true)]
    ManagedPart(managed::PartArgs),
    #[command(hide = true)]
    ManagedLaunch(managed::LaunchArgs),
    Router(router::RouterArgs),
    #[command(hide = true)]
    RouterPart(router::PartArgs),
}

fn main() -> ExitCode {
    let command = Cli::parse();
    let outcome = refuse_unused(&command).and_then(|()| run(command));
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("petasos bench: {error}");
            ExitCode::FAILURE
        }
    }
}

/// What is measured between processes of the bench's own is plaintext: who asks for something else
/// is told, and not given another figure.
fn refuse_unused(command: &Cli) -> Result<(), BenchError> {
    let connects = command.measured.as_ref().is_some_and(|args| args.connect.is_some());
    if !connects && command.security != SecurityArgs::default() {
        return Err("--tls-cert, --tls-key, --tls-ca, --allow and --plaintext go with --connect: \
             processes that the bench starts itself use plaintext; `bench rpc --tls` measures TLS"
            .into());
    }
    Ok(())
}

fn run(command: Cli) -> Result<(), BenchError> {
    match (command.apart, command.measured) {
        (Some(Apart::Incast(args)), _) => incast::run(&args),
        (Some(Apart::Bottleneck(args)), _) => bottleneck::run(&args),
        (Some(Apart::Loss(args)), _) => loss::run(&args),
        (Some(Apart::Lab(args)), _) => lab::run(&args),
        (Some(Apart::Rpc(args)), _) => rpc::run(&args),
        (Some(Apart::Managed(args)), _) => managed::run(&args),
        (Some(Apart::ManagedPart(args)), _) => managed::be_part(&args),
        (Some(Apart::ManagedLaunch(args)), _) => managed::launch(&args),
        (Some(Apart::Router(args)), _) => router::run(&args),
        (Some(Apart::RouterPart(args)), _) => router::be_part(&args),
        (None, Some(args)) => {
            let args = BenchArgs { security: command.security, ..args };
            measure(&args, &command.contention)
        }
        (None, None) => Err("name an experiment; `petasos bench --help` lists them".into()),
    }
}

fn measure(args: &BenchArgs, contention: &ContentionArgs) -> Result<(), BenchError> {
    match (&args.server_role, args.experiment) {
        (Some(_), _) => server::run(args),
        (None, Experiment::Contention) => contention::run(args, contention),
        (None, Experiment::Factors | Experiment::Sessions | Experiment::Idle)
            if args.connect.is_some() =>
        {
            Err("this experiment starts its own server: leave --connect away".into())
        }
        (None, Experiment::Factors) => factors::run(args),
        (None, Experiment::Sessions) => resources::sessions(args),
        (None, Experiment::Idle) => resources::idle(args),
        (None, _) if args.connect.is_some() => remote::run(args),
        (None, _) if args.interface.is_some() => Err("with --interface the server is on another \
             host: start `petasos serve --transport xdp` there and name it with --connect; without \
             --interface the bench makes a network of its own"
            .into()),
        (None, _) if args.transport == Transport::Loopback => loopback::run(args),
        (None, _) => against::run(args),
    }
}
