//! The command line of programs that run scenarios until the time is over or a rule is broken.
//!
//! Each run prints a line. The first run that breaks a rule ends the program with exit code 1, and
//! prints its seed and the command that replays it.

use core::fmt::Display;
use std::process::ExitCode;

use petasos_base::{Clock, Rng, Time, random_seed};

/// Scenarios that a program can run.
pub struct Scenarios<'a, S, F> {
    /// The program's name, for its usage.
    pub program: &'static str,
    /// The scenarios' names, in the order in which they run.
    pub names: Vec<&'static str>,
    /// Runs the scenario of a name with a seed.
    pub simulate: &'a dyn Fn(&str, u64) -> Result<S, F>,
}

struct Arguments {
    seed: Option<u64>,
    scenario: Option<String>,
    seconds: u64,
}

impl<S: Display, F: Display> Scenarios<'_, S, F> {
    /// Runs what the command line asks for: `[--seed N] [--scenario NAME] [--seconds S]`.
    ///
    /// With a seed: that seed alone, once. Without: a few fixed seeds, then fresh ones for `S`
    /// seconds (default 10).
    pub fn main(&self) -> ExitCode {
        match self.parse(std::env::args().skip(1)) {
            Ok(arguments) if self.run_all(&arguments) => ExitCode::SUCCESS,
            Ok(_) => ExitCode::FAILURE,
            Err(mistake) => {
                let program = self.program;
                let usage = "[--seed N] [--scenario NAME] [--seconds S]";
                eprintln!("{mistake}\nusage: {program} {usage}");
                ExitCode::from(2)
            }
        }
    }

    fn parse(&self, mut words: impl Iterator<Item = String>) -> Result<Arguments, String> {
        let mut arguments = Arguments { seed: None, scenario: None, seconds: 10 };
        while let Some(option) = words.next() {
            let value = words.next().ok_or_else(|| format!("{option} needs a value"))?;
            let number = || value.parse::<u64>().map_err(|_| format!("{value} is not a number"));
            match option.as_str() {
                "--seed" => arguments.seed = Some(number()?),
                "--seconds" => arguments.seconds = number()?,
                "--scenario" if self.names.contains(&value.as_str()) => {
                    arguments.scenario = Some(value);
                }
                "--scenario" => {
                    let names = self.names.join(", ");
                    return Err(format!("no scenario {value}; there are {names}"));
                }
                _ => return Err(format!("no option {option}")),
            }
        }
        Ok(arguments)
    }

    fn run_all(&self, arguments: &Arguments) -> bool {
        if let Some(seed) = arguments.seed {
            return self.run_seed(arguments, seed, Time::NEVER);
        }
        let end = Clock::system().now().plus_nanos(arguments.seconds.saturating_mul(1_000_000_000));
        let mut fresh = Rng::new(random_seed());
        let fresh = core::iter::repeat_with(|| fresh.next_u64() >> 16);
        let mut seeds = [1, 2, 3].into_iter().chain(fresh);
        while Clock::system().now() < end {
            let seed = seeds.next().expect("there are always fresh seeds");
            if !self.run_seed(arguments, seed, end) {
                return false;
            }
        }
        true
    }

    /// Runs the chosen scenarios with one seed, until `end`.
    fn run_seed(&self, arguments: &Arguments, seed: u64, end: Time) -> bool {
        let chosen = |name: &&&str| arguments.scenario.as_deref().is_none_or(|it| it == **name);
        for name in self.names.iter().filter(chosen) {
            let clock = Clock::system();
            let begin = clock.now();
            if begin >= end {
                return true;
            }
            match (self.simulate)(name, seed) {
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
}
