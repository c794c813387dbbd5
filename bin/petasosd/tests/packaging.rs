//! What is in `packaging/` starts the service with options that it has.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::path::{Path, PathBuf};
use std::process::Command;

fn packaging() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging")
}

fn read(name: &str) -> String {
    let path = packaging().join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

/// Checks options, with the files of this folder in the place of those that are installed.
fn check(options: &[String]) -> Result<(), String> {
    let etc = packaging().display().to_string();
    let log = std::env::temp_dir().display().to_string();
    let placed = options.iter().map(|option| {
        option
            .replace("/etc/petasos/policies.json", &format!("{etc}/policies.json"))
            .replace("/var/log/petasos", &log)
            .replace("/var/cache/petasos", &format!("{log}/petasosd-no-cache"))
    });
    let mut command = Command::new(env!("CARGO_BIN_EXE_petasosd"));
    let output = command.arg("--check").args(placed).output().unwrap();
    match output.status.code() {
        Some(0) => Ok(()),
        _ => Err(String::from_utf8(output.stderr).unwrap()),
    }
}

/// The command lines of the unit, with the options that an operator may add.
fn unit(more: &[String]) -> Vec<Vec<String>> {
    let unit = read("petasosd.service");
    let lines = unit.lines().filter_map(|line| {
        line.strip_prefix("ExecStart=").or_else(|| line.strip_prefix("ExecStartPre="))
    });
    let each = lines.map(|line| {
        let (program, options) = line.split_once(' ').unwrap();
        assert_eq!(program, "/usr/bin/petasosd");
        let options = options.strip_suffix(" $PETASOSD_OPTIONS").unwrap();
        let mut options = words(options.strip_prefix("--check ").unwrap_or(options));
        options.extend_from_slice(more);
        options
    });
    each.collect()
}

#[test]
fn the_unit_starts_as_it_checks() {
    let lines = unit(&[]);
    assert_eq!(lines.len(), 2);
    assert_eq!(lines[0], lines[1], "what is checked is what is started");
    assert_eq!(check(&lines[0]), Ok(()));
}

#[test]
fn examples_of_options_are_options() {
    let text = read("petasosd.env");
    let examples: Vec<&str> = text
        .lines()
        .filter_map(|line| line.split_once("PETASOSD_OPTIONS=").map(|it| it.1))
        .collect();
    assert_eq!(examples.len(), 3, "two examples, and what is set");
    for example in examples {
        let mut options = words(example);
        // The certificates are the operator's: only their options are looked at.
        let has_tls = options.iter().any(|option| option == "--tls-cert");
        if has_tls {
            let said = check(&unit(&options)[0]).unwrap_err();
            assert!(said.contains("/etc/petasos/tls/"), "{said}");
            let is_tls = |at: usize, all: &[String]| {
                all[at].starts_with("--tls-") || at > 0 && all[at - 1].starts_with("--tls-")
            };
            let all = options.clone();
            options =
                (0..all.len()).filter(|at| !is_tls(*at, &all)).map(|at| all[at].clone()).collect();
            options.push("--plaintext".to_owned());
        }
        assert_eq!(check(&unit(&options)[0]), Ok(()), "{example}");
    }
}

#[test]
fn the_image_and_the_daemon_set_start_with_options_that_there_are() {
    let image = read("Containerfile");
    let command = image.lines().find_map(|line| line.strip_prefix("CMD ")).unwrap();
    let options: Vec<String> = serde_json::from_str(command).unwrap();
    assert_eq!(check(&options), Ok(()));
    let manifest = read("kubernetes/daemonset.yaml");
    let (_, container) = manifest.split_once("- name: petasosd\n").unwrap();
    let (_, arguments) = container.split_once("args:\n").unwrap();
    let options: Vec<String> = arguments
        .lines()
        .map(str::trim)
        .take_while(|line| line.starts_with("- ") || line.starts_with('#'))
        .filter_map(|line| line.strip_prefix("- ").map(str::to_owned))
        .collect();
    assert_eq!(options.len(), 7, "{options:?}");
    assert_eq!(check(&options), Ok(()));
    // Its policies are those that are installed elsewhere.
    let (_, policies) = manifest.split_once("policies.json: |\n").unwrap();
    let (policies, _) = policies.split_once("---").unwrap();
    let parsed = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
    assert_eq!(parsed(policies), parsed(&read("policies.json")));
}

#[test]
fn an_option_that_there_is_not_is_found() {
    assert!(check(&words("--sockets /run/petasos/petasosd.sock")).is_err());
}
