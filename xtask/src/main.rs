//! Repository tasks: `cargo xtask <task>`.
//!
//! The tasks check what `cargo` itself cannot check about the repository. They are plain Rust with
//! one dependency, so that a machine with only the toolchain can run them. No crate of the
//! workspace is linked, so that a broken crate cannot break its own checks.

mod attempt;
mod ci;
mod conformance;
mod consoles;
mod deb;
mod deny;
mod fuzz;
mod icount;
mod sanitize;
mod skips;
mod soak;
mod suite;
mod task;
mod tidy;
mod tools;
mod workspace;

use std::path::PathBuf;
use std::process::ExitCode;

use task::{TaskResult, USAGE, target_folder};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("xtask: {message}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[&str]) -> TaskResult {
    match arguments {
        ["ci", "--list"] => {
            ci::list();
            Ok(())
        }
        ["ci", steps @ ..] => ci::run(&root(), steps),
        ["consoles", files @ ..] => consoles::run(&root(), files),
        ["tidy"] => tidy::run(&root()),
        ["icount"] => icount::run(&root(), icount::Mode::Report),
        ["icount", "--typed"] => icount::run_typed(&root(), None),
        ["icount", "--engine"] => icount::run_engine(&root(), false),
        ["icount", "--kv"] => icount::run_kv(&root(), false),
        ["icount", "--router"] => icount::run_router(&root(), false),
        ["icount", "--routed"] => icount::run_routed(&root(), false),
        ["icount", "--service"] => icount::run_service(&root(), false),
        ["icount", "--check"] => icount::run(&root(), icount::Mode::Check),
        ["icount", "--update"] => icount::run(&root(), icount::Mode::Update),
        ["deb"] => deb::run(&root(), deb::Variant::Plain),
        ["deb", "--wasm"] => deb::run(&root(), deb::Variant::Wasm),
        ["deb", "--programs", folder] => {
            deb::of(&root(), std::path::Path::new(folder), deb::Variant::Plain)
        }
        ["soak", arguments @ ..] => soak::run(&root(), arguments),
        ["fuzz", arguments @ ..] => fuzz::run(&root(), arguments),
        ["sanitize", packages @ ..] => sanitize::run(&root(), packages),
        ["conformance", "protobuf"] => conformance::protobuf(&root()),
        ["conformance", "grpc"] => conformance::grpc(&root()),
        ["conformance", "interop"] => conformance::interop(&root()),
        ["help" | "--help" | "-h"] => {
            print!("{USAGE}");
            Ok(())
        }
        [] => Err(format!("no task given\n\n{USAGE}")),
        _ => Err(format!("cannot understand `{}`\n\n{USAGE}", arguments.join(" "))),
    }
}

/// The workspace's folder: the parent of this crate's. It is taken from cargo at run time, because
/// the path at compile time may be that of another checkout that shares the target folder.
fn root() -> PathBuf {
    let here = std::env::var_os("CARGO_MANIFEST_DIR");
    let here = here.map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    here.parent().expect("xtask lies in the workspace's folder").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_tasks_and_options_are_refused_with_the_usage() {
        for arguments in [&["sing"][..], &[], &["tidy", "--fix"], &["icount", "--chek"]] {
            let message = run(arguments).unwrap_err();
            assert!(message.contains("usage: cargo xtask"), "{message}");
        }
    }

    #[test]
    fn unknown_steps_are_refused_before_anything_runs() {
        let message = run(&["ci", "fmt", "sing"]).unwrap_err();
        assert!(message.contains("no step `sing`") && message.contains("dissector"), "{message}");
    }
}
