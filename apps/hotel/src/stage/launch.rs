//! How programs are started: this program becomes them, after it has taken their place.

use std::ffi::OsString;
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::process::Command;

use clap::Args;
use nix::sched::{CloneFlags, setns, unshare};
use nix::unistd::{User, setgid, setgroups, setuid};
use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};

use crate::error::Error;

/// Become a program that ends with its parent (internal)
#[derive(Args, Clone, Debug)]
pub struct LaunchArgs {
    /// The process that has started this one
    #[arg(long)]
    parent: i32,
    /// Enter the network namespace of this process
    #[arg(long)]
    network_of: Option<u32>,
    /// Make a network namespace
    #[arg(long, conflicts_with = "network_of")]
    own_network: bool,
    /// Become this user
    #[arg(long)]
    user: Option<String>,
    /// The program and its arguments
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

fn failed(what: &str, error: impl std::fmt::Display) -> Error {
    Error::internal(format!("{what}: {error}"))
}

/// Becomes the program. Returns only if that is not possible.
///
/// # Errors
/// The parent has ended, or the system refuses.
pub fn launch(args: &LaunchArgs) -> Result<(), Error> {
    if let Some(process) = args.network_of {
        let namespace = File::open(format!("/proc/{process}/ns/net"));
        let namespace = namespace.map_err(|error| failed("the host has ended", error))?;
        setns(namespace, CloneFlags::CLONE_NEWNET)
            .map_err(|error| failed("cannot enter the host", error))?;
    }
    if args.own_network {
        leave_network()?;
    }
    if let Some(name) = &args.user {
        become_user(name)?;
    }
    // Only now: a change of user takes this back.
    set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(|error| failed("cannot end with the parent", error))?;
    // If it ended before, nobody would say so.
    if getppid().map(Pid::as_raw_pid) != Some(args.parent) {
        return Err(Error::internal("the parent has ended"));
    }
    let (program, arguments) = args.command.split_first().expect("clap requires one");
    let error = Command::new(program).args(arguments).exec();
    Err(failed(&program.to_string_lossy(), error))
}

/// Moves this thread, and what it starts later, into a new network namespace.
///
/// # Errors
/// The system refuses: that needs root.
pub fn leave_network() -> Result<(), Error> {
    unshare(CloneFlags::CLONE_NEWNET)
        .map_err(|error| failed("cannot make a network namespace, which needs root", error))
}

fn become_user(name: &str) -> Result<(), Error> {
    let user = User::from_name(name).ok().flatten();
    let user = user.ok_or_else(|| Error::internal(format!("there is no user `{name}`")))?;
    setgroups(&[user.gid])
        .and_then(|()| setgid(user.gid))
        .and_then(|()| setuid(user.uid))
        .map_err(|error| failed(&format!("cannot become `{name}`"), error))
}
