//! `petasos ctl`: operators see and change the managed service of this host, or a router.
//!
//! A client of `petasos.admin.v1.Admin` at the service's Unix socket. What changes something is a
//! plan of steps; the commands that change one thing are plans of one step.

mod audit;
mod engine;
mod plan;
mod plugin;
mod policy;
mod quota;
mod rollout;
mod router;
mod runtime;
mod schema;
mod show;
mod stats;
mod top;
mod transport;
mod upgrade;

use std::process::ExitCode;

use clap::{Args, Subcommand};
use petasos_admin::ChangeRequest;
use petasos_cli::admin::{ServiceArgs, ended};
use petasos_cli::failed::Failed;

pub use top::TopArgs;

/// The arguments of `petasos ctl`.
#[derive(Args)]
pub struct CtlArgs {
    #[command(flatten)]
    service: ServiceArgs,
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// List the applications that are attached.
    Apps,
    /// Show the engines of all applications, or of one.
    Datapath(show::DatapathArgs),
    /// List the kinds of policies that there are.
    Kinds,
    /// Change the engines of an application.
    #[command(subcommand)]
    Engine(engine::EngineCommand),
    /// List or change the policies that applications get, also those that attach later.
    #[command(subcommand)]
    Policy(policy::PolicyCommand),
    /// List, load, replace or unload kinds of policies that are not built in.
    #[command(subcommand)]
    Plugin(plugin::PluginCommand),
    /// List, show, load or evict the schemas that are known.
    Schema(schema::SchemaCommand),
    /// List, add, remove or pin the threads that run datapaths, and move applications between them.
    #[command(subcommand)]
    Runtime(runtime::RuntimeCommand),
    /// Show or set what applications may have at a time.
    #[command(subcommand)]
    Quota(quota::QuotaCommand),
    /// Show what carries packets between hosts, or change how they are handed to it, while calls
    /// run.
    Transport(transport::TransportArgs),
    /// Show what is counted of calls and engines.
    Stats(stats::StatsArgs),
    /// Show what operators have done, and what others have tried.
    Audit(audit::AuditArgs),
    /// Have the service read its configuration and policies again. If anything is wrong, nothing
    /// changes.
    Reload,
    /// Do all steps of a plan, or none.
    Apply(plan::ApplyArgs),
    /// Change several hosts one after another, and undo all if anything fails.
    Rollout(rollout::RolloutArgs),
    /// Show and change the groups of a router (`petasos-router`) while calls run.
    Router(router::RouterArgs),
    /// Start another `petasosd`, which takes over from the one that runs while calls run.
    Upgrade(upgrade::UpgradeArgs),
}

/// Runs a command.
pub fn run(args: &CtlArgs) -> ExitCode {
    ended(&args.service, done(args))
}

/// Runs `petasos top`.
pub fn run_top(args: &TopArgs) -> ExitCode {
    ended(args.service(), top::run(args))
}

fn done(args: &CtlArgs) -> Result<(), Failed> {
    let service = &args.service;
    match &args.what {
        What::Apps => show::apps(service),
        What::Datapath(args) => show::datapath(service, args),
        What::Kinds => show::kinds(service),
        What::Engine(command) => engine::run(service, command),
        What::Policy(command) => policy::run(service, command),
        What::Plugin(command) => plugin::run(service, command),
        What::Reload => reload(service),
        What::Schema(command) => schema::run(service, command),
        What::Transport(args) => transport::run(service, args),
        What::Quota(command) => quota::run(service, command),
        What::Runtime(command) => runtime::run(service, command),
        What::Stats(args) => stats::run(service, args),
        What::Audit(args) => audit::run(service, args),
        What::Apply(args) => plan::run(service, args),
        What::Rollout(args) => rollout::run(service, args),
        What::Router(args) => router::run(service, args),
        What::Upgrade(args) => upgrade::run(service, args),
    }
}

fn reload(service: &ServiceArgs) -> Result<(), Failed> {
    let mut request = ChangeRequest::new();
    request.edit().steps_mut().add().reload_mut();
    service.change(request)
}

/// A configuration from the command line: JSON, or `@FILE`.
fn configuration(text: &str) -> Result<String, Failed> {
    let Some(path) = text.strip_prefix('@') else { return Ok(text.to_owned()) };
    read(path)
}

/// Reads a file of configuration; `-` is standard input.
fn read(path: &str) -> Result<String, Failed> {
    use std::io::Read as _;
    let limit = petasos_admin::REQUEST_BYTES_MAX as u64;
    let mut text = String::new();
    let read = match path {
        "-" => std::io::stdin().lock().take(limit + 1).read_to_string(&mut text),
        path => std::fs::File::open(path)
            .and_then(|file| file.take(limit + 1).read_to_string(&mut text)),
    };
    read.map_err(|error| {
        Failed::new(format!("cannot read {path}: {error}"))
            .with_advice("name a file that exists and is text, or `-` for standard input")
    })?;
    match text.len() as u64 > limit {
        true => Err(Failed::new(format!("{path} has more than {limit} bytes"))
            .with_advice("divide the plan")),
        false => Ok(text),
    }
}
