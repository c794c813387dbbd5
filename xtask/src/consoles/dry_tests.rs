//! Lines for cargo, and for programs that know a few options.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use super::*;

/// A program with the options `--socket` and `--wait`, which begins to work without `--help`.
const PROGRAM: &str = "#!/bin/sh
for word; do
    case $word in
        --help) exit 0 ;;
        --socket | --wait) ;;
        -*) echo \"no option $word\" >&2; exit 2 ;;
    esac
done
echo 'this was run' >&2
exit 1
";

/// A folder with programs. It is removed at the end.
struct Programs(PathBuf);

impl Programs {
    fn new(name: &str) -> Programs {
        let folder = std::env::temp_dir().join(format!("xtask-dry-{}-{name}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        for program in ["petasos", "petasosd"] {
            let path = folder.join(program);
            fs::write(&path, PROGRAM).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        Programs(folder)
    }

    fn check(&self, command: &str) -> Result<(), String> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        check(root, &self.0, command)
    }
}

impl Drop for Programs {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).unwrap();
    }
}

#[test]
fn options_must_exist_behind_variables_and_sudo() {
    let programs = Programs::new("variables");
    for line in ["A=b petasosd", "sudo petasosd", "env A='b c' D=e petasosd", "sudo A=b petasosd"] {
        assert_eq!(programs.check(&format!("{line} --socket path")), Ok(()));
        let error = programs.check(&format!("{line} --sockt path")).unwrap_err();
        assert!(error.contains("no option --sockt"), "{error}");
    }
    assert!(programs.check("RUSTFLAGS=-D cargo +nightly build --releas").is_err());
    assert_eq!(programs.check("RUSTFLAGS=-D cargo +nightly build --release"), Ok(()));
}

#[test]
fn options_of_each_command_of_a_line_must_exist() {
    let programs = Programs::new("lines");
    assert_eq!(programs.check("echo a | petasos --wait && petasosd > /nowhere/file"), Ok(()));
    assert!(programs.check("echo a | petasos --wit").is_err());
    assert!(programs.check("petasos --wait && petasosd --sockt").is_err());
}

#[test]
fn words_behind_two_dashes_are_for_the_program_that_is_started() {
    let programs = Programs::new("dashes");
    for line in [
        "petasos ctl upgrade new --wait \\\n --socket file --",
        "cargo run -p petasosd --",
        "cargo run --package petasos-cli --",
        "cargo run --release --bin petasos --",
    ] {
        assert_eq!(programs.check(&format!("{line} \\\n    --socket path")), Ok(()));
        let error = programs.check(&format!("{line} --sockt path")).unwrap_err();
        assert!(error.contains("no option --sockt"), "{error}");
    }
    for line in ["cargo run -p hello", "cargo run -p petasosd --example a", "cargo test"] {
        assert_eq!(programs.check(&format!("{line} -- --sockt")), Ok(()));
    }
}

#[test]
fn options_of_cargo_and_words_of_tasks_must_exist() {
    let programs = Programs::new("cargo");
    assert_eq!(programs.check("cargo build --release -p any   # a comment"), Ok(()));
    assert!(programs.check("cargo build --releas").unwrap_err().contains("--releas"));
    assert_eq!(programs.check("cargo xtask ci fmt"), Ok(()));
    for (line, expected) in [
        ("cargo xtask sing", "sing"),
        ("cargo xtask ci nonsense", "`nonsense` is no STEP"),
        ("CI=true cargo xtask icount --chek", "--chek"),
    ] {
        let error = programs.check(line).unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn of_other_programs_the_syntax_is_checked() {
    let programs = Programs::new("others");
    assert_eq!(programs.check("pip install ./python"), Ok(()));
    assert!(programs.check("pip install './python").is_err());
}
