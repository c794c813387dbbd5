//! What operators change.

use clap::Args;
use petasos::message::Message;
use petasos::{Msg, Request, Unary};
use petasos_admin::router as proto;
use petasos_cli::admin::ServiceArgs;
use petasos_cli::failed::Failed;
use petasos_cli::output;
use serde_json::json;

use super::show;

/// The arguments of `petasos ctl router policy`. Without any of them it is shown.
#[derive(Args)]
pub struct PolicyArgs {
    /// How a worker is picked: random, rr, pl2, jsq, or jbsqN, with at most N at a worker at a
    /// time.
    #[arg(value_name = "POLICY")]
    policy: Option<String>,
    /// The most requests of a worker at a time; 0: what it announces.
    #[arg(long, value_name = "N")]
    limit: Option<u32>,
    /// The most requests that wait.
    #[arg(long, value_name = "COUNT")]
    waiting_max: Option<u64>,
    /// Requests that have waited so long are rejected; 0: none are.
    #[arg(long, value_name = "MS")]
    waiting_age_ms: Option<u64>,
}

/// Gives a worker nothing more, or again.
pub fn drain(service: &ServiceArgs, group: &str, worker: u32, undo: bool) -> Result<(), Failed> {
    let mut request = proto::DrainWorkerRequest::new();
    request.edit().set_group(group).set_worker(worker).set_undo(undo);
    change(service, request, |client, request| client.drain_worker(request))
}

/// Sets a worker's weight.
pub fn weigh(service: &ServiceArgs, group: &str, worker: u32, weight: u32) -> Result<(), Failed> {
    let mut request = proto::WeighWorkerRequest::new();
    request.edit().set_group(group).set_worker(worker).set_weight(weight);
    change(service, request, |client, request| client.weigh_worker(request))
}

/// Sets, or shows, how workers are picked and how requests wait.
pub fn policy(service: &ServiceArgs, group: &str, args: &PolicyArgs) -> Result<(), Failed> {
    let PolicyArgs { policy, limit, waiting_max, waiting_age_ms } = args;
    if (policy, limit, waiting_max, waiting_age_ms) == (&None, &None, &None, &None) {
        return show::policy(service, group);
    }
    let mut request = proto::SetPolicyRequest::new();
    let mut edit = request.edit();
    edit.set_group(group);
    if let Some(policy) = policy {
        edit.set_policy(policy);
    }
    if let Some(limit) = limit {
        edit.set_limit(*limit);
    }
    if let Some(most) = waiting_max {
        edit.set_waiting_max(*most);
    }
    if let Some(age) = waiting_age_ms {
        edit.set_waiting_age_us(age.saturating_mul(1000));
    }
    change(service, request, |client, request| client.set_policy(request))
}

/// Has the configuration read again.
pub fn reload(service: &ServiceArgs) -> Result<(), Failed> {
    change(service, proto::ReloadRequest::new(), |client, request| client.reload(request))
}

/// Changes something, and prints what was done.
fn change<Q: Message>(
    service: &ServiceArgs,
    request: Msg<Q>,
    method: impl FnOnce(&proto::RouterClient, Request<Q>) -> Unary<proto::ChangeResponse>,
) -> Result<(), Failed> {
    let response = service.ask_router(request, method)?;
    let lines: Vec<&str> = response.done().iter().map(|line| &**line).collect();
    let text = match service.json {
        true => json!({ "done": lines }).to_string(),
        false => lines.join("\n"),
    };
    Ok(output::answer(text.as_bytes())?)
}
