//! `petasos ctl policy`: the rule set.

use clap::Subcommand;
use petasos_admin::{ChangeRequest, ListPoliciesRequest, Policy};
use petasos_cli::admin::forms::policy_json;
use petasos_cli::admin::{ServiceArgs, table};
use petasos_cli::failed::Failed;
use serde_json::{Value, json};

use super::configuration;
use super::show::print;

/// The policies that applications get. Changes apply to those that are attached at once; a restart
/// or a reload of the service brings back what its file says.
#[derive(Subcommand)]
pub enum PolicyCommand {
    /// List the policies, in order: engines of the first are next to applications.
    List,
    /// Add a policy.
    Add {
        /// The name of applications, or `*` for all.
        application: String,
        /// The kind of policy; `petasos ctl kinds` lists them.
        kind: String,
        /// The configuration: JSON, or @FILE.
        #[arg(value_name = "JSON", default_value = "{}")]
        config: String,
        /// Before the policy at this place of the list, which begins with 0. Behind all without it.
        #[arg(long, value_name = "INDEX")]
        at: Option<u32>,
    },
    /// Remove a policy.
    Remove {
        /// Its ID, as `list` shows it.
        id: u64,
    },
    /// Give a policy another configuration; its state stays.
    Configure {
        /// Its ID, as `list` shows it.
        id: u64,
        /// The configuration: JSON, or @FILE.
        #[arg(value_name = "JSON")]
        config: String,
    },
    /// Have the service read its file of policies again. If that is wrong, nothing changes.
    Reload,
}

/// Shows or changes the rule set.
pub fn run(service: &ServiceArgs, command: &PolicyCommand) -> Result<(), Failed> {
    let mut request = ChangeRequest::new();
    let mut edit = request.edit();
    let mut steps = edit.steps_mut();
    match command {
        PolicyCommand::List => return list(service),
        PolicyCommand::Add { application, kind, config, at } => {
            let configuration = configuration(config)?;
            let mut step = steps.add();
            let mut add = step.add_policy_mut();
            add.set_application(application).set_kind(kind).set_configuration(configuration);
            if let Some(index) = at {
                add.set_index(*index);
            }
        }
        PolicyCommand::Remove { id } => {
            steps.add().remove_policy_mut().set_id(*id);
        }
        PolicyCommand::Configure { id, config } => {
            let configuration = configuration(config)?;
            steps.add().configure_policy_mut().set_id(*id).set_configuration(configuration);
        }
        PolicyCommand::Reload => {
            steps.add().reload_policies_mut();
        }
    }
    service.change(request)
}

fn list(service: &ServiceArgs) -> Result<(), Failed> {
    let request = ListPoliciesRequest::new();
    let answer = service.ask(request, |client, request| client.list_policies(request))?;
    let policies = answer.policies();
    let json = || {
        let policies: Vec<Value> = policies.iter().map(policy_json).collect();
        json!({ "file": Some(answer.file()).filter(|file| !file.is_empty()), "policies": policies })
    };
    print(service, json, || {
        let row = |policy: &Policy| {
            vec![
                policy.id().to_string(),
                policy.application().to_owned(),
                policy.kind().to_owned(),
                policy.datapaths().to_string(),
                policy.configuration().to_owned(),
            ]
        };
        let rows: Vec<_> = policies.iter().map(row).collect();
        table(&["ID", "APPLICATION", "KIND", "DATAPATHS", "CONFIGURATION"], &rows)
    })
}
