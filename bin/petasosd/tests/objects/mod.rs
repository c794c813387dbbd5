//! Plug-ins that tests compile.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Compiles a source of the plug-in crate, with definitions. None, and says so, if there is no
/// compiler.
pub fn compile(source: &str, definitions: &[&str]) -> Option<String> {
    if Command::new("cc").arg("--version").output().is_err() {
        petasos_skips::skip("cc", "there is no C compiler `cc`");
        return None;
    }
    let plugin = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates/plugin");
    // Tests that compile the same run at the same time.
    let test = std::thread::current().name().expect("tests have names").to_owned();
    let name = format!("{test}-{source}-{}.so", definitions.join("-"));
    let name = name.replace(['/', ':'], "-");
    let object: PathBuf = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let output = Command::new("cc")
        .args(["-std=c11", "-O1", "-shared", "-fPIC", "-I"])
        .arg(plugin.join("include"))
        .args(definitions.iter().map(|definition| format!("-D{definition}")))
        .arg(plugin.join(source))
        .arg("-o")
        .arg(&object)
        .output()
        .expect("the compiler runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(object.to_str().expect("the path is text").to_owned())
}
