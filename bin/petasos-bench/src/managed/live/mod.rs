//! Experiments in which something happens while calls run, or before the first: changes of
//! policies and of the transport, a neighbour with long messages, the binding of a schema; and a
//! whole application.
//!
//! Contenders do not take part in rounds here. Each experiment starts what it needs (`stage`),
//! changes it through the service's control plane (`operator`), and makes a report.

mod bind;
mod binder;
mod changes;
mod clock;
mod fusing;
mod hostile;
mod hotel;
mod interval;
mod intruder;
mod limit;
mod numbered;
mod operator;
mod qos;
mod stage;
mod stages;
mod tensors;
mod transport;

pub use binder::{Binder, Nobody};
pub use intruder::intrude;
pub use numbered::{NumberedClient, NumberedServer};
pub use tensors::{TensorClient, server as tensor_server};

use super::args::ManagedArgs;
use super::experiments::ExperimentId;
use crate::error::BenchError;

/// Changes of each kind, unless the user says otherwise.
const CHANGES: usize = 1000;

/// Runs an experiment, and publishes what it reports.
///
/// # Errors
/// If it cannot be done, or its results cannot be written.
pub fn run(args: &ManagedArgs, id: ExperimentId) -> Result<(), BenchError> {
    let seconds = args.seconds.unwrap_or(id.seconds());
    let report = match id {
        ExperimentId::Transport => transport::run(seconds)?,
        ExperimentId::Limit => limit::run(seconds)?,
        ExperimentId::Changes => changes::run(args.changes.unwrap_or(CHANGES), seconds)?,
        ExperimentId::Bind => bind::run(seconds)?,
        ExperimentId::Fusing => fusing::run(&args.points, args.turn_ms, seconds)?,
        ExperimentId::Table4 => qos::run(args.turn_ms, seconds)?,
        ExperimentId::Hostile => hostile::run(args.turn_ms, seconds)?,
        ExperimentId::HotelMean => hotel::run(&hotel::MEAN, args.turn_ms, seconds)?,
        ExperimentId::HotelTail => hotel::run(&hotel::TAIL, args.turn_ms, seconds)?,
        ExperimentId::HotelMeanAlone => hotel::run(&hotel::MEAN_ALONE, args.turn_ms, seconds)?,
        ExperimentId::HotelTailAlone => hotel::run(&hotel::TAIL_ALONE, args.turn_ms, seconds)?,
    };
    report.publish(&args.wanted)
}
