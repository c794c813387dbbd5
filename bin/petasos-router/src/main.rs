//! `petasos-router`: the router of groups of workers, as a process.
//!
//! Clients attach and workers join at a group's address; requests come to another port, and go to
//! the worker that the policy picks. A group is given by options, or several by a file.

mod configuration;
mod running;
mod said;
mod security;

use std::process::ExitCode;

use clap::Parser;

use configuration::Options;
use running::Running;
use said::say;

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
    let (is_check, drain) = (options.check, options.drain());
    let groups = options.groups().map_err(|error| error.to_string())?;
    let running = Running::start(&groups)?;
    if is_check {
        let groups = match groups.len() {
            1 => "1 group".to_owned(),
            count => format!("{count} groups"),
        };
        say(&format!("{groups}, all right"));
        return Ok(());
    }
    running.lines().for_each(|line| say(&line));
    running.until_asked_to_end(drain)
}
