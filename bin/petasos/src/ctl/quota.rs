//! `petasos ctl quota`: what applications may have at a time.

use clap::{Args, Subcommand};
use petasos_admin::{ChangeRequest, ListQuotasRequest, Quota, QuotaMut};
use petasos_cli::admin::forms::{quota_json, quota_values};
use petasos_cli::admin::{ServiceArgs, table};
use petasos_cli::failed::Failed;
use serde_json::{Value, json};

use super::show::print;

/// Quotas apply to applications that attach later.
#[derive(Subcommand)]
pub enum QuotaCommand {
    /// Show the quotas, and what those that are attached have got.
    Show,
    /// Set a quota. What is not given stays.
    Set(SetArgs),
    /// Remove the quota of a name: it gets what others get.
    Remove {
        /// The name.
        application: String,
    },
}

#[derive(Args)]
pub struct SetArgs {
    /// For applications of this name; for all without a quota of their own, if it is not given.
    #[arg(value_name = "APPLICATION", default_value = "")]
    application: String,
    #[command(flatten)]
    values: Values,
}

/// What is to be set.
#[derive(Args)]
#[group(required = true, multiple = true)]
pub struct Values {
    /// Items in its datapath, and calls.
    #[arg(long, value_name = "N")]
    pub items: Option<u64>,
    /// Bytes of one message.
    #[arg(long, value_name = "BYTES")]
    pub message_bytes: Option<u64>,
    /// Bytes of metadata of one item.
    #[arg(long, value_name = "BYTES")]
    pub metadata_bytes: Option<u64>,
    /// Bytes of messages that the service holds for it.
    #[arg(long, value_name = "BYTES")]
    pub held_bytes: Option<u64>,
    /// Descriptors that wait for room in its ring.
    #[arg(long, value_name = "N")]
    pub descriptors: Option<u64>,
    /// How much of a processor the service works for it, over time, in percent. When that is used
    /// up, it is not heard for a while. 100 or more: all.
    #[arg(long, value_name = "PERCENT")]
    pub processor_percent: Option<f64>,
    /// Calls that it has begun and that have not ended; and those that it was given.
    #[arg(long, value_name = "N")]
    pub calls: Option<u64>,
    /// Bytes of all memory that it ever has to send from.
    #[arg(long, value_name = "BYTES")]
    pub send_heap_bytes: Option<u64>,
    /// Bytes of all memory that it ever has to receive in.
    #[arg(long, value_name = "BYTES")]
    pub receive_heap_bytes: Option<u64>,
}

/// Shows or changes quotas.
pub fn run(service: &ServiceArgs, command: &QuotaCommand) -> Result<(), Failed> {
    let mut request = ChangeRequest::new();
    let mut edit = request.edit();
    let mut steps = edit.steps_mut();
    match command {
        QuotaCommand::Show => return show(service),
        QuotaCommand::Set(SetArgs { application, values }) => {
            let mut step = steps.add();
            let mut set = step.set_quota_mut();
            let mut quota = set.quota_mut();
            quota.set_application(application);
            values.fill(&mut quota);
        }
        QuotaCommand::Remove { application } => {
            steps.add().remove_quota_mut().set_application(application);
        }
    }
    service.change(request)
}

impl Values {
    /// Sets what is given.
    pub fn fill(&self, quota: &mut QuotaMut<'_>) {
        self.items.map(|value| quota.set_items_max(value).items_max());
        self.message_bytes.map(|value| quota.set_message_bytes_max(value).message_bytes_max());
        self.metadata_bytes.map(|value| quota.set_metadata_bytes_max(value).metadata_bytes_max());
        self.held_bytes.map(|value| quota.set_held_bytes_max(value).held_bytes_max());
        self.descriptors.map(|value| quota.set_descriptors_max(value).descriptors_max());
        self.processor_percent.map(|value| quota.set_processor_percent(value).processor_percent());
        self.calls.map(|value| quota.set_calls_max(value).calls_max());
        self.send_heap_bytes.map(|value| quota.set_send_heap_bytes(value).send_heap_bytes());
        self.receive_heap_bytes
            .map(|value| quota.set_receive_heap_bytes(value).receive_heap_bytes());
    }
}

fn show(service: &ServiceArgs) -> Result<(), Failed> {
    let request = ListQuotasRequest::new();
    let answer = service.ask(request, |client, request| client.list_quotas(request))?;
    let attached = answer.attached().iter().filter_map(|one| Some((one.number(), one.quota()?)));
    let json = || {
        let quotas: Vec<Value> = answer.quotas().iter().map(|one| quota_json(one, None)).collect();
        let attached: Vec<Value> =
            attached.clone().map(|(number, one)| quota_json(one, Some(number))).collect();
        json!({ "quotas": quotas, "attached": attached })
    };
    print(service, json, || {
        let set = answer.quotas().iter().map(|one| row(one, "quota".to_owned()));
        let attached = attached.clone().map(|(number, one)| row(one, format!("attached {number}")));
        let rows: Vec<_> = set.chain(attached).collect();
        let head = [
            "WHAT",
            "APPLICATION",
            "ITEMS",
            "MESSAGE BYTES",
            "METADATA BYTES",
            "HELD BYTES",
            "DESCRIPTORS",
            "CALLS",
            "SEND HEAP BYTES",
            "RECEIVE HEAP BYTES",
            "PROCESSOR",
        ];
        table(&head, &rows)
    })
}

fn row(quota: &Quota, what: String) -> Vec<String> {
    let name = if quota.application().is_empty() { "(others)" } else { quota.application() };
    let values = quota_values(quota).map(|value| value.to_string());
    let processor = quota.processor_percent().map_or("-".to_owned(), |share| format!("{share} %"));
    [what, name.to_owned()].into_iter().chain(values).chain([processor]).collect()
}
