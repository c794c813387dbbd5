//! LLVM's sanitizers over the tests of the crates that contain `unsafe`.
//!
//! The compiler's flag for sanitizers is unstable, but every stable toolchain contains them and
//! their runtimes. `RUSTC_BOOTSTRAP=1` lets the pinned compiler accept the flag, so that no second
//! toolchain is needed. Miri would find more (aliasing, provenance), but is only part of nightly
//! toolchains.

use std::fs;
use std::path::Path;

use crate::task::{TaskResult, target_folder};
use crate::tools;

/// The target of builds with sanitizers and coverage. With an explicit target, build scripts and
/// macros are not instrumented.
pub const TARGET: &str = "x86_64-unknown-linux-gnu";

/// The tested crates, which contain `unsafe` or are directly above such crates: shared memory,
/// messages, buffers, packet I/O, plug-ins, the managed service, and the C library.
const PACKAGES: [&str; 14] = [
    "petasos-base",
    "petasos-buf",
    "petasos-shm",
    "petasos-plugin",
    "petasos-netio-shm",
    "petasos-netio-udp",
    "petasos-netio-local",
    "petasos-netio-xdp",
    "petasos-message",
    "petasos-endpoint",
    "petasos-attach",
    "petasos-service",
    "petasos-managed",
    "petasos-capi",
];

/// Each loop keeps the little that its tables are reached by for as long as the process runs
/// (`Runtime::new`).
const SUPPRESSIONS: &str = "leak:petasos_runtime::runtime::Runtime\n";

/// `cargo xtask sanitize [PACKAGE…]`: the address sanitizer, which also finds leaks.
pub fn run(root: &Path, packages: &[&str]) -> TaskResult {
    let packages = if packages.is_empty() { &PACKAGES[..] } else { packages };
    let folder = target_folder(root, "sanitize");
    let suppressions = folder.join("leaks.txt");
    fs::create_dir_all(&folder)
        .and_then(|()| fs::write(&suppressions, SUPPRESSIONS))
        .map_err(|error| format!("sanitize: cannot write {}: {error}", suppressions.display()))?;
    let mut failed = Vec::new();
    for package in packages {
        println!("\n==> {package} under the address sanitizer");
        let mut command = tools::cargo();
        command.args(["test", "--target", TARGET, "--package", package]);
        command.args(match *package {
            // Its other tests are C and Python, which do not link the sanitizer's runtime.
            "petasos-capi" => ["--test", "abi"],
            _ => ["--lib", "--tests"],
        });
        command.arg("--no-fail-fast").env("CARGO_TARGET_DIR", &folder).current_dir(root);
        command.env("RUSTC_BOOTSTRAP", "1").env("RUSTFLAGS", "-Zsanitizer=address");
        command.env("LSAN_OPTIONS", format!("suppressions={}", suppressions.display()));
        // Plug-ins that crash in a child process do so by a signal, as without the sanitizer.
        command.env("ASAN_OPTIONS", "handle_segv=0");
        if tools::run(&mut command).is_err() {
            failed.push(*package);
        }
    }
    match failed.is_empty() {
        true => Ok(()),
        false => Err(format!("sanitize: something was found in {}", failed.join(", "))),
    }
}
