//! `petasos ctl plugin`: kinds of policies that are not built in.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use petasos_admin::{ChangeRequest, LeftPlugin, ListPluginsRequest, Plugin, StepMut};
use petasos_cli::admin::{ServiceArgs, table};
use petasos_cli::failed::Failed;
use serde::Deserialize;
use serde_json::{Value, json};

use super::show::print;

/// Plug-ins: shared objects, and WebAssembly modules.
#[derive(Subcommand)]
pub enum PluginCommand {
    /// List the plug-ins, and those that were left and are still in memory.
    List,
    /// Load a plug-in. If there is one of this name, its policies and engines go on from their
    /// states with the new one. It is tried first: if it cannot be loaded, nothing changes.
    Load(LoadPluginArgs),
    /// Unload a plug-in that no policy and no engine is of.
    Unload(UnloadPluginArgs),
}

/// A plug-in to be loaded.
#[derive(Args, Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoadPluginArgs {
    /// What policies call it.
    name: String,
    /// Its file, as the service sees it. It stays necessary: a process that takes over from the
    /// service loads it again.
    #[arg(value_name = "FILE")]
    path: PathBuf,
}

/// A plug-in to be unloaded.
#[derive(Args, Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UnloadPluginArgs {
    /// What policies call it.
    name: String,
}

impl LoadPluginArgs {
    /// The step that loads it.
    pub fn fill(&self, step: &mut StepMut<'_>) -> Result<(), Failed> {
        let path = absolute(&self.path)?;
        step.load_plugin_mut().set_name(&self.name).set_path(path);
        Ok(())
    }
}

impl UnloadPluginArgs {
    /// The step that unloads it.
    pub fn fill(&self, step: &mut StepMut<'_>) {
        step.unload_plugin_mut().set_name(&self.name);
    }
}

/// The service has another working directory.
fn absolute(path: &Path) -> Result<String, Failed> {
    let wrong = |why: String| {
        Failed::new(format!("{}: {why}", path.display())).with_advice("name a file of this host")
    };
    let path = std::path::absolute(path).map_err(|error| wrong(error.to_string()))?;
    let text = path.to_str().map(str::to_owned);
    text.ok_or_else(|| wrong("the path is not UTF-8".to_owned()))
}

/// Shows or changes the plug-ins.
pub fn run(service: &ServiceArgs, command: &PluginCommand) -> Result<(), Failed> {
    let mut request = ChangeRequest::new();
    let mut edit = request.edit();
    let mut steps = edit.steps_mut();
    match command {
        PluginCommand::List => return list(service),
        PluginCommand::Load(args) => args.fill(&mut steps.add())?,
        PluginCommand::Unload(args) => args.fill(&mut steps.add()),
    }
    service.change(request)
}

fn list(service: &ServiceArgs) -> Result<(), Failed> {
    let request = ListPluginsRequest::new();
    let answer = service.ask(request, |client, request| client.list_plugins(request))?;
    let json = || {
        let plugins: Vec<Value> = answer.plugins().iter().map(plugin_json).collect();
        let left: Vec<Value> = answer.left().iter().map(left_json).collect();
        json!({ "plugins": plugins, "left": left })
    };
    print(service, json, || {
        let plugins = answer.plugins().iter().map(|plugin| {
            let counts = [plugin.version(), plugin.policies(), plugin.engines()];
            let state = "loaded".to_owned();
            row(plugin.name(), &state, counts.map(|count| count.to_string()), plugin.path())
        });
        let none = || ["-", "-", "-"].map(str::to_owned);
        let left = answer.left().iter().map(|one| row(one.name(), state(one), none(), one.path()));
        let rows: Vec<_> = plugins.chain(left).collect();
        table(&["NAME", "STATE", "VERSION", "POLICIES", "ENGINES", "FILE"], &rows)
    })
}

fn row(name: &str, state: &str, counts: [String; 3], path: &str) -> Vec<String> {
    let head = [name.to_owned(), state.to_owned()];
    head.into_iter().chain(counts).chain([path.to_owned()]).collect()
}

/// How one is left in memory.
fn state(left: &LeftPlugin) -> &'static str {
    if left.is_used() { "left, in use" } else { "left, still mapped" }
}

fn plugin_json(plugin: &Plugin) -> Value {
    json!({
        "name": plugin.name(), "file": plugin.path(), "version": plugin.version(),
        "policies": plugin.policies(), "engines": plugin.engines(),
    })
}

fn left_json(left: &LeftPlugin) -> Value {
    json!({ "name": left.name(), "file": left.path(), "is_used": left.is_used() })
}
