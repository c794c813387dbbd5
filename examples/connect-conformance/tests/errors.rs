//! The programs print an error as one plain line.

use std::io::Write;
use std::process::{Command, Stdio};

/// The exit status and the standard error of a program that reads these bytes.
fn run(program: &str, input: &[u8]) -> (Option<i32>, String) {
    let mut command = Command::new(program);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the program was just built");
    let mut stdin = child.stdin.take().expect("it is piped");
    stdin.write_all(input).expect("it reads its input");
    drop(stdin);
    let output = child.wait_with_output().expect("it is our child");
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn errors_are_one_plain_line() {
    let told = run(env!("CARGO_BIN_EXE_connect-conformance-server"), b"");
    assert_eq!(told, (Some(1), "connect-conformance-server: there is no request\n".into()));
    // A message of five bytes, of which one comes.
    let told = run(env!("CARGO_BIN_EXE_connect-conformance-client"), b"\0\0\0\x05a");
    assert_eq!(told, (Some(1), "connect-conformance-client: early eof\n".into()));
}
