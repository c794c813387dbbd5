//! The Python package's own tests, on the library that was built with this test.

use std::path::Path;
use std::process::Command;

/// What is missing for them, if something is.
fn missing() -> Option<&'static str> {
    let runs = |code: &str| {
        let output = Command::new("python3").args(["-c", code]).output();
        output.is_ok_and(|output| output.status.success())
    };
    if !runs("import sys; sys.exit(sys.version_info < (3, 9))") {
        return Some("no python3 of version 3.9 or later");
    }
    (!runs("import google.protobuf")).then_some("no Python package `protobuf`")
}

/// The crate is linked so that cargo makes the shared library, too.
#[test]
fn the_python_package_passes_its_tests() {
    assert!(petasos_capi::petasos_abi_version() > 0);
    if let Some(what) = missing() {
        return println!("skipped: {what}");
    }
    let executable = std::env::current_exe().expect("the test has a path");
    let package = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../python");
    let output = Command::new("python3")
        .arg("tests/test_calls.py")
        .env("PETASOS_LIBRARY", executable.with_file_name("libpetasos_capi.so"))
        .env("PYTHONPATH", package.join("src"))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .current_dir(&package)
        .output()
        .expect("Python runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
