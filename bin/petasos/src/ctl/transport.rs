//! `petasos ctl transport`: how packets are handed to what carries them between hosts.

use clap::{ArgAction, Args};
use petasos_admin::ChangeRequest;

use super::ServiceArgs;
use petasos_cli::failed::Failed;

/// The arguments of `petasos ctl transport`.
#[derive(Args)]
pub struct TransportArgs {
    /// With `petasosd --transport tcp`: whether a batch of packets is sent in one system call, from
    /// where they lie, or each of its pieces in one of its own.
    #[arg(long, value_name = "true|false", action = ArgAction::Set)]
    gathered: bool,
}

/// Changes the transport.
pub fn run(service: &ServiceArgs, args: &TransportArgs) -> Result<(), Failed> {
    let mut request = ChangeRequest::new();
    let mut edit = request.edit();
    edit.steps_mut().add().configure_transport_mut().set_gathered(args.gathered);
    service.change(request)
}
