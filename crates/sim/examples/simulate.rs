//! Simulates clusters under faults until the time is over:
//! `simulate [--seed N] [--scenario NAME] [--seconds S]` (see [`petasos_sim::command_line`]).

use std::process::ExitCode;

use petasos_sim::cluster;
use petasos_sim::command_line::Scenarios;

fn main() -> ExitCode {
    let simulate = |name: &str, seed| {
        let scenario = cluster::by_name(name, seed).expect("the name is one of them");
        cluster::simulate(&scenario, seed)
    };
    let names = cluster::names().collect();
    Scenarios { program: "simulate", names, simulate: &simulate }.main()
}
