//! Simulates calls and streams under faults until the time is over:
//! `simulate_calls [--seed N] [--scenario NAME] [--seconds S]` (see [`petasos_sim::command_line`]).

use std::process::ExitCode;

use petasos_sim::command_line::Scenarios;

fn main() -> ExitCode {
    let simulate = |name: &str, seed| {
        let scenario = petasos_sim_calls::by_name(name, seed).expect("the name is one of them");
        petasos_sim_calls::simulate(&scenario, seed)
    };
    let names = petasos_sim_calls::names().collect();
    Scenarios { program: "simulate_calls", names, simulate: &simulate }.main()
}
