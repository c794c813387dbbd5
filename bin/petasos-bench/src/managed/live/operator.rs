//! An operator: changes a running service through its control plane, as `petasos ctl` does.

use std::path::Path;
use std::time::Duration;

use petasos::{Channel, Request, block_on};
use petasos_admin::{AdminClient, ChangeRequest, ListSchemasRequest, StepMut};

use super::clock::now_ns;
use crate::error::BenchError;

/// How long the service may take.
const TIMEOUT: Duration = Duration::from_secs(15);
/// A name that no application has. Its quota applies to nobody.
const NOBODY: &str = "nobody";

/// A connection to a service's control plane.
pub struct Operator {
    client: AdminClient,
    /// The application that is changed.
    application: &'static str,
}

/// When a change was asked for, and when the answer came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    pub asked_ns: u64,
    pub answered_ns: u64,
}

/// A change of an engine of the application, or of what its packets go by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change<'a> {
    /// Places one next to the application.
    Attach {
        kind: &'a str,
        configuration: &'a str,
    },
    Detach {
        kind: &'a str,
    },
    Move {
        kind: &'a str,
        to: u32,
    },
    Configure {
        kind: &'a str,
        configuration: &'a str,
    },
    Upgrade {
        kind: &'a str,
    },
    /// Has packets between hosts sent in one system call for a batch, or in one for each piece.
    Transport {
        gathered: bool,
    },
    /// Lets packets between hosts share messages of a fabric, or not.
    Fusing {
        fused: bool,
    },
    /// Goes the same way, and changes no datapath.
    Sham,
}

impl Operator {
    /// Connects to the service at a socket, to change the engines of an application.
    ///
    /// # Errors
    /// If nobody listens there, or this user may not.
    pub fn connect(socket: &Path, application: &'static str) -> Result<Operator, BenchError> {
        let target = format!("grpc+unix://{}", socket.display());
        let channel = Channel::builder(&target).connect_timeout(TIMEOUT).timeout(TIMEOUT);
        Ok(Operator { client: AdminClient::new(block_on(channel.connect())?), application })
    }

    /// Changes something.
    ///
    /// # Errors
    /// If the service does not do it.
    pub fn change(&self, change: Change<'_>) -> Result<Done, BenchError> {
        let mut request = ChangeRequest::new();
        self.fill(request.edit().steps_mut().add(), change);
        let asked_ns = now_ns();
        let answer = block_on(self.client.change(Request::new(request)));
        let answered_ns = now_ns();
        answer.map_err(|status| format!("a change is refused: {status}"))?;
        Ok(Done { asked_ns, answered_ns })
    }

    fn fill(&self, mut step: StepMut<'_>, change: Change<'_>) {
        let of = self.application;
        match change {
            Change::Attach { kind, configuration } => {
                let mut step = step.attach_engine_mut();
                step.set_application(of).set_kind(kind).set_configuration(configuration);
                step.set_place(0);
            }
            Change::Detach { kind } => {
                step.detach_engine_mut().engine_mut().set_application(of).set_kind(kind);
            }
            Change::Move { kind, to } => {
                let mut step = step.move_engine_mut();
                step.set_to(to);
                step.engine_mut().set_application(of).set_kind(kind);
            }
            Change::Configure { kind, configuration } => {
                let mut step = step.configure_engine_mut();
                step.set_configuration(configuration);
                step.engine_mut().set_application(of).set_kind(kind);
            }
            Change::Upgrade { kind } => {
                step.upgrade_engine_mut().engine_mut().set_application(of).set_kind(kind);
            }
            Change::Transport { gathered } => {
                step.configure_transport_mut().set_gathered(gathered);
            }
            Change::Fusing { fused } => {
                step.configure_transport_mut().set_fused(fused);
            }
            Change::Sham => {
                step.set_quota_mut().quota_mut().set_application(NOBODY).set_items_max(1000);
            }
        }
    }

    /// Bytes of all schemas that the service knows.
    ///
    /// # Errors
    /// If the service does not answer.
    pub fn schema_bytes(&self) -> Result<u64, BenchError> {
        let answer = block_on(self.client.list_schemas(ListSchemasRequest::new()));
        Ok(answer.map_err(|status| status.to_string())?.bytes())
    }
}
