//! `petasos ctl runtime`: the threads that run the datapaths of applications.

use clap::{Args, Subcommand};
use petasos_admin::{ChangeRequest, ListRuntimesRequest, Runtime};
use petasos_cli::admin::{ServiceArgs, table};
use petasos_cli::failed::Failed;
use serde::Deserialize;
use serde_json::{Value, json};

use super::show::print;

/// A runtime is a thread. An application that attaches gets the one that has the fewest: of those
/// dedicated to its name if there are any, otherwise of the shared ones.
#[derive(Subcommand)]
pub enum RuntimeCommand {
    /// List the runtimes.
    List,
    /// Add a runtime.
    Add(AddArgs),
    /// Remove a runtime: its applications move to others while their calls run.
    Remove(RemoveArgs),
    /// Let a runtime run on one processor alone, or on any.
    Pin(PinArgs),
    /// Move an application to another runtime while its calls run.
    Move(MoveArgs),
}

/// A runtime to add.
#[derive(Args, Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AddArgs {
    /// For the applications of this name alone; shared, if it is not given.
    #[arg(long = "for", value_name = "NAME", default_value = "")]
    #[serde(default, rename = "for")]
    pub dedicated_to: String,
    /// The processor that it runs on; any, if it is not given.
    #[arg(long, value_name = "N")]
    pub cpu: Option<u32>,
}

/// A runtime to remove.
#[derive(Args, Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RemoveArgs {
    /// Its number.
    #[arg(value_name = "RUNTIME")]
    pub runtime: u32,
}

/// A runtime to pin.
#[derive(Args, Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PinArgs {
    /// Its number.
    #[arg(value_name = "RUNTIME")]
    pub runtime: u32,
    /// The processor; any, if it is not given.
    #[arg(long, value_name = "N")]
    pub cpu: Option<u32>,
}

/// An application to move.
#[derive(Args, Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MoveArgs {
    /// An application by its name or its number.
    #[arg(value_name = "APPLICATION")]
    pub application: String,
    /// The number of the runtime.
    #[arg(value_name = "RUNTIME")]
    pub runtime: u32,
}

/// Shows or changes runtimes.
pub fn run(service: &ServiceArgs, command: &RuntimeCommand) -> Result<(), Failed> {
    let mut request = ChangeRequest::new();
    let mut edit = request.edit();
    let mut steps = edit.steps_mut();
    match command {
        RuntimeCommand::List => return list(service),
        RuntimeCommand::Add(args) => args.fill(&mut steps.add()),
        RuntimeCommand::Remove(args) => args.fill(&mut steps.add()),
        RuntimeCommand::Pin(args) => args.fill(&mut steps.add()),
        RuntimeCommand::Move(args) => args.fill(&mut steps.add()),
    }
    service.change(request)
}

impl AddArgs {
    /// As a step.
    pub fn fill(&self, step: &mut petasos_admin::StepMut<'_>) {
        let mut add = step.add_runtime_mut();
        add.set_dedicated_to(&self.dedicated_to);
        self.cpu.map(|cpu| add.set_cpu(cpu).cpu());
    }
}

impl RemoveArgs {
    /// As a step.
    pub fn fill(&self, step: &mut petasos_admin::StepMut<'_>) {
        step.remove_runtime_mut().set_id(self.runtime);
    }
}

impl PinArgs {
    /// As a step.
    pub fn fill(&self, step: &mut petasos_admin::StepMut<'_>) {
        let mut pin = step.pin_runtime_mut();
        pin.set_id(self.runtime);
        self.cpu.map(|cpu| pin.set_cpu(cpu).cpu());
    }
}

impl MoveArgs {
    /// As a step.
    pub fn fill(&self, step: &mut petasos_admin::StepMut<'_>) {
        step.move_application_mut().set_application(&self.application).set_runtime(self.runtime);
    }
}

fn list(service: &ServiceArgs) -> Result<(), Failed> {
    let request = ListRuntimesRequest::new();
    let answer = service.ask(request, |client, request| client.list_runtimes(request))?;
    let list = answer.runtimes();
    let json = || list.iter().map(runtime_json).collect();
    print(service, json, || {
        let head = ["RUNTIME", "FOR", "CPU", "APPS", "CALLS", "CPU TIME [s]", "STATE"];
        let rows: Vec<Vec<String>> = list.iter().map(row).collect();
        table(&head, &rows)
    })
}

fn runtime_json(runtime: &Runtime) -> Value {
    json!({
        "id": runtime.id(),
        "for": Some(runtime.dedicated_to()).filter(|name| !name.is_empty()),
        "cpu": runtime.cpu(),
        "applications": runtime.applications(),
        "calls": runtime.calls(),
        "processor_ns": runtime.processor_ns(),
        "is_leaving": runtime.is_leaving(),
    })
}

fn row(runtime: &Runtime) -> Vec<String> {
    let seconds = |ns: u64| format!("{:.3}", ns as f64 / 1e9);
    vec![
        runtime.id().to_string(),
        if runtime.dedicated_to().is_empty() { "(all)" } else { runtime.dedicated_to() }.to_owned(),
        runtime.cpu().map_or_else(|| "any".to_owned(), |cpu| cpu.to_string()),
        runtime.applications().to_string(),
        runtime.calls().to_string(),
        runtime.processor_ns().map_or_else(|| "?".to_owned(), seconds),
        if runtime.is_leaving() { "leaving" } else { "runs" }.to_owned(),
    ]
}
