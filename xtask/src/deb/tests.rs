//! What is in the package, as `dpkg-deb` and systemd see it.

use super::*;

/// A package of two scripts in the place of the programs; none without `dpkg-deb`.
fn package(name: &str) -> Option<(PathBuf, PathBuf)> {
    variant(name, Variant::Plain)
}

fn variant(name: &str, variant: Variant) -> Option<(PathBuf, PathBuf)> {
    let root = crate::root();
    if Command::new("dpkg-deb").arg("--version").output().is_err() {
        crate::skips::skip(&root, "dpkg-deb", "there is no dpkg-deb").expect("CI has it");
        return None;
    }
    let folder = std::env::temp_dir().join(format!("xtask-{}-{name}", std::process::id()));
    let programs = folder.join("programs");
    fs::create_dir_all(&programs).unwrap();
    for program in PROGRAMS {
        fs::write(programs.join(program), "#!/bin/sh\n").unwrap();
    }
    let package = build(&root, &programs, &folder.join("deb"), variant).unwrap();
    Some((folder, package))
}

fn said(program: &str, arguments: &[&str], package: &Path) -> String {
    let output = Command::new(program).args(arguments).arg(package).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_package_has_what_it_says_owned_by_root() {
    let Some((folder, package)) = package("contents") else { return };
    assert!(package.file_name().unwrap().to_str().unwrap().starts_with("petasos_"));
    let list = said("dpkg-deb", &["-c"], &package);
    let mut found: Vec<(&str, &str)> = Vec::new();
    for line in list.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        assert_eq!(words[1], "root/root", "{line}");
        match words[0].starts_with('d') {
            true => assert_eq!(words[0], "drwxr-xr-x", "{line}"),
            false => found.push((words[0], words.last().unwrap())),
        }
    }
    let programs = PROGRAMS.map(|program| ("-rwxr-xr-x", format!("./usr/bin/{program}")));
    let files = FILES.map(|(_, to)| ("-rw-r--r--", format!("./{to}")));
    let mut expected: Vec<(&str, &str)> =
        programs.iter().chain(&files).map(|(mode, path)| (*mode, &**path)).collect();
    found.sort_unstable();
    expected.sort_unstable();
    assert_eq!(found, expected);
    let control = said("dpkg-deb", &["-f"], &package);
    assert!(control.contains(&format!("Version: {}\n", version(&crate::root()).unwrap())));
    assert!(!control.contains('@') || control.matches('@').count() == 1, "{control}");
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn scripts_are_shell_and_what_operators_edit_is_kept() {
    let Some((folder, package)) = package("scripts") else { return };
    let about = folder.join("about");
    let extracted = Command::new("dpkg-deb").arg("-e").arg(&package).arg(&about).status();
    assert!(extracted.unwrap().success());
    for script in SCRIPTS {
        said("sh", &["-n"], &about.join(script));
    }
    let kept = fs::read_to_string(about.join("conffiles")).unwrap();
    let mut kept: Vec<&str> = kept.lines().collect();
    kept.sort_unstable();
    let mut etc: Vec<String> = FILES
        .iter()
        .filter(|(_, to)| to.starts_with("etc/"))
        .map(|(_, to)| format!("/{to}"))
        .collect();
    etc.sort_unstable();
    assert_eq!(kept, etc);
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_service_with_modules_may_translate_them_and_is_hardened_otherwise() {
    let Some((folder, package)) = variant("wasm", Variant::Wasm) else { return };
    let control = said("dpkg-deb", &["-f"], &package);
    assert!(control.contains(&format!("Version: {}+wasm\n", version(&crate::root()).unwrap())));
    let tree = folder.join("contents");
    let extracted = Command::new("dpkg-deb").arg("-x").arg(&package).arg(&tree).status();
    assert!(extracted.unwrap().success());
    let unit = read(&tree.join(FILES[0].1)).unwrap();
    let plain = read(&crate::root().join(FILES[0].0)).unwrap();
    let changed: Vec<_> = plain.lines().zip(unit.lines()).filter(|(one, it)| one != it).collect();
    assert_eq!(changed, [(NO_TRANSLATION, "MemoryDenyWriteExecute=no")]);
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn the_same_programs_make_the_same_package() {
    let Some((one, package_one)) = package("one") else { return };
    let Some((other, package_other)) = package("other") else { return };
    assert!(fs::read(package_one).unwrap() == fs::read(package_other).unwrap());
    fs::remove_dir_all(one).unwrap();
    fs::remove_dir_all(other).unwrap();
}

/// The units.
const UNITS: [&str; 3] =
    ["petasosd.service", "petasos-router.service", "petasos-router-holder.service"];

/// What systemd says of a unit, with a program that exists; none without systemd.
fn analyzed(unit: &str, name: &str, arguments: &[&str]) -> Option<String> {
    let root = crate::root();
    if Command::new("systemd-analyze").arg("--version").output().is_err() {
        crate::skips::skip(&root, "systemd", "there is no systemd-analyze")
            .expect("CI may lack it");
        return None;
    }
    let folder = std::env::temp_dir().join(format!("xtask-{}-{name}-{unit}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let text = read(&root.join("packaging").join(unit)).unwrap();
    let path = folder.join(unit);
    let text = PROGRAMS
        .iter()
        .fold(text, |text, program| text.replace(&format!("/usr/bin/{program} "), "/bin/true "));
    fs::write(&path, text).unwrap();
    let output = Command::new("systemd-analyze").args(arguments).arg(&path).output().unwrap();
    fs::remove_dir_all(&folder).unwrap();
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    assert!(output.status.success(), "{text}");
    Some(text)
}

#[test]
fn systemd_takes_the_units() {
    for unit in UNITS {
        let Some(said) = analyzed(unit, "verify", &["verify", "--man=no"]) else { return };
        // It looks at units of the system as well.
        let about: Vec<&str> = said.lines().filter(|line| line.contains(unit)).collect();
        assert!(about.is_empty(), "{said}");
    }
}

#[test]
fn the_units_are_hardened() {
    // The highest exposure that is taken, in tenths: of 100, and of 92 without any hardening.
    let arguments = ["security", "--offline=yes", "--threshold=20", "--no-pager"];
    for unit in UNITS {
        let Some(said) = analyzed(unit, "security", &arguments) else { return };
        // What is above the threshold has another exit status.
        assert!(said.contains("Overall exposure level"), "{said}");
    }
}
