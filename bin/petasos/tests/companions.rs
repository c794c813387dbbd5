//! `petasos bench`, `petasos dashboard`, `petasos kv` and `petasos quorum`: each finds a program of
//! its own, and hands everything to it.

mod support;

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::Mutex;

use support::Folder;

/// Held while programs are written and run: a process that another test starts meanwhile has the
/// file open for writing for a moment, and then it cannot be run.
static PROGRAMS: Mutex<()> = Mutex::new(());

/// A copy of the program outside the checkout, run there.
fn run(folder: &Folder, args: &[&str]) -> Output {
    let program = folder.path("petasos");
    if !Path::new(&program).exists() {
        std::fs::copy(env!("CARGO_BIN_EXE_petasos"), &program).expect("there is room for it");
    }
    let mut command = Command::new(program);
    command.args(args).current_dir(&folder.0).output().expect("it can be run")
}

/// The commands, their programs, and how these are installed.
const COMPANIONS: [(&str, &str, &str); 4] = [
    ("bench", "petasos-bench", "cargo install --profile production --path bin/petasos-bench"),
    ("dashboard", "petasos-dashboard", "cargo install --path bin/petasos-dashboard"),
    ("kv", "petasos-kv", "cargo install --profile production --path bin/petasos-kv"),
    ("quorum", "petasos-quorum", "cargo install --profile production --path bin/petasos-quorum"),
];

#[test]
fn the_program_beside_gets_all_arguments_and_its_status_is_the_outcome() {
    let _alone = PROGRAMS.lock();
    let folder = Folder::new("companion-beside");
    for (status, (command, program, _)) in (7..).zip(COMPANIONS) {
        let script = format!("#!/bin/sh\nprintf '%s,' \"$@\"\nexit {status}\n");
        let beside = folder.file(program, script.as_bytes());
        let may_run = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(beside, may_run).expect("the file is ours");
        for args in [
            &["rpc", "--peer", "tonic", "--window", "16"][..],
            &["--help"],
            &["latency", "-h"],
            &["loss", "--", "--version", "help"],
            &[],
        ] {
            let output = run(&folder, &[&[command], args].concat());
            assert_eq!(output.status.code(), Some(status), "{output:?}");
            let expected: String = args.iter().map(|arg| format!("{arg},")).collect();
            let heard = String::from_utf8_lossy(&output.stdout).into_owned();
            assert_eq!(heard, if args.is_empty() { ",".to_owned() } else { expected });
        }
    }
}

#[test]
fn without_the_program_one_is_told_how_to_get_it() {
    let _alone = PROGRAMS.lock();
    let folder = Folder::new("companion-alone");
    for (command, program, install) in COMPANIONS {
        let output = run(&folder, &[command, "latency"]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains(&format!("{program}, which is not here; ")), "{said}");
        assert!(said.contains(install), "{said}");
    }
}
