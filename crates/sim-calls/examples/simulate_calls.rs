//! Calls and streams under faults, until time is up:
//! `simulate_calls [--seed N] [--scenario NAME] [--seconds S]`.
//!
//! With a seed: that seed alone, once. Without: a few fixed seeds, then fresh ones for `S` seconds
//! (10 unless told). Each run prints a line; the first that breaks a rule ends with exit code 1,
//! its seed, and the command that replays it.

use std::process::ExitCode;

use petasos_base::{Clock, Rng, Time, random_seed};
use petasos_sim_calls as sim;

struct Arguments {
    seed: Option<u64>,
    scenario: Option<String>,
    seconds: u64,
}

fn main() -> ExitCode {
    let arguments = match parse(std::env::args().skip(1)) {
        Ok(arguments) => arguments,
        Err(mistake) => {
            eprintln!(
                "{mistake}\nusage: simulate_calls [--seed N] [--scenario NAME] [--seconds S]"
            );
            return ExitCode::from(2);
        }
    };
    if run_all(&arguments) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn parse(mut words: impl Iterator<Item = String>) -> Result<Arguments, String> {
    let mut arguments = Arguments { seed: None, scenario: None, seconds: 10 };
    while let Some(option) = words.next() {
        let value = words.next().ok_or_else(|| format!("{option} needs a value"))?;
        let number = || value.parse::<u64>().map_err(|_| format!("{value} is not a number"));
        match option.as_str() {
            "--seed" => arguments.seed = Some(number()?),
            "--seconds" => arguments.seconds = number()?,
            "--scenario" if sim::names().any(|name| name == value) => {
                arguments.scenario = Some(value);
            }
            "--scenario" => {
                let names: Vec<_> = sim::names().collect();
                return Err(format!("no scenario {value}; there are {}", names.join(", ")));
            }
            _ => return Err(format!("no option {option}")),
        }
    }
    Ok(arguments)
}

fn run_all(arguments: &Arguments) -> bool {
    if let Some(seed) = arguments.seed {
        return run_seed(arguments, seed, Time::NEVER);
    }
    let end = Clock::system().now().plus_nanos(arguments.seconds * 1_000_000_000);
    let mut fresh = Rng::new(random_seed());
    let fresh = core::iter::repeat_with(|| fresh.next_u64() >> 16);
    let mut seeds = [1, 2, 3].into_iter().chain(fresh);
    while Clock::system().now() < end {
        let seed = seeds.next().expect("there are always fresh seeds");
        if !run_seed(arguments, seed, end) {
            return false;
        }
    }
    true
}

/// Runs the chosen scenarios with one seed, until `end`.
fn run_seed(arguments: &Arguments, seed: u64, end: Time) -> bool {
    let chosen = |name: &&str| arguments.scenario.as_deref().is_none_or(|wanted| wanted == *name);
    for name in sim::names().filter(chosen) {
        let clock = Clock::system();
        let begin = clock.now();
        if begin >= end {
            return true;
        }
        let scenario = sim::by_name(name, seed).expect("the name is one of them");
        match sim::simulate(&scenario, seed) {
            Ok(summary) => {
                let seconds = clock.now().nanos_since(begin) as f64 / 1e9;
                println!("{name} seed={seed}: {summary} in {seconds:.2} s");
            }
            Err(failure) => {
                eprintln!("{failure}");
                return false;
            }
        }
    }
    true
}
