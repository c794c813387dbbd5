//! The Python package's own tests, on the library that was built with this test.

#[path = "../../../docs/book/certificates.rs"]
mod certificates;
#[path = "../../../bin/petasosd/tests/process/mod.rs"]
mod process;
#[path = "../../../docs/book/routers.rs"]
mod routers;

use std::path::{Path, PathBuf};
use std::process::Command;

use petasos_router_control::GroupSettings;
use routers::Router;

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

/// A folder with certificates for several names. Each test has its own: they run at once.
fn certificates(test: &str) -> PathBuf {
    let name = format!("python-certificates-{test}");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&folder).expect("a folder can be made");
    let authority = certificates::Authority::default();
    for name in ["server.test", "client.test", "stranger.test"] {
        let pem = authority.certify(name);
        let parts = [("ca", pem.authorities), ("cert", pem.certificate), ("key", pem.key)];
        for (part, bytes) in parts {
            let path = folder.join(format!("{name}-{part}.pem"));
            std::fs::write(path, bytes.expect("all parts are made")).expect("it can be written");
        }
    }
    folder
}

/// Runs the package's tests of these classes, or all of them, for `test`.
fn run_tests(test: &str, classes: &[&str], variables: &[(&str, &str)]) {
    assert!(petasos_capi::petasos_abi_version() > 0);
    let Some(python) = python() else {
        let needed = "python3 of version 3.9 or later with the package `protobuf`";
        return petasos_skips::skip("python", format!("there is no {needed}"));
    };
    let executable = std::env::current_exe().expect("the test has a path");
    let package = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../python");
    let output = Command::new(python)
        .arg("tests/test_calls.py")
        .args(classes)
        .env("PETASOS_LIBRARY", executable.with_file_name("libpetasos_capi.so"))
        .env("PETASOS_TEST_CERTIFICATES", certificates(test))
        .env("PYTHONPATH", package.join("src"))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .envs(variables.iter().copied())
        .current_dir(&package)
        .output()
        .expect("Python runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// The crate is linked so that cargo makes the shared library, too.
#[test]
fn the_python_package_passes_its_tests() {
    run_tests("direct", &[], &[]);
}

#[test]
fn what_works_over_datagrams_works_through_a_router() {
    let flows = ["flow.Flow"; 2].map(Router::start);
    let other = Router::start("hello.Greeter");
    let mut narrow = GroupSettings { services: vec!["flow.Flow".into()], ..Default::default() };
    narrow.plane.core.policy = "jbsq1".parse().expect("it is a policy");
    narrow.plane.core.waiting_max = 2;
    narrow.plane.core.waiting_age_max = None;
    let narrow = Router::with(narrow);
    let variables = [
        ("PETASOS_TEST_ROUTERS", &*flows.each_ref().map(Router::target).join(" ")),
        ("PETASOS_TEST_OTHER_ROUTER", &*other.target()),
        ("PETASOS_TEST_NARROW_ROUTER", &*narrow.target()),
    ];
    run_tests("routed", &["Routed", "Examples"], &variables);
}

#[test]
fn what_works_over_datagrams_works_through_the_managed_service() {
    let Some(daemon) = process::Process::start("python") else { return };
    let service = [("PETASOS_SERVICE", &*daemon.service())];
    run_tests("managed", &["Datagrams", "Examples"], &service);
}
