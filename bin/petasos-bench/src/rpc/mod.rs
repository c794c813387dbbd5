//! `petasos bench rpc`: typed calls against another RPC system, in the same run.
//!
//! A contender is a pair of processes, a client and a server, each pinned to a core: Petasos, the
//! peer, and the floor. They take turns of 100 ms, one contender at a time; the others sleep. Each
//! round measures every phase with every contender. The reported ratios are medians of the rounds'
//! ratios. The parent only gives commands (`process`, `child`).

mod all;
pub mod answers;
pub mod args;
mod blocking;
mod certificates;
pub mod child;
pub mod direct;
pub mod ends;
mod floor;
mod grpc;
pub mod looped;
mod outcome;
pub mod pace;
pub mod phase;
pub mod process;
pub mod program;
mod role;
mod rounds;
mod stage;
pub mod stop;
pub mod tally;
pub mod tonic;
mod tonic_answers;
mod tonic_codec;
pub mod tonic_routes;
mod tonic_streams;
pub mod typed;
pub mod typed_messages;
mod typed_streams;

pub use args::RpcArgs;

use super::publish;
use crate::error::BenchError;
use args::Carrier;
use outcome::Outcome;
use role::Peer;

/// Runs the measurement, or one process of it.
pub fn run(args: &RpcArgs) -> Result<(), BenchError> {
    if let Some(role) = args.role {
        return child::run(args, role);
    }
    if args.streaming && args.peer == Peer::PetasosDirect {
        return Err("the raw endpoint has no streams; compare with tonic or petasos-grpc".into());
    }
    if args.tls && args.transport == Carrier::Auto {
        return Err("packets in shared memory are not sealed; leave --transport out".into());
    }
    if args.figure.is_some() && args.peer != Peer::All {
        return Err("--figure is for --peer all".into());
    }
    if args.peer.program().is_some() || args.peer == Peer::All {
        refuse_own_options(args)?;
    }
    if args.peer == Peer::All {
        return all::run(args);
    }
    let rounds = rounds::run(args)?;
    let outcome = Outcome::new(args, &rounds);
    let to = (args.json.as_deref(), args.print_json);
    publish::publish(to, &outcome.json(), || outcome.print())
}

/// Checks the options: separate programs support only sizes and a window.
fn refuse_own_options(args: &RpcArgs) -> Result<(), BenchError> {
    let own = [
        ("--streaming", args.streaming),
        ("--tls", args.tls),
        ("--peer-awake", args.peer_awake),
        ("--transport auto", args.transport == Carrier::Auto),
    ];
    match own.iter().find(|(_, is_set)| *is_set) {
        Some((option, _)) => Err(format!("{option} is not for --peer {}", args.peer.name()).into()),
        None => Ok(()),
    }
}
