//! Plug-ins in Rust: the template, and one that does all that the crate for them offers. Each is
//! built by cargo as its author builds it, as a shared object and as a module.

mod build;
#[cfg(feature = "wasm")]
mod module;
mod object;
#[path = "../support/mod.rs"]
mod support;
#[path = "../support/trial.rs"]
mod trial;

use petasos_engine::{Code, Metadata};
use support::{Outcome, Rig, passed};

/// What the template is configured with.
const REFUSE: &str = r#"{"field": "name", "text": "mallory"}"#;

fn refused(number: u32) -> Outcome {
    Outcome::Ended(Code::PermissionDenied, format!("no. {number} of `mallory`"))
}

/// What the probe does is the same in both forms, but for what is known of it.
fn probe_decides(rig: &mut Rig, identity: Option<&str>) {
    rig.identity = Some("carol".into());
    assert_eq!(rig.request("alice", 0), passed());
    let mut metadata = Metadata::new();
    metadata.append("old", "a value that is longer than most, as long values are").expect("ASCII");
    let value = "a value that is longer than most, as long values are".to_owned();
    let metadata_after = vec![("new".to_owned(), value)];
    let written = vec!["Unsigned(42)".to_owned()];
    let changed = Outcome::Passed { metadata: metadata_after, written };
    assert_eq!(rig.request_with("alice", 100, metadata), changed);

    let name = "alice, whose name is longer than the room that is made for names at first";
    let flags = "false true false true";
    let told = format!("Request 3 None None 1 2 0 {identity:?} {flags} {name}");
    assert_eq!(rig.request(name, 101), Outcome::Ended(Code::Aborted, told));
    let errors = "[Err(Invalid), Err(Invalid), Err(Invalid), Err(Invalid)] true".to_owned();
    assert_eq!(rig.request("alice", 102), Outcome::Ended(Code::Aborted, errors));
    assert_eq!(rig.request("alice", 103), Outcome::Ended(Code::DataLoss, longest()));
    let answer = Outcome::Ended(Code::Internal, "an answer".to_owned());
    assert_eq!(rig.request("alice", 104), answer, "an engine cannot answer calls");
}

/// As much as a plug-in may say of a long text. The last letter has no room.
fn longest() -> String {
    format!("x{}", "é".repeat(511))
}
