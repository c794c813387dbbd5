//! Instructions, which are the same on a busy machine: `valgrind` counts two runs of this program,
//! and the difference is what the messages took that the one has more than the other.

use std::error::Error;
use std::process::Command;

/// What the milestones allow: the plan against code written out for the type, and against prost.
const WRITTEN_MAX: f64 = 1.3;
const PROST_MAX: f64 = 1.0;

/// Messages of the shorter run, and how many more the longer one has.
const FEW: u64 = 50;
const MORE: u64 = 200;

/// Prints a row for each message in each direction; fails if one is beyond the bounds.
pub fn print(names: &[(&str, usize)]) -> Result<(), Box<dyn Error>> {
    println!("| | | bytes | plan | written out | prost | plan / written out | plan / prost |");
    println!("|---|---|---|---|---|---|---|---|");
    let mut is_within = true;
    for task in ["decode", "encode", "append"] {
        for (name, bytes) in names {
            let of = |codec| of_one(task, codec, name);
            let (plan, prost) = (of("plan")?, of("prost")?);
            let (mut written, mut ratio) = (String::from("–"), String::from("–"));
            // Nobody has written that one out.
            if *name != "google1" {
                let count = of("written")?;
                (written, ratio) = (count.to_string(), format!("{:.2}", plan / count));
                is_within &= plan <= WRITTEN_MAX * count;
            }
            is_within &= plan <= PROST_MAX * prost;
            let to_prost = plan / prost;
            println!(
                "| {task} | {name} | {bytes} | {plan} | {written} | {prost} | {ratio} | \
                 {to_prost:.2} |"
            );
        }
    }
    if is_within { Ok(()) } else { Err("more than the milestones allow".into()) }
}

/// Instructions of one message.
fn of_one(task: &str, codec: &str, name: &str) -> Result<f64, Box<dyn Error>> {
    let (few, many) = (run(task, codec, name, FEW)?, run(task, codec, name, FEW + MORE)?);
    Ok(((many - few) / MORE as f64).round())
}

fn run(task: &str, codec: &str, name: &str, count: u64) -> Result<f64, Box<dyn Error>> {
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]);
    valgrind.arg(std::env::current_exe()?);
    let output = valgrind.args([task, codec, name, &count.to_string()]).output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    let collected = said.lines().find_map(|line| line.split_once("Collected :"));
    let (_, number) = collected.ok_or("valgrind counted nothing")?;
    Ok(number.trim().parse()?)
}
