//! `petasos ctl transport`: what carries packets between hosts, and how they are handed to it.

use clap::{ArgAction, Args};
use petasos_admin::{ChangeRequest, GetTransportRequest, StepMut};
use petasos_cli::admin::ServiceArgs;
use petasos_cli::failed::Failed;
use serde::Deserialize;
use serde_json::json;

use super::show::print;

/// The arguments of `petasos ctl transport`. Without any, it shows what carries packets.
#[derive(Args, Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TransportArgs {
    /// With `petasosd --transport tcp`: whether a batch of packets is sent in one system call, from
    /// where they lie, or each of its pieces in one of its own
    #[arg(long, value_name = "true|false", action = ArgAction::Set, conflicts_with = "fused")]
    gathered: Option<bool>,
    /// With `petasosd --transport fabric`: whether packets of a batch to one host share messages of
    /// at most 16 KiB, or each has its own
    #[arg(long, value_name = "true|false", action = ArgAction::Set)]
    fused: Option<bool>,
}

impl TransportArgs {
    /// As a step.
    pub fn fill(&self, step: &mut StepMut<'_>) {
        let mut configure = step.configure_transport_mut();
        self.gathered.map(|gathered| configure.set_gathered(gathered).gathered());
        self.fused.map(|fused| configure.set_fused(fused).fused());
    }
}

/// Shows or changes the transport.
pub fn run(service: &ServiceArgs, args: &TransportArgs) -> Result<(), Failed> {
    if args.gathered.is_none() && args.fused.is_none() {
        return show(service);
    }
    let mut request = ChangeRequest::new();
    args.fill(&mut request.edit().steps_mut().add());
    service.change(request)
}

fn show(service: &ServiceArgs) -> Result<(), Failed> {
    let request = GetTransportRequest::new();
    let answer = service.ask(request, |client, request| client.get_transport(request))?;
    let (gathered, fused) = (answer.gathered(), answer.fused());
    let carrier = Some(answer.carrier()).filter(|carrier| !carrier.is_empty());
    let json = || json!({ "carrier": carrier, "gathered": gathered, "fused": fused });
    print(service, json, || {
        let carrier = carrier.unwrap_or("none: the service reaches no other host");
        let switch = |name, is_on: Option<bool>| {
            is_on.map_or(String::new(), |is_on| format!(", {name} {is_on}"))
        };
        format!("{carrier}{}{}\n", switch("gathered", gathered), switch("fused", fused))
    })
}
