//! Porcupine, another checker, says the same of histories: stored ones, and random ones of services
//! that are right or wrong. Go builds it (`tools/porcupine`), and fetches its module.

#[path = "checker/support/mod.rs"]
#[allow(dead_code, reason = "the other program of tests uses the rest")]
mod support;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use petasos_base::Rng;
use petasos_history::{Budget, History, ModelKind, Verdict, check, read};

use support::counters::{self, Counters};
use support::etcd::{self, Calls, Etcd};
use support::registers::{self, Registers};
use support::sequences::{self, Sequences};
use support::world::{Plan, Service, World};

/// Histories of each kind of service.
const EACH: u64 = 40;

/// The program, or what is missing for it.
fn porcupine(folder: &Path) -> Result<PathBuf, String> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tools/porcupine");
    let program = folder.join("porcupine");
    let mut go = Command::new("go");
    go.arg("build").arg("-o").arg(&program).arg(".").current_dir(source).stdin(Stdio::null());
    let output = go.output().map_err(|error| format!("there is no `go`: {error}"))?;
    match output.status.success() {
        true => Ok(program),
        false => Err(String::from_utf8_lossy(&output.stderr).replace('\n', "; ")),
    }
}

/// The records of a service's clients as one file. Watches are left out: porcupine has none.
fn recorded<S: Service>(service: S, seed: u64) -> Vec<u8> {
    let plan = Plan { clients: 4, calls: 60, unknown: 0.03, not_done: 0.05 };
    let mut texts = World::new(service, plan).run(plan, &mut Rng::new(seed));
    texts.truncate(4);
    let headless = texts.iter().enumerate().map(|(at, text)| {
        let header = text.iter().position(|byte| *byte == b'\n').expect("there is one") + 1;
        if at == 0 { &text[..] } else { &text[header..] }
    });
    headless.collect::<Vec<_>>().concat()
}

/// Histories by name.
fn histories() -> Vec<(String, Vec<u8>)> {
    let mut all = Vec::new();
    let mut add = |name: String, text| all.push((name, text));
    for seed in 0..EACH {
        let pick = |count: usize| usize::try_from(seed).expect("it is small") % count;
        {
            use registers::Fault::*;
            let faults = [None, StaleRead, LostWrite, DoneTwice, NoCompare, Denied, SameStamp];
            let fault = faults[pick(faults.len())];
            let registers = |values| Registers::new(3, values, fault);
            add(format!("registers-{seed}-{fault:?}"), recorded(registers(0), seed));
            add(format!("values-{seed}-{fault:?}"), recorded(registers(3), seed));
            let stamps = registers(0).stamped_ones();
            add(format!("stamps-{seed}-{fault:?}"), recorded(stamps, seed));
            let fault = if fault == SameStamp { TornTransaction } else { fault };
            let both = Registers::new(3, 0, fault).with_transactions();
            add(format!("transactions-{seed}-{fault:?}"), recorded(both, seed));
        }
        {
            use counters::Fault::*;
            let faults = [None, Lost, Twice, StaleRead, Denied];
            let fault = faults[pick(faults.len())];
            add(format!("counters-{seed}-{fault:?}"), recorded(Counters::new(2, fault), seed));
        }
        {
            use sequences::Fault::*;
            let faults = [None, Twice, Backwards];
            let fault = faults[pick(faults.len())];
            add(format!("sequences-{seed}-{fault:?}"), recorded(Sequences::new(fault), seed));
        }
        {
            use etcd::Fault::*;
            let faults =
                [None, StaleItems, StaleRead, LostWrite, DoneTwice, WrongBranch, WrongPast, Denied];
            let fault = faults[pick(faults.len())];
            let plain = Etcd::new(3, fault).only(Calls::Plain);
            add(format!("stores-{seed}-{fault:?}"), recorded(plain, seed));
        }
    }
    all
}

/// Stored histories, but those that porcupine's models do not know.
fn stored() -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/histories");
    let files = fs::read_dir(folder).expect("it is there").map(|file| file.expect("a file").path());
    let known = files.filter(|file| !file.to_string_lossy().contains("etcd-"));
    known.map(|file| (file.display().to_string(), fs::read(&file).expect("a file"))).collect()
}

fn ours(history: &History) -> &'static str {
    let model = history.header.model.expect("there is a header");
    let report = check(history, model, Budget::default()).expect("it is a history of its model");
    match report.verdict {
        Verdict::Good => "ok",
        Verdict::Violated(_) => "illegal",
        Verdict::Undecided(_) => "unknown",
    }
}

#[test]
fn porcupine_agrees() {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let folder = folder.join(format!("porcupine-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder can be made");
    match porcupine(&folder) {
        Ok(program) => compare(&folder, &program),
        Err(missing) => petasos_skips::skip("suites", format!("porcupine: {missing}")),
    }
    fs::remove_dir_all(&folder).expect("it is there");
}

fn compare(folder: &Path, program: &Path) {
    let all: Vec<(String, Vec<u8>)> = stored().into_iter().chain(histories()).collect();
    let files = all.iter().enumerate().map(|(at, (_, text))| {
        let file = folder.join(format!("{at}.jsonl"));
        fs::write(&file, text).expect("a file can be written");
        file
    });
    let output = Command::new(program).args(files).output().expect("it was just built");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let theirs = String::from_utf8(output.stdout).expect("they are words");
    let theirs: Vec<&str> = theirs.lines().collect();
    assert_eq!(theirs.len(), all.len());
    let mut tallies = [[0; 2]; ModelKind::ALL.len()];
    let mut unknown = 0;
    for ((name, text), theirs) in all.iter().zip(theirs) {
        let history = read(text.as_slice()).expect("it was recorded");
        let ours = ours(&history);
        if theirs == "unknown" {
            unknown += 1;
            continue;
        }
        assert_eq!(ours, theirs, "{name}:\n{}", String::from_utf8_lossy(text));
        let model = history.header.model.expect("there is a header") as usize;
        tallies[model][usize::from(ours == "ok")] += 1;
    }
    println!("[illegal, ok] by model: {tallies:?}; porcupine gave {unknown} up");
    assert!(tallies.iter().flatten().all(|tally| *tally >= 8), "{tallies:?}");
    assert!(unknown <= all.len() / 50, "porcupine gave {unknown} of {} up", all.len());
}
