//! Instructions per RPC, counted by callgrind.
//!
//! One program runs a client and a server over the in-memory backend, on a virtual clock, for as
//! many RPCs as its argument says. It is run twice with different lengths. The difference of the
//! totals, divided by the difference of the lengths, is the cost of one RPC without the cost of
//! starting and stopping. The count does not depend on the machine's speed or load, so even a small
//! growth is real, and CI can reject it.

mod engine;
mod kv;
mod record;
mod routed;
mod router;
mod service;
mod typed;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::{TaskResult, target_folder, tools};
pub use engine::run as run_engine;
pub use kv::run as run_kv;
use record::Record;
pub use routed::run as run_routed;
pub use router::run as run_router;
pub use service::run as run_service;
pub use typed::run as run_typed;

/// A program that performs as many RPCs as its first argument says.
#[derive(Clone, Copy, Debug)]
struct Program {
    package: &'static str,
    example: &'static str,
}

/// All programs that are measured. Cargo chooses them together also for one of them, so that what
/// they share has the same features, and is compiled once.
const PROGRAMS: [Program; 7] =
    [RAW, typed::TYPED, engine::ENGINE, router::ROUTER, routed::ROUTED, service::SERVICE, kv::KV];
const RAW: Program = Program { package: "petasos-endpoint", example: "icount" };
const EXAMPLE_FILE: &str = "crates/endpoint/examples/icount.rs";
const RECORD_FILE: &str = "xtask/icount.toml";
/// The lengths of the two runs, in RPCs.
const RUNS: [u64; 2] = [20_000, 120_000];

/// The maximum cost of an RPC of 72 bytes in instructions. This is the length of a typed echo of 32
/// bytes, whose answer must still fit into its slot.
const TYPED_BYTES_CEILING: f64 = 600.0;
const TYPED_BYTES: &str = "72";

/// What to do with the figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Print them.
    Report,
    /// Print them, and fail if they exceed the committed ones.
    Check,
    /// Print them and commit to them.
    Update,
}

/// Totals of one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Totals {
    rpcs: u64,
    instructions: u64,
    packets: u64,
    syscalls: u64,
}

/// The cost of one RPC, both sides together.
#[derive(Clone, Copy, Debug, PartialEq)]
struct PerRpc {
    instructions: f64,
    packets: f64,
    syscalls: f64,
}

impl PerRpc {
    fn slope(short: Totals, long: Totals) -> PerRpc {
        let rpcs = (long.rpcs - short.rpcs) as f64;
        let slope = |short: u64, long: u64| (long as f64 - short as f64) / rpcs;
        PerRpc {
            instructions: slope(short.instructions, long.instructions),
            packets: slope(short.packets, long.packets),
            syscalls: slope(short.syscalls, long.syscalls),
        }
    }
}

/// Measures, and treats the figures according to `mode`.
pub fn run(root: &Path, mode: Mode) -> TaskResult {
    let path = root.join(RECORD_FILE);
    let committed = match fs::read_to_string(&path) {
        Ok(text) => Some(Record::parse(&text).map_err(|error| format!("{RECORD_FILE}: {error}"))?),
        Err(_) => None,
    };
    if mode == Mode::Check && committed.is_none() {
        return Err(format!(
            "no {RECORD_FILE} to check against: run `cargo xtask icount --update`"
        ));
    }
    if !root.join(EXAMPLE_FILE).exists() {
        return Err(format!("there is no {EXAMPLE_FILE} to measure"));
    }
    if mode == Mode::Check {
        // Side by side: each is optimized as a whole at its end, by one thread.
        build(root, &PROGRAMS)?;
    }
    let built = Built::new(root, RAW)?;
    let measured = built.measure(&[])?;
    println!(
        "per RPC, both sides: {:.1} instructions, {:.3} packets, {:.3} system calls",
        measured.instructions, measured.packets, measured.syscalls
    );
    let longer = built.measure(&["virtual", TYPED_BYTES])?.instructions;
    println!("with {TYPED_BYTES} bytes: {longer:.1} instructions, at most {TYPED_BYTES_CEILING}");
    if mode == Mode::Check && longer > TYPED_BYTES_CEILING {
        return Err(format!("{longer:.1} instructions per RPC of {TYPED_BYTES} bytes"));
    }
    match (mode, committed) {
        (Mode::Check, Some(committed)) => {
            committed.check(measured)?;
            typed::run(root, Some(committed.ceilings.typed))?;
            engine::run(root, true)?;
            router::run(root, true)?;
            routed::run(root, true)?;
            kv::run(root, true)?;
            service::run(root, true)
        }
        (Mode::Update, committed) => {
            let record = Record::of(measured, committed.map(|record| record.ceilings));
            fs::write(&path, record.to_text())
                .map_err(|error| format!("{RECORD_FILE}: {error}"))?;
            println!("wrote {RECORD_FILE}; say in the commit why the figures changed");
            record.check_ceiling(measured)
        }
        _ => Ok(()),
    }
}

/// A program that has been built, and the folder for its profiles.
struct Built {
    example: &'static str,
    path: PathBuf,
    folder: PathBuf,
}

/// Builds programs for the baseline processor, whatever the user's flags are, unless that has been
/// done. Returns the target folder.
fn build(root: &Path, programs: &[Program]) -> Result<PathBuf, String> {
    if !tools::is_installed("valgrind") {
        return Err("callgrind is missing: apt-get install valgrind".into());
    }
    let folder = target_folder(root, "icount");
    let baseline = if cfg!(target_arch = "x86_64") { "x86-64" } else { "generic" };
    let mut command = tools::cargo();
    command.args(["build", "--profile", "production"]);
    command.args(PROGRAMS.iter().flat_map(|program| ["--package", program.package]));
    command.args(programs.iter().flat_map(|program| ["--example", program.example]));
    command.env("RUSTFLAGS", format!("-Ctarget-cpu={baseline}"));
    command.env("CARGO_TARGET_DIR", &folder).current_dir(root);
    tools::run(&mut command)?;
    Ok(folder)
}

impl Built {
    fn new(root: &Path, program: Program) -> Result<Built, String> {
        let folder = build(root, &[program])?;
        let example = program.example;
        let path = folder.join("production/examples").join(example);
        Ok(Built { example, path, folder })
    }

    /// The cost of one RPC, with `arguments` after the number of RPCs.
    fn measure(&self, arguments: &[&str]) -> Result<PerRpc, String> {
        let [short, long] = RUNS.map(|rpcs| self.run_once(rpcs, arguments));
        Ok(PerRpc::slope(short?, long?))
    }

    fn run_once(&self, rpcs: u64, arguments: &[&str]) -> Result<Totals, String> {
        let Built { example, path, folder } = self;
        let profile = folder.join(format!("callgrind.{example}.{rpcs}.out"));
        let output = Command::new("valgrind")
            .args(["--tool=callgrind", "--quiet"])
            .arg(format!("--callgrind-out-file={}", profile.display()))
            .arg(path)
            .arg(rpcs.to_string())
            .args(arguments)
            .output()
            .map_err(|error| format!("cannot run valgrind: {error}"))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(format!("{example} {rpcs} failed under valgrind: {said}"));
        }
        let text = fs::read_to_string(&profile)
            .map_err(|error| format!("cannot read {}: {error}", profile.display()))?;
        let instructions = instructions(&text)?;
        let printed = String::from_utf8_lossy(&output.stdout);
        let totals = totals(&printed, instructions)?;
        if totals.rpcs != rpcs {
            return Err(format!("{example} was asked for {rpcs} RPCs and did {}", totals.rpcs));
        }
        Ok(totals)
    }
}

/// The instruction total in a callgrind profile.
fn instructions(profile: &str) -> Result<u64, String> {
    let only_instructions = profile.lines().any(|line| line.trim() == "events: Ir");
    let total = profile.lines().find_map(|line| line.strip_prefix("totals:"));
    match total.map(|total| total.trim().parse()) {
        Some(Ok(total)) if only_instructions => Ok(total),
        _ => Err("the callgrind profile has no total of instructions".into()),
    }
}

/// Parses the program's output: one line of JSON.
fn totals(printed: &str, instructions: u64) -> Result<Totals, String> {
    let line = printed.lines().find(|line| line.trim_start().starts_with('{'));
    let json: Value = serde_json::from_str(line.unwrap_or_default())
        .map_err(|error| format!("the program printed no line of JSON ({error}): {printed}"))?;
    let field = |name: &str| {
        json[name]
            .as_u64()
            .ok_or_else(|| format!("the program printed no count of {name}: {printed}"))
    };
    Ok(Totals {
        rpcs: field("rpcs")?,
        instructions,
        packets: field("packets")?,
        syscalls: field("syscalls")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROFILE: &str = "# callgrind format\nversion: 1\ncreator: callgrind-3.19.0\npid: 7\n\
        cmd: ./icount 20000\npart: 1\n\n\ndesc: Trigger: Program termination\n\
        positions: line\nevents: Ir\nsummary: 9000001\n\n\nob=(1) /icount\nfl=(1) main.rs\n\
        fn=(1) main\n0 9000001\n\ntotals: 9000002\n";

    #[test]
    fn the_profile_s_total_is_read() {
        assert_eq!(instructions(PROFILE), Ok(9_000_002));
    }

    #[test]
    fn a_profile_cut_short_or_of_other_events_is_refused() {
        let (cut, _) = PROFILE.split_once("totals").unwrap();
        assert!(instructions(cut).is_err());
        assert!(instructions(&PROFILE.replace("events: Ir", "events: Ir Dr")).is_err());
    }

    #[test]
    fn the_program_s_line_is_read() {
        let printed = "{\"rpcs\": 20000, \"packets\": 40000, \"syscalls\": 3}\n";
        let totals = totals(printed, 5).unwrap();
        let expected = Totals { rpcs: 20_000, instructions: 5, packets: 40_000, syscalls: 3 };
        assert_eq!(totals, expected);
    }

    #[test]
    fn a_missing_count_is_named() {
        let message = totals("{\"rpcs\": 1, \"packets\": 2}", 5).unwrap_err();
        assert!(message.contains("syscalls"), "{message}");
        assert!(totals("done\n", 5).is_err());
    }

    #[test]
    fn the_slope_is_free_of_what_both_runs_share() {
        let short = Totals { rpcs: 100, instructions: 5_000, packets: 210, syscalls: 9 };
        let long = Totals { rpcs: 300, instructions: 75_000, packets: 610, syscalls: 9 };
        let expected = PerRpc { instructions: 350.0, packets: 2.0, syscalls: 0.0 };
        assert_eq!(PerRpc::slope(short, long), expected);
    }
}
