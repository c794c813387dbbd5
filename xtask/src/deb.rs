//! The Debian package: `cargo xtask deb`.
//!
//! What is in it is listed here, and in `packaging/`. It is put together by `dpkg-deb`, with times
//! that do not depend on when: the same programs make the same package.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::task::{TaskResult, target_folder};

/// Programs, by their names.
const PROGRAMS: [&str; 4] = ["petasosd", "petasos", "petasos-dashboard", "petasos-router"];

/// Other files: from where, and to where.
const FILES: [(&str, &str); 11] = [
    ("packaging/petasosd.service", "usr/lib/systemd/system/petasosd.service"),
    ("packaging/petasosd.sysusers", "usr/lib/sysusers.d/petasosd.conf"),
    ("packaging/petasosd.toml", "etc/petasos/petasosd.toml"),
    ("packaging/petasos-router.service", "usr/lib/systemd/system/petasos-router.service"),
    (
        "packaging/petasos-router-holder.service",
        "usr/lib/systemd/system/petasos-router-holder.service",
    ),
    ("packaging/petasos-router.sysusers", "usr/lib/sysusers.d/petasos-router.conf"),
    ("packaging/petasos-router.toml", "etc/petasos/petasos-router.toml"),
    ("CHANGELOG.md", "usr/share/doc/petasos/CHANGELOG.md"),
    ("LICENSE-APACHE", "usr/share/doc/petasos/LICENSE-APACHE"),
    ("LICENSE-MIT", "usr/share/doc/petasos/LICENSE-MIT"),
    ("packaging/README.md", "usr/share/doc/petasos/README.md"),
];

/// What the package manager runs.
const SCRIPTS: [&str; 3] = ["postinst", "prerm", "postrm"];

/// What the service of a package can do.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Variant {
    /// What it is built with by default.
    Plain,
    /// Plug-ins as WebAssembly modules, too.
    Wasm,
}

/// The line of the unit that a service with modules cannot have: it translates them while it runs.
const NO_TRANSLATION: &str = "MemoryDenyWriteExecute=yes";

/// Builds the programs for use, and the package of them.
pub fn run(root: &Path, variant: Variant) -> TaskResult {
    let target = target_folder(root, "");
    let mut cargo = Command::new("cargo");
    cargo.current_dir(root).args(["build", "--release", "--locked", "--target-dir"]).arg(&target);
    let packages = ["petasosd", "petasos-cli", "petasos-dashboard", "petasos-router-program"];
    cargo.args(packages.iter().flat_map(|package| ["--package", package]));
    if variant == Variant::Wasm {
        cargo.args(["--features", "petasosd/wasm"]);
    }
    finish(&mut cargo)?;
    of(root, &target.join("release"), variant)
}

/// The package of programs that were built before, which lie in a folder.
pub fn of(root: &Path, programs: &Path, variant: Variant) -> TaskResult {
    let package = build(root, programs, &target_folder(root, "deb"), variant)?;
    println!("{}", package.display());
    Ok(())
}

fn build(root: &Path, programs: &Path, folder: &Path, variant: Variant) -> Result<PathBuf, String> {
    let tree = folder.join("tree");
    // There is none the first time.
    let _ = fs::remove_dir_all(&tree);
    for program in PROGRAMS {
        place(&programs.join(program), &tree.join("usr/bin").join(program), 0o755)?;
    }
    for (from, to) in FILES {
        place(&root.join(from), &tree.join(to), 0o644)?;
    }
    if variant == Variant::Wasm {
        let unit = tree.join(FILES[0].1);
        let text = read(&unit)?;
        assert!(text.contains(NO_TRANSLATION), "the unit says so");
        let text = text.replace(NO_TRANSLATION, "MemoryDenyWriteExecute=no");
        fs::write(&unit, text).map_err(|error| format!("{}: {error}", unit.display()))?;
    }
    let (about, here) = (tree.join("DEBIAN"), root.join("packaging/debian"));
    for script in SCRIPTS {
        place(&here.join(script), &about.join(script), 0o755)?;
    }
    place(&here.join("conffiles"), &about.join("conffiles"), 0o644)?;
    let variant = if variant == Variant::Wasm { "+wasm" } else { "" };
    let (version, architecture) = (version(root)? + variant, architecture()?);
    let control = read(&here.join("control"))?
        .replace("@VERSION@", &version)
        .replace("@ARCHITECTURE@", &architecture)
        .replace("@INSTALLED_KIB@", &kib(&tree)?.to_string());
    let path = about.join("control");
    fs::write(&path, control).map_err(|error| format!("{}: {error}", path.display()))?;
    let package = folder.join(format!("petasos_{version}_{architecture}.deb"));
    let mut dpkg = Command::new("dpkg-deb");
    dpkg.env("SOURCE_DATE_EPOCH", "0").args(["--root-owner-group", "--build"]);
    finish(dpkg.arg(&tree).arg(&package))?;
    Ok(package)
}

/// Copies a file, with its folders.
fn place(from: &Path, to: &Path, mode: u32) -> TaskResult {
    let folder = to.parent().expect("it lies in a tree");
    let copied = fs::create_dir_all(folder).and_then(|()| fs::copy(from, to));
    copied
        .and_then(|_| fs::set_permissions(to, fs::Permissions::from_mode(mode)))
        .and_then(|()| open_folders(folder))
        .map_err(|error| format!("cannot copy {}: {error}", from.display()))
}

/// Folders are for all to enter, whatever the mask of who builds.
fn open_folders(folder: &Path) -> std::io::Result<()> {
    let folders = folder.ancestors().take_while(|folder| !folder.ends_with("deb"));
    for folder in folders.take_while(|folder| folder.is_dir()) {
        fs::set_permissions(folder, fs::Permissions::from_mode(0o755))?;
        if folder.ends_with("tree") {
            break;
        }
    }
    Ok(())
}

/// The workspace's version.
fn version(root: &Path) -> Result<String, String> {
    let manifest = read(&root.join("Cargo.toml"))?;
    let line = manifest.lines().find_map(|line| line.strip_prefix("version = \""));
    let version = line.and_then(|rest| rest.strip_suffix('"'));
    version.map(str::to_owned).ok_or_else(|| "Cargo.toml has no version".to_owned())
}

fn architecture() -> Result<String, String> {
    let output = Command::new("dpkg").arg("--print-architecture").output();
    let output = output.map_err(|error| format!("cannot run dpkg: {error}"))?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// What the files of a tree take, in KiB, each rounded up.
fn kib(tree: &Path) -> Result<u64, String> {
    let entries = fs::read_dir(tree).map_err(|error| format!("{}: {error}", tree.display()))?;
    let mut sum = 0;
    for entry in entries.flatten().filter(|entry| entry.file_name() != "DEBIAN") {
        let path = entry.path();
        sum += match path.is_dir() {
            true => kib(&path)?,
            false => entry.metadata().map_or(0, |metadata| metadata.len().div_ceil(1024)),
        };
    }
    Ok(sum)
}

fn finish(command: &mut Command) -> TaskResult {
    let program = command.get_program().to_string_lossy().into_owned();
    let status = command.status().map_err(|error| format!("cannot run {program}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{program} has failed: {status}")) }
}

#[cfg(test)]
mod tests;
