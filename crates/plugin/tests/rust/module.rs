//! Plug-ins in Rust as WebAssembly modules.

use std::path::Path;
use std::sync::Arc;

use petasos_engine::{Code, Policy, PolicyError, PolicyKind};
use petasos_plugin::WasmKind;

use crate::support::{Outcome, Rig, make, passed};
use crate::{REFUSE, build, longest, probe_decides, refused};

fn load(module: &Path) -> WasmKind {
    WasmKind::load("mine", module).expect("it is right")
}

fn probe() -> Option<WasmKind> {
    build::module(&build::probe(), "probe").map(|module| load(&module))
}

fn policy(kind: &WasmKind, configuration: &str) -> Arc<dyn Policy> {
    let configuration = format!(r#"{{"configuration": {configuration}}}"#);
    make(kind, &configuration, None).expect("the policy is made")
}

/// Why a policy is not made.
fn refusal(kind: &WasmKind, configuration: &str) -> String {
    let configuration = format!(r#"{{"configuration": {configuration}}}"#);
    match make(kind, &configuration, None) {
        Err(PolicyError::Configuration { why, .. }) => why,
        other => panic!("{configuration} was not refused: {:?}", other.err()),
    }
}

#[test]
fn the_template_refuses_by_a_field_and_keeps_its_count_over_an_upgrade() {
    let version = "STATE_VERSION: u32 = 1";
    let newer = build::copied_template("refuse-3", version, "STATE_VERSION: u32 = 3");
    let Some(old) = build::module(&build::template(), "refuse") else { return };
    let new = build::module(&newer, "refuse_3").expect("there is the target");
    let (old, new) = (load(&old), load(&new));
    assert_eq!((old.version().version, new.version().version), (1, 3));
    let first = policy(&old, REFUSE);
    let mut rig = Rig::new(&first);
    assert_eq!(rig.request("alice", 0), passed());
    assert_eq!(rig.request("mallory", 0), refused(1));
    let second = policy(&new, REFUSE);
    rig.replace(&second).expect("it goes on");
    assert_eq!(rig.request("mallory", 0), refused(2));
    rig.replace(&first).expect_err("the state is of a later version");
    assert_eq!(rig.request("mallory", 0), refused(3));
    let why = refusal(&old, r#"{"field": "name"}"#);
    assert!(why.contains("missing field `text`"), "{why}");
    let state = rig.detach().expect("it has a state");
    assert_eq!((&*state.kind, state.version, &*state.json), ("mine", 3, r#"{"refused":3}"#));
    assert_eq!([first, second].map(|policy| policy.report()["failures"].to_string()), ["0"; 2]);
}

#[test]
fn it_can_do_all_that_modules_may() {
    let Some(kind) = probe() else { return };
    // It makes longer texts than most.
    let made = make(&kind, r#"{"fuel": 100000, "configuration": {}}"#, None).expect("it is right");
    let mut rig = Rig::new(&made);
    probe_decides(&mut rig, None);
    assert_eq!(made.report()["failures"], 0);
    rig.replace(&policy(&kind, "{}")).expect("it goes on");
    let state = rig.detach().expect("it has a state");
    assert_eq!((&*state.kind, state.version, &*state.json), ("mine", 3, "6"));
    assert_eq!(refusal(&kind, r#"{"refuse":"long"}"#), longest());
}

#[test]
fn a_panic_is_a_trap() {
    let Some(kind) = probe() else { return };
    let why = refusal(&kind, r#"{"panic":"new"}"#);
    assert!(why.starts_with("it fails: ") && why.contains("unreachable"), "{why}");
    let made = policy(&kind, "{}");
    let mut rig = Rig::new(&made);
    let cut_off = || Outcome::Ended(Code::Unavailable, "`mine` has failed".to_owned());
    assert_eq!(rig.request("alice", 0), passed());
    assert_eq!(rig.request("alice", 105), cut_off());
    assert_eq!(rig.request("alice", 0), cut_off(), "it is not called again");
    assert_eq!(made.report()["failures"], 1);
}
