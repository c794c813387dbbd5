//! The Python package's own tests, on the library that was built with this test.

use std::path::Path;
use std::process::Command;

/// The path's Python, and the system's: packages of the system are known to that one only.
const PYTHONS: [&str; 2] = ["python3", "/usr/bin/python3"];

/// The first Python that has what the package needs, which is version 3.9 and `protobuf`.
fn python() -> Option<&'static str> {
    let needs = "import sys, google.protobuf; sys.exit(sys.version_info < (3, 9))";
    PYTHONS.into_iter().find(|python| {
        let output = Command::new(python).args(["-c", needs]).output();
        output.is_ok_and(|output| output.status.success())
    })
}

/// The crate is linked so that cargo makes the shared library, too.
#[test]
fn the_python_package_passes_its_tests() {
    assert!(petasos_capi::petasos_abi_version() > 0);
    let Some(python) = python() else {
        return println!("skipped: no python3 of version 3.9 or later with the package `protobuf`");
    };
    let executable = std::env::current_exe().expect("the test has a path");
    let package = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../python");
    let output = Command::new(python)
        .arg("tests/test_calls.py")
        .env("PETASOS_LIBRARY", executable.with_file_name("libpetasos_capi.so"))
        .env("PYTHONPATH", package.join("src"))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .current_dir(&package)
        .output()
        .expect("Python runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
