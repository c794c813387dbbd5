//! `petasos bench router`: requests that a router gives to workers, as the R2P2 paper measures
//! them, beside direct calls and proxies of other people.
//!
//! The router is the program that users run, and calls and workers are typed. What they are
//! compared with is started by this program, too, and ends with it.
//!
//! - A figure is a module of its own, which starts what it needs (`programs`), measures it in turns
//!   and makes a report.
//! - `open_loop` has the points of curves, and `sleeping` workers whose service times are slept.
//! - A part (`part`) is a process of this program with workers.

mod args;
mod bare;
mod changes;
mod client;
mod closed;
mod curves;
mod http;
mod kill;
mod link;
mod loss;
mod messages;
mod model;
mod open_loop;
mod operator;
mod part;
mod part_args;
mod plane;
mod policies;
mod pool;
mod programs;
mod redis;
mod search;
mod side;
mod sleeping;
mod team;
mod turns;
mod uniform;
mod workers;

pub use args::RouterArgs;
pub use part::be_part;
pub use part_args::PartArgs;

use args::FigureId;
use policies::Setting;

use crate::error::BenchError;
use crate::network;
use crate::turns::pin;

/// Measures a figure.
///
/// # Errors
/// If it cannot be measured, or its results cannot be written.
pub fn run(args: &RouterArgs) -> Result<(), BenchError> {
    args.check()?;
    pin(programs::CLIENT_CORE);
    if args.leaves_host() {
        network::leave_host()?;
    }
    let mut report = match args.figure {
        FigureId::Model => model::run(args)?,
        FigureId::Kill => kill::run(args)?,
        FigureId::Changes => changes::run(args)?,
        FigureId::Loss => loss::run(args)?,
        FigureId::Planes => closed::run(args, &closed::Setting::planes(args))?,
        FigureId::Goodput => closed::run(args, &closed::Setting::figure_4(args))?,
        FigureId::Echo => closed::run(args, &closed::Setting::figure_5(args))?,
        FigureId::Packets => closed::run(args, &closed::Setting::figure_8(args))?,
        FigureId::Policies => policies::run(args, &Setting::figure_6(args))?,
        FigureId::Bounds => policies::run(args, &Setting::figure_7(args))?,
        FigureId::Redis => redis::run(args)?,
        FigureId::OneServer => policies::run(args, &Setting::figure_9(args))?,
        FigureId::Search => search::run(args)?,
    };
    uniform::complete(&mut report);
    report.publish(&args.wanted)
}
