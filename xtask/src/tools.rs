//! Programs that some steps need in addition to the toolchain: found, or installed if possible.

use std::env;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::{TaskResult, skips};

/// A program and its Debian package.
struct Tool {
    program: &'static str,
    package: &'static str,
}

const TOOLS: [Tool; 13] = [
    Tool { program: "cc", package: "gcc" },
    // libFuzzer, which the fuzz targets are linked with, is written in C++.
    Tool { program: "c++", package: "g++" },
    // The compiler of the XDP program whose object is committed.
    Tool { program: "clang-14", package: "clang-14" },
    Tool { program: "etcd", package: "etcd-server" },
    Tool { program: "etcdctl", package: "etcd-client" },
    Tool { program: "python3", package: "python3" },
    Tool { program: "memcached", package: "memcached" },
    Tool { program: "redis-server", package: "redis-server" },
    Tool { program: "redis-cli", package: "redis-tools" },
    Tool { program: "setpriv", package: "util-linux" },
    Tool { program: "tc", package: "iproute2" },
    Tool { program: "valgrind", package: "valgrind" },
    Tool { program: "tshark", package: "tshark" },
];

/// Browsers that the dashboard is tested in, one of which is enough, and the package of the first:
/// a browser without a window (100 MB to fetch; 10 s).
const BROWSERS: [&str; 4] =
    ["chromium-headless-shell", "chrome-headless-shell", "chromium", "google-chrome"];
const BROWSER_PACKAGE: &str = "chromium-headless-shell";

/// Files of Debian packages, and the packages: for the Python package's tests, a client of etcd,
/// for PostgreSQL and proxies, whose programs may not be on the path, and what `apps/search`
/// searches.
const FILES: [(&str, &str); 8] = [
    ("/usr/lib/python3/dist-packages/etcd3/__init__.py", "python3-etcd3"),
    ("/usr/lib/python3/dist-packages/google/protobuf/__init__.py", "python3-protobuf"),
    ("/usr/lib/postgresql", "postgresql"),
    ("/usr/sbin/nginx", "nginx-light"),
    ("/usr/sbin/haproxy", "haproxy"),
    ("/usr/share/dictd/gcide.index", "dict-gcide"),
    ("/usr/share/dictd/wn.index", "dict-wn"),
    ("/usr/share/dictd/jargon.index", "dict-jargon"),
];

/// Packages with which all backends are built, and the library by which they are recognised, by its
/// name for pkg-config.
const LIBRARIES: [(&str, &[&str]); 2] = [
    ("libfabric", &["libfabric-dev", "libclang-dev", "pkg-config"]),
    ("libdpdk", &["libdpdk-dev", "libclang-dev", "pkg-config"]),
];

/// The target of plug-ins that are WebAssembly modules.
pub const MODULE_TARGET: &str = "wasm32-unknown-unknown";

/// Whether the toolchain can build for `target`.
pub fn has_target(target: &str) -> bool {
    let mut command = Command::new("rustc");
    let output = command.args(["--print", "target-libdir", "--target", target]).output();
    let folder = output.map(|output| output.stdout).unwrap_or_default();
    Path::new(String::from_utf8_lossy(&folder).trim()).is_dir()
}

/// Has rustup fetch what the target of modules needs (20 MB), if there is a rustup.
fn install_target() {
    let add = ["target", "add", MODULE_TARGET];
    let has_it = has_target(MODULE_TARGET)
        || is_installed("rustup") && run(Command::new("rustup").args(add)).is_ok();
    if !has_it {
        println!("missing: the target {MODULE_TARGET}. Install with: rustup {}", add.join(" "));
    }
}

/// Whether pkg-config finds `library`.
pub fn has_library(library: &str) -> bool {
    let mut command = Command::new("pkg-config");
    command.args(["--exists", library]).status().is_ok_and(|status| status.success())
}

/// Whether `program` is on the path.
pub fn is_installed(program: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// Installs what is missing, programs if this is a Debian machine and we are root; otherwise says
/// what is missing and goes on: the steps that need it speak for themselves.
pub fn install_missing() -> TaskResult {
    install_target();
    let tools = TOOLS.iter().filter(|tool| !is_installed(tool.program)).map(|tool| tool.package);
    let libraries = LIBRARIES.iter().filter(|(library, _)| !has_library(library));
    let packages = libraries.flat_map(|(_, packages)| packages.iter().copied());
    let files = FILES.iter().filter(|(file, _)| !Path::new(file).exists());
    let files = files.map(|(_, package)| *package);
    let has_browser = BROWSERS.iter().any(|program| is_installed(program));
    let browser = (!has_browser).then_some(BROWSER_PACKAGE);
    let missing: Vec<&str> = tools.chain(packages).chain(files).chain(browser).collect();
    if missing.is_empty() {
        println!("nothing is missing");
        return Ok(());
    }
    if !is_installed("apt-get") || !is_root() {
        println!("missing: {0}. Install with: sudo apt-get install {0}", missing.join(" "));
        return Ok(());
    }
    println!("installing {}", missing.join(" "));
    apt_get(&["update", "-qq"])?;
    let mut arguments = vec!["install", "-qq", "--yes", "--no-install-recommends"];
    arguments.extend(missing);
    apt_get(&arguments)
}

fn apt_get(arguments: &[&str]) -> TaskResult {
    let mut command = Command::new("apt-get");
    command.args(["-o", "DPkg::Lock::Timeout=300"]).args(arguments).stdout(Stdio::null());
    command.env("DEBIAN_FRONTEND", "noninteractive");
    run(&mut command)
}

fn is_root() -> bool {
    let output = Command::new("id").arg("-u").output();
    output.is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}

/// Runs `command` to its end; anything but success is an error that quotes it.
pub fn run(command: &mut Command) -> TaskResult {
    if let Some(record) = skips::record() {
        command.env(skips::RECORD, record);
    }
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let words: Vec<_> = words.map(|word| word.to_string_lossy().into_owned()).collect();
    let line = words.join(" ");
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("`{line}` failed ({status})")),
        Err(error) => Err(format!("cannot run `{line}`: {error}")),
    }
}

/// The cargo that runs this task, so that every step uses the toolchain that the user chose.
pub fn cargo() -> Command {
    Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// What cargo says about the workspace at `root`.
pub fn cargo_metadata(root: &Path, arguments: &[&str]) -> Result<Value, String> {
    let output = cargo()
        .args(["metadata", "--format-version", "1"])
        .args(arguments)
        .current_dir(root)
        .output()
        .map_err(|error| format!("cannot run cargo metadata: {error}"))?;
    if !output.status.success() {
        return Err(format!("cargo metadata: {}", String::from_utf8_lossy(&output.stderr)));
    }
    serde_json::from_slice(&output.stdout).map_err(|error| format!("cargo metadata: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_on_the_path() {
        assert!(is_installed("sh"));
        assert!(!is_installed("no-such-program-anywhere"));
    }

    #[test]
    fn targets_are_found_in_the_toolchain() {
        assert!(has_target(crate::sanitize::TARGET));
        assert!(!has_target("no-such-target-anywhere"));
    }

    #[test]
    fn failures_quote_the_command() {
        assert!(run(&mut Command::new("true")).is_ok());
        let mut command = Command::new("sh");
        command.args(["-c", "exit 3"]);
        let message = run(&mut command).unwrap_err();
        assert!(message.contains("sh -c exit 3") && message.contains('3'), "{message}");
        let message = run(&mut Command::new("no-such-program-anywhere")).unwrap_err();
        assert!(message.contains("cannot run"), "{message}");
    }
}
