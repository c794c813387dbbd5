//! `petasos ctl router`: operators see and change a router's groups.

mod change;
mod show;

use clap::{Args, Subcommand};
use petasos_cli::admin::ServiceArgs;
use petasos_cli::failed::Failed;

use super::audit;

/// The arguments of `petasos ctl router`.
#[derive(Args)]
pub struct RouterArgs {
    /// The group: the address where its clients attach. It may be left out if there is one.
    #[arg(long, global = true, value_name = "ADDRESS", default_value = "")]
    group: String,
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Show the groups, or one: members, what waits, what is in force, what is counted.
    Status,
    /// List the workers of a group.
    Workers,
    /// List the clients of a group.
    Clients(show::ClientsArgs),
    /// Give a worker nothing more. What it has it ends.
    Drain {
        /// Its number: see `workers`.
        worker: u32,
    },
    /// Give a worker requests again that was drained.
    Undrain {
        /// Its number: see `workers`.
        worker: u32,
    },
    /// Set a worker's part of the requests, instead of what it has announced.
    Weight {
        /// Its number: see `workers`.
        worker: u32,
        /// In percent of a full one's, 1 to 100.
        weight: u32,
    },
    /// Show how a group's workers are picked and how requests wait, or set it until the router
    /// reads its configuration again.
    Policy(change::PolicyArgs),
    /// Have the router read its configuration again. If anything is wrong, nothing changes.
    Reload,
    /// Show what operators have done, and what others have tried.
    Audit(audit::AuditArgs),
}

/// Runs a command.
pub fn run(service: &ServiceArgs, args: &RouterArgs) -> Result<(), Failed> {
    let group = &args.group;
    match &args.what {
        What::Status => show::status(service, group),
        What::Workers => show::workers(service, group),
        What::Clients(args) => show::clients(service, group, args),
        What::Drain { worker } => change::drain(service, group, *worker, false),
        What::Undrain { worker } => change::drain(service, group, *worker, true),
        What::Weight { worker, weight } => change::weigh(service, group, *worker, *weight),
        What::Policy(args) => change::policy(service, group, args),
        What::Reload => change::reload(service),
        What::Audit(args) => audit::run_router(service, args),
    }
}
