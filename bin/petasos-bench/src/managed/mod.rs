//! `petasos bench managed`: calls through a service on each host, as the mRPC paper measures them,
//! beside gRPC with sidecars, and beside the least that four processes can take (`relay`).
//!
//! A contender is a team of processes: a client and a server, which answer the lines of
//! [`rpc::child`](crate::rpc), and what stands between them. The client's host is core 0 and the
//! server's is core 1. Contenders take turns within one run, and the reported ratios are medians of
//! the ratios of the same rounds.
//!
//! - A figure (`figures`) is a description: sizes, windows, turns and seconds.
//! - A contender (`contenders`) is an entry of a list, with a function that starts its team.
//! - `measure` runs any figure with any contenders, and knows neither.
//! - An experiment (`live`) is no figure of rounds: policies are changed while calls run.
//!
//! No process outlives the measurement, however it ends: parts end with their standard input, and
//! the kernel ends a launched program with its parent.

mod args;
mod contender;
mod contenders;
mod experiments;
mod figures;
pub mod folder;
mod hotel;
mod idle;
pub mod launch;
mod live;
mod measure;
mod messages;
mod models;
mod outcome;
mod part;
mod part_args;
mod picture;
mod policies;
mod proxy;
mod quantity;
mod relay;
mod service;
mod shape;
pub mod sidecars;
mod team;
mod threads;
mod waiting;
mod what;

pub use args::ManagedArgs;
pub use launch::{LaunchArgs, launch};
pub use part::be_part;
pub use part_args::PartArgs;

use crate::error::BenchError;
use crate::publish;
use outcome::Outcome;
use what::What;

/// Measures a figure, or shows the contenders' configurations.
pub fn run(args: &ManagedArgs) -> Result<(), BenchError> {
    if args.show_config {
        let all = contenders::names();
        return contenders::show(&contenders::chosen(&args.contenders, &all)?);
    }
    let what = args.figure.ok_or("name a figure with --figure")?;
    args.check(what)?;
    let figure = match what {
        What::Figure(id) => id.description(),
        What::Experiment(id) => return live::run(args, id),
    };
    let chosen = contenders::chosen(&args.contenders, figure.contenders)?;
    let measured = measure::run(args, &figure, &chosen)?;
    let outcome = Outcome::new(args, &figure, &measured);
    if let Some(path) = args.wanted.picture.as_deref() {
        petasos_report::write_atomically(path, picture::draw(&figure, &measured).as_bytes())?;
        crate::rpc::program::draw_png(path)?;
    }
    let to = (args.wanted.json.as_deref(), args.wanted.print_json);
    publish::publish(to, &outcome.json(), || outcome.print())
}
