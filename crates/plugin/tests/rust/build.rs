//! Building plug-ins in Rust.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const FOLDER: &str = env!("CARGO_MANIFEST_DIR");
/// Where the template says that the crate for plug-ins is.
const SDK: &str = "../../crates/plugin-sdk";

/// The template, as it is.
pub fn template() -> PathBuf {
    Path::new(FOLDER).join("../../templates/plugin")
}

/// The plug-in that is here for tests.
pub fn probe() -> PathBuf {
    Path::new(FOLDER).join("tests/probe")
}

/// A copy of the template by another name and with a change in its source, as its README says how
/// to make one.
pub fn copied_template(name: &str, from: &str, to: &str) -> PathBuf {
    let copy = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::create_dir_all(copy.join("src")).expect("there is room");
    let sdk = Path::new(FOLDER).join("../plugin-sdk");
    for file in ["Cargo.toml", "Cargo.lock", "build.rs", "src/lib.rs", "src/tests.rs"] {
        let text = fs::read_to_string(template().join(file)).expect("the template has it");
        let text = match file {
            "Cargo.toml" => replaced(&renamed(&text, name), SDK, sdk.to_str().expect("UTF-8")),
            "Cargo.lock" => renamed(&text, name),
            "src/lib.rs" => replaced(&text, from, to),
            _ => text,
        };
        // What is as before is not built again.
        if fs::read_to_string(copy.join(file)).ok().as_ref() != Some(&text) {
            fs::write(copy.join(file), text).expect("there is room");
        }
    }
    copy
}

fn renamed(text: &str, name: &str) -> String {
    replaced(text, r#"name = "refuse""#, &format!(r#"name = "{name}""#))
}

fn replaced(text: &str, from: &str, to: &str) -> String {
    assert!(text.contains(from), "the template has no `{from}`");
    text.replacen(from, to, 1)
}

/// Builds a project as a shared object.
pub fn object(project: &Path, name: &str) -> PathBuf {
    built(project, &[], &format!("release/lib{name}.so"))
}

/// Builds a project as a module. None, and says so, if the toolchain has no such target.
#[cfg(feature = "wasm")]
pub fn module(project: &Path, name: &str) -> Option<PathBuf> {
    const TARGET: &str = "wasm32-unknown-unknown";
    let mut asked = Command::new("rustc");
    asked.args(["--print", "target-libdir", "--target", TARGET]).current_dir(FOLDER);
    let folder = asked.output().expect("rustc runs").stdout;
    if !Path::new(String::from_utf8_lossy(&folder).trim()).is_dir() {
        petasos_skips::skip("wasm32", format!("`rustup target add {TARGET}` was not run"));
        return None;
    }
    let file = format!("{TARGET}/release/{name}.wasm");
    Some(built(project, &["--target", TARGET], &file))
}

/// Has cargo build a project. Gives a file that comes of it.
fn built(project: &Path, options: &[&str], file: &str) -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("../templates");
    let output = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["build", "--release", "--locked", "--manifest-path"])
        .arg(project.join("Cargo.toml"))
        .arg("--target-dir")
        .arg(&target)
        .args(options)
        // Such as those of the sanitizers, which the compiler's plug-ins could not be built with.
        .env_remove("RUSTFLAGS")
        .current_dir(FOLDER)
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    target.join(file)
}
