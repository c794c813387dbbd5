//! `petasos-router`: the router of groups of workers, as a process.
//!
//! Clients attach and workers join at a group's address; requests come to another port, and go to
//! the worker that the policy picks. A group is given by options, or several by a file. Operators
//! see and change groups while calls run, at a socket of theirs (`petasos ctl router`). Or it only
//! holds the programs of such processes while they are replaced.

mod admin;
mod admin_options;
mod configuration;
mod groups;
mod holder;
mod listing;
mod notices;
mod plane_options;
mod program;
mod running;
mod said;
mod security;
mod signals;
mod takeover;

use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;
use petasos_operator::notify;

use admin::Desk;
use configuration::{Configuration, Options, at_any_ports};
use groups::Groups;
use running::Group;
use said::say;
use signals::Signals;

fn main() -> ExitCode {
    let options = Options::parse();
    match run(options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("petasos-router: {message}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: Options) -> Result<(), String> {
    if let Some(path) = options.holds_at() {
        return holder::hold(path);
    }
    let configuration = options.read().map_err(|error| error.to_string())?;
    if options.is_check() {
        return check(options, configuration);
    }
    let signals = Signals::listen()?;
    let groups = Arc::new(Groups::start(options, configuration)?);
    let desk = Desk::open(&groups)?;
    groups.running().iter().for_each(|group| say(&group.line()));
    notify::ready();
    let done = signals.serve(&groups, &desk);
    // Operators are told nothing of groups that end.
    drop(desk);
    if done.is_ok() {
        groups.end();
    }
    done
}

/// Starts all of it at other ports, and ends.
fn check(options: Options, configuration: Configuration) -> Result<(), String> {
    admin::check(&configuration.admin)?;
    for group in &configuration.groups {
        Group::try_out(group)?;
    }
    let groups: Vec<_> = configuration.groups.iter().map(at_any_ports).collect();
    let text = match groups.len() {
        1 => "1 group".to_owned(),
        count => format!("{count} groups"),
    };
    Groups::start(options, Configuration { groups, ..configuration })?.end();
    say(&format!("{text}, all right"));
    Ok(())
}
