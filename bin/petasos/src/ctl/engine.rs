//! `petasos ctl engine`: the engines of an application.

use clap::{Args, Subcommand};
use petasos_admin::{ChangeRequest, EngineAtMut};
use petasos_cli::admin::ServiceArgs;
use petasos_cli::failed::Failed;

use super::configuration;

/// What is to happen to an engine. Calls go on meanwhile.
#[derive(Subcommand)]
pub enum EngineCommand {
    /// Place an engine of a policy of its own.
    Attach(AttachArgs),
    /// Take an engine out. What it holds goes on to the next one.
    Detach(EngineArgs),
    /// Move an engine to another place.
    Move {
        #[command(flatten)]
        engine: EngineArgs,
        /// Its place then.
        #[arg(value_name = "TO")]
        to: u32,
    },
    /// Give an engine another configuration; its state stays.
    Configure {
        #[command(flatten)]
        engine: EngineArgs,
        /// The configuration: JSON, or @FILE.
        #[arg(value_name = "JSON")]
        config: String,
    },
    /// Make an engine anew, of the version that the service has; its state stays.
    Upgrade(EngineArgs),
}

#[derive(Args)]
pub struct AttachArgs {
    /// The application: its name, or its number.
    application: String,
    /// The kind of policy; `petasos ctl kinds` lists them.
    kind: String,
    /// The configuration: JSON, or @FILE.
    #[arg(value_name = "JSON", default_value = "{}")]
    config: String,
    /// Before the engine that is at this place now; 0 is next to the application. Behind all
    /// without it.
    #[arg(long, value_name = "PLACE")]
    at: Option<u32>,
}

#[derive(Args)]
pub struct EngineArgs {
    /// The application: its name, or its number.
    application: String,
    /// The engine: its place, its kind, or PLACE:KIND, which must both be right.
    engine: String,
}

/// Changes an engine.
pub fn run(service: &ServiceArgs, command: &EngineCommand) -> Result<(), Failed> {
    let mut request = ChangeRequest::new();
    let mut edit = request.edit();
    let mut steps = edit.steps_mut();
    let mut step = steps.add();
    match command {
        EngineCommand::Attach(args) => {
            let configuration = configuration(&args.config)?;
            let mut attach = step.attach_engine_mut();
            attach.set_application(&args.application).set_kind(&args.kind);
            attach.set_configuration(configuration);
            if let Some(place) = args.at {
                attach.set_place(place);
            }
        }
        EngineCommand::Detach(args) => args.fill(&mut step.detach_engine_mut().engine_mut()),
        EngineCommand::Move { engine, to } => {
            let mut step = step.move_engine_mut();
            step.set_to(*to);
            engine.fill(&mut step.engine_mut());
        }
        EngineCommand::Configure { engine, config } => {
            let mut step = step.configure_engine_mut();
            step.set_configuration(configuration(config)?);
            engine.fill(&mut step.engine_mut());
        }
        EngineCommand::Upgrade(args) => args.fill(&mut step.upgrade_engine_mut().engine_mut()),
    }
    service.change(request)
}

impl EngineArgs {
    fn fill(&self, at: &mut EngineAtMut<'_>) {
        at.set_application(&self.application);
        let (place, kind) = match self.engine.split_once(':') {
            Some((place, kind)) => (place.parse().ok(), kind),
            None => match self.engine.parse() {
                Ok(place) => (Some(place), ""),
                Err(_) => (None, &*self.engine),
            },
        };
        at.set_kind(kind);
        if let Some(place) = place {
            at.set_place(place);
        }
    }
}
