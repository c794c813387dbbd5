//! Simulates groups under faults until the time is over: `simulate_groups [--seed N]
//! [--scenario NAME] [--seconds S]` (see [`petasos_sim::command_line`]).

use std::process::ExitCode;

use petasos_sim::command_line::Scenarios;
use petasos_sim_groups::Scenario;

fn main() -> ExitCode {
    let simulate = |name: &str, seed| {
        let scenario = Scenario::ALL.iter().find(|scenario| scenario.name == name);
        petasos_sim_groups::simulate(scenario.expect("the name is one of them"), seed)
    };
    let names = Scenario::ALL.iter().map(|scenario| scenario.name).collect();
    Scenarios { program: "simulate_groups", names, simulate: &simulate }.main()
}
