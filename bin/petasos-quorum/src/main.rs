//! What `petasos quorum` runs: a member of a group that keeps a table of keys and values, and
//! commands that ask a group.
//!
//! Exit status: 0 if the command succeeded; 1 if it failed, which includes a key that has no item
//! (one line on standard error says why and what to do); 2 if the command line is invalid.
//!
//! Boundary rule: joins `petasos-quorum` with files, sockets, threads and the command line; decides
//! nothing about entries.

mod ask;
mod client;
mod data;
mod etcd;
mod join;
mod keeps;
mod operate;
mod serve;
mod status;
mod watch;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use petasos_cli::output;

/// A table that a group of members keeps: a member, and commands that ask a group.
#[derive(Parser)]
#[command(
    name = "petasos quorum",
    bin_name = "petasos quorum",
    version,
    arg_required_else_help = true
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Make the directory of a new group's first member.
    Init(data::InitArgs),
    /// Run a member.
    Serve(Box<serve::ServeArgs>),
    /// Store a value under a key.
    Put(ask::PutArgs),
    /// Print the value of a key.
    Get(ask::GetArgs),
    /// Delete a key's item.
    Delete(ask::DeleteArgs),
    /// Print keys and values in the order of the keys.
    Range(ask::RangeArgs),
    /// Print changes as they happen, of a group that keeps etcd's model.
    Watch(watch::WatchArgs),
    /// Grant, renew, end or look at a lease, of a group that keeps etcd's model.
    Lease(watch::LeaseArgs),
    /// Print what each member says of itself.
    Status(status::StatusArgs),
    /// Change who belongs to the group.
    Member(operate::MemberArgs),
    /// Have the leader hand over to another member.
    Transfer(operate::TransferArgs),
    /// Have a member write a snapshot now.
    Snapshot(operate::SnapshotArgs),
    /// Check that all members have the same state.
    Compare(operate::CompareArgs),
    /// Check the directory of a member that does not run.
    Verify(data::VerifyArgs),
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Init(args) => data::init(&args),
        Command::Serve(args) => serve::run(&args),
        Command::Put(args) => ask::put(&args),
        Command::Get(args) => ask::get(&args),
        Command::Delete(args) => ask::delete(&args),
        Command::Range(args) => ask::range(&args),
        Command::Watch(args) => watch::watch(&args),
        Command::Lease(args) => watch::lease(&args),
        Command::Status(args) => status::run(&args),
        Command::Member(args) => operate::member(&args),
        Command::Transfer(args) => operate::transfer(&args),
        Command::Snapshot(args) => operate::snapshot(&args),
        Command::Compare(args) => operate::compare(&args),
        Command::Verify(args) => data::verify(&args),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            output::note(&format!("petasos: {failure}"));
            ExitCode::FAILURE
        }
    }
}
