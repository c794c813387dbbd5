//! Runs the example.

use std::process::Command;

#[test]
fn both_clients_are_answered() {
    let run = Command::new(env!("CARGO_BIN_EXE_tonic-services")).output().expect("it starts");
    assert!(run.status.success(), "{run:?}");
    let said = String::from_utf8(run.stdout).expect("it prints text");
    assert_eq!(said, "tonic's client: 51, 7\nPetasos' client: 51, 7\n");
}
