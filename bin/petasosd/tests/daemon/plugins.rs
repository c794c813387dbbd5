//! Policies from outside, in the daemon.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::*;

/// Compiles a source of the plug-in crate. None, and says so, if there is no compiler.
fn compile(source: &str, definition: &str) -> Option<String> {
    if Command::new("cc").arg("--version").output().is_err() {
        petasos_skips::skip("cc", "there is no C compiler `cc`");
        return None;
    }
    let plugin = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates/plugin");
    let object: PathBuf = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{definition}.so"));
    let output = Command::new("cc")
        .args(["-std=c11", "-O1", "-shared", "-fPIC", "-I"])
        .arg(plugin.join("include"))
        .arg(format!("-D{definition}"))
        .arg(plugin.join(source))
        .arg("-o")
        .arg(&object)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(object.to_str().unwrap().to_owned())
}

fn with(plugin: &str) -> [String; 2] {
    ["--plugin".to_owned(), format!("mine={plugin}")]
}

#[test]
fn a_shared_object_refuses_calls_by_a_field() {
    let Some(object) = compile("examples/refuse.c", "STATE_VERSION=1u") else { return };
    let policies = r#"[{"application": "client", "kind": "mine",
                        "configuration": {"field": "name", "text": "eve"}}]"#;
    let daemon = Daemon::start_more("plugin", Some(policies), &with(&object));
    let server = daemon.serve("server", 2);
    let mut client = daemon.attach("client");
    let target = client.target("greeter");
    assert_eq!(client.greet(target, "ann"), Ok("hello, ann".to_owned()));
    assert_eq!(client.greet(target, "eve"), Err(7), "permission denied");
    assert_eq!(client.greet(target, "bob"), Ok("hello, bob".to_owned()));
    assert_eq!(server.join().unwrap(), ["ann", "bob"]);
}

#[test]
fn plugins_and_configurations_that_crash_are_told_and_not_loaded() {
    let daemon = Daemon::start("no-plugin", None);
    let Some(object) = compile("tests/c/faulty.c", "FAULT=CRASH_ON_LOAD") else { return };
    let (success, said) = daemon.second_with(None, &with(&object));
    assert!(!success && said.contains("it has crashed when it was tried: signal 11"), "{said}");

    let object = compile("tests/c/faulty.c", "FAULT=CRASH_IF_TOLD").expect("there is a compiler");
    let policies =
        r#"[{"application": "*", "kind": "mine", "configuration": {"please": "crash"}}]"#;
    let (success, said) = daemon.second_with(Some(policies), &with(&object));
    assert!(!success && said.contains("policy 1: the configuration of `faulty`"), "{said}");
    assert!(said.contains("it has crashed when it was tried: signal 11"), "{said}");
}
