//! `petasos ctl policy`: the rule set.

use clap::{Args, Subcommand};
use petasos_admin::{BudgetMut, ChangeRequest, ListPoliciesRequest, Policy};
use petasos_cli::admin::forms::policy_json;
use petasos_cli::admin::{ServiceArgs, table};
use petasos_cli::failed::Failed;
use serde_json::{Value, json};

use super::configuration;
use super::show::print;

/// The policies that applications get. Changes apply to those that are attached at once; a restart
/// or `petasos ctl reload` brings back what the service's file says.
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
        /// How much of a processor each of its engines may take, over a second.
        #[arg(long, value_name = "PERCENT")]
        budget: Option<f64>,
        #[command(flatten)]
        over: OverArgs,
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
    /// Limit how much of a processor each engine of a policy may take, over a second. Engines that
    /// were taken out come back.
    Budget {
        /// Its ID, as `list` shows it.
        id: u64,
        /// More than 0 and at most 100; without it, engines may take all.
        percent: Option<f64>,
        #[command(flatten)]
        over: OverArgs,
    },
}

/// What happens to an engine that exceeds its budget.
#[derive(Args)]
pub struct OverArgs {
    /// What happens to an engine that takes more: it is reported and goes on (report), or it is
    /// taken out, and then items pass (open) or no calls begin (closed).
    #[arg(long, value_name = "WHAT", default_value = "report")]
    #[arg(value_parser = ["report", "open", "closed"])]
    over: String,
}

impl OverArgs {
    fn fill(&self, mut budget: BudgetMut<'_>, percent: f64) {
        budget.set_percent(percent).set_over(&self.over);
    }
}

/// Shows or changes the rule set.
pub fn run(service: &ServiceArgs, command: &PolicyCommand) -> Result<(), Failed> {
    let mut request = ChangeRequest::new();
    let mut edit = request.edit();
    let mut steps = edit.steps_mut();
    match command {
        PolicyCommand::List => return list(service),
        PolicyCommand::Add { application, kind, config, at, budget, over } => {
            let configuration = configuration(config)?;
            let mut step = steps.add();
            let mut add = step.add_policy_mut();
            add.set_application(application).set_kind(kind).set_configuration(configuration);
            if let Some(index) = at {
                add.set_index(*index);
            }
            if let Some(percent) = budget {
                over.fill(add.budget_mut(), *percent);
            }
        }
        PolicyCommand::Remove { id } => {
            steps.add().remove_policy_mut().set_id(*id);
        }
        PolicyCommand::Configure { id, config } => {
            let configuration = configuration(config)?;
            steps.add().configure_policy_mut().set_id(*id).set_configuration(configuration);
        }
        PolicyCommand::Budget { id, percent, over } => {
            let mut step = steps.add();
            let mut set = step.set_budget_mut();
            set.set_id(*id);
            if let Some(percent) = percent {
                over.fill(set.budget_mut(), *percent);
            }
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
        // Few have budgets.
        let has_budgets = policies.iter().any(|policy| policy.budget().is_some());
        let row = |policy: &Policy| {
            let mut row = vec![
                policy.id().to_string(),
                policy.application().to_owned(),
                policy.kind().to_owned(),
                policy.datapaths().to_string(),
                policy.configuration().to_owned(),
            ];
            let budget = policy.budget();
            let budget = budget.map(|of| format!("{} %, then {}", of.percent(), of.over()));
            row.extend(has_budgets.then(|| budget.unwrap_or_else(|| "-".to_owned())));
            row
        };
        let rows: Vec<_> = policies.iter().map(row).collect();
        let mut head = vec!["ID", "APPLICATION", "KIND", "DATAPATHS", "CONFIGURATION"];
        head.extend(has_budgets.then_some("BUDGET"));
        table(&head, &rows)
    })
}
