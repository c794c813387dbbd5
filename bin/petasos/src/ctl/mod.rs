//! `petasos ctl`: operators see and change the managed service of this host.
//!
//! A client of `petasos.admin.v1.Admin` at the service's Unix socket. What changes something is a
//! plan of steps; the commands that change one thing are plans of one step.

mod audit;
mod engine;
mod frame;
mod plan;
mod policy;
mod quota;
mod schema;
mod show;
mod stats;
mod table;
mod top;
mod upgrade;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand};
use petasos::grpc::ClientConfig;
use petasos::message::Message;
use petasos::{Channel, Code, ConnectError, Msg, Request, Status, Unary, block_on};
use petasos_admin::{AdminClient, ChangeRequest, DEFAULT_SOCKET, RESPONSE_BYTES_MAX};

use crate::output;
use crate::typed::Failed;

pub use audit::to_json as audit_json;
pub use frame::{Calls, Engine, Frame};
pub use policy::policy_json;
pub use quota::to_json as quota_json;
pub use show::{app_json, datapath_json};
pub use stats::{calls_summary, item_ns, latencies};
pub use top::TopArgs;

/// The arguments of `petasos ctl`.
#[derive(Args)]
pub struct CtlArgs {
    #[command(flatten)]
    service: ServiceArgs,
    #[command(subcommand)]
    what: What,
}

/// The service, and how to call it.
#[derive(Args)]
pub struct ServiceArgs {
    /// The service's socket for operators.
    #[arg(long, global = true, value_name = "PATH", default_value = DEFAULT_SOCKET)]
    pub socket: PathBuf,
    /// Print JSON.
    #[arg(long, global = true)]
    pub json: bool,
    /// The longest to wait for the service, in seconds.
    #[arg(long, global = true, value_name = "S", default_value_t = 15)]
    timeout: u64,
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
    /// List, show, load or evict the schemas that are known.
    Schema(schema::SchemaCommand),
    /// Show or set what applications may have at a time.
    #[command(subcommand)]
    Quota(quota::QuotaCommand),
    /// Show what is counted of calls and engines.
    Stats(stats::StatsArgs),
    /// Show what operators have done, and what others have tried.
    Audit(audit::AuditArgs),
    /// Do all steps of a plan, or none.
    Apply(plan::ApplyArgs),
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

/// How a command ends that uses the service.
pub fn ended(service: &ServiceArgs, result: Result<(), Failed>) -> ExitCode {
    let Err(failed) = result else { return ExitCode::SUCCESS };
    match service.json {
        true => output::note(&failed.to_json().to_string()),
        false => output::note(&format!("petasos: {failed}")),
    }
    ExitCode::from(failed.exit_code())
}

fn done(args: &CtlArgs) -> Result<(), Failed> {
    let service = &args.service;
    match &args.what {
        What::Apps => show::apps(service),
        What::Datapath(args) => show::datapath(service, args),
        What::Kinds => show::kinds(service),
        What::Engine(command) => engine::run(service, command),
        What::Policy(command) => policy::run(service, command),
        What::Schema(command) => schema::run(service, command),
        What::Quota(command) => quota::run(service, command),
        What::Stats(args) => stats::run(service, args),
        What::Audit(args) => audit::run(service, args),
        What::Apply(args) => plan::run(service, args),
        What::Upgrade(args) => upgrade::run(service, args),
    }
}

impl ServiceArgs {
    /// The longest to wait for the service.
    fn patience(&self) -> Duration {
        Duration::from_secs(self.timeout.max(1))
    }

    /// A client whose calls reach the service, and take so long at most.
    pub fn connect(&self, timeout: Option<Duration>) -> Result<AdminClient, Failed> {
        let socket = std::path::absolute(&self.socket).unwrap_or_else(|_| self.socket.clone());
        let mut config = ClientConfig::default();
        config.receive_bytes_max = RESPONSE_BYTES_MAX;
        let channel = Channel::builder(&format!("grpc+unix://{}", socket.display()))
            .grpc(config)
            .connect_timeout(self.patience());
        let channel = match timeout {
            Some(timeout) => channel.timeout(timeout),
            None => channel,
        };
        let channel = block_on(channel.connect()).map_err(|error| self.unconnected(&error))?;
        Ok(AdminClient::new(channel))
    }

    fn unconnected(&self, error: &ConnectError) -> Failed {
        let socket = self.socket.display();
        let why = match error {
            ConnectError::Unreachable(status) => status.message().to_owned(),
            error => error.to_string(),
        };
        let (what, advice, code) = match why {
            why if why.contains("No such file") || why.contains("Connection refused") => (
                format!("no service listens for operators at {socket}"),
                "start `petasosd`, or say where it listens with --socket (its --admin)",
                Code::Unavailable,
            ),
            why if why.contains("Permission denied") => (
                format!("the system does not let this user connect to {socket}"),
                "be root or the service's user, or have the service started with --viewer",
                Code::PermissionDenied,
            ),
            why => (
                format!("cannot connect to {socket}: {why}"),
                "check that `petasosd` has this socket for operators (its --admin)",
                Code::Unavailable,
            ),
        };
        Failed::new(what).with_advice(advice).with_status(code)
    }

    /// Asks the service for something.
    fn ask<Q: Message, R: Message>(
        &self,
        request: Msg<Q>,
        method: impl FnOnce(&AdminClient, Request<Q>) -> Unary<R>,
    ) -> Result<Msg<R>, Failed> {
        let client = self.connect(Some(self.patience()))?;
        let answer = block_on(method(&client, Request::new(request)));
        Ok(answer.map_err(|status| failed(&status))?.into_message())
    }

    /// Changes something, and prints what was done.
    fn change(&self, request: Msg<ChangeRequest>) -> Result<(), Failed> {
        let response = self.ask(request, |client, request| client.change(request))?;
        let lines: Vec<&str> = response.done().iter().map(|line| &**line).collect();
        let text = match self.json {
            true => serde_json::json!({ "done": lines }).to_string(),
            false => lines.join("\n"),
        };
        Ok(output::answer(text.as_bytes())?)
    }
}

/// The failure of a call to the service.
pub fn failed(status: &Status) -> Failed {
    let failed = Failed::of_status(status);
    match status.code() {
        Code::PermissionDenied => failed
            .with_advice("root and the service's user may change it; --viewer lets others look"),
        Code::NotFound => {
            failed.with_advice("`petasos ctl apps` and `datapath` show what there is")
        }
        Code::ResourceExhausted => failed.with_advice("try again later, or remove something"),
        Code::DeadlineExceeded => failed.with_advice(
            "`petasos ctl audit` shows whether it was done; allow more with --timeout",
        ),
        _ => failed,
    }
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
