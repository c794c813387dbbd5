//! The errors of wrong messages: the compiler reports each at its place, and none besides.
//!
//! In the files of `wrong`, the comment of a wrong line quotes the text that the error points at,
//! and the beginning of the error: ``//~ `txet`: no method named``.

// The compiler of the files below loads the macro, which cargo builds for those who use it.
use petasos_macros as _;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

/// An error's line and column, and its text.
type Reported = (usize, usize, String);

/// The macro's library. Cargo puts it beside the tests, or, if these are built for a named target,
/// beside those of the host. After a change of the compiler or its flags there are several, of
/// which the last one was built for this test.
fn library() -> PathBuf {
    let test = std::env::current_exe().expect("the test is a file");
    let folder = test.parent().expect("it is in a folder");
    let folders = [folder.to_owned(), folder.join("../../../debug/deps")];
    let files = folders.iter().flat_map(fs::read_dir).flatten().flatten();
    let libraries = files.filter(|file| {
        let name = file.file_name().to_string_lossy().into_owned();
        name.starts_with("libpetasos_macros-") && name.ends_with(std::env::consts::DLL_SUFFIX)
    });
    let built = |file: &fs::DirEntry| {
        let modified = file.metadata().and_then(|metadata| metadata.modified());
        modified.unwrap_or(SystemTime::UNIX_EPOCH)
    };
    libraries.max_by_key(built).expect("cargo has built the macro").path()
}

/// What the compiler reports for this file, in order.
fn reported(path: &Path) -> Vec<Reported> {
    let mut macros = std::ffi::OsString::from("petasos_macros=");
    macros.push(library());
    let mut command = Command::new(std::env::var_os("RUSTC").unwrap_or("rustc".into()));
    command.args(["--crate-type=lib", "--edition=2024", "--emit=metadata", "--out-dir"]);
    command.arg(env!("CARGO_TARGET_TMPDIR"));
    command.args(["--error-format=short", "-Awarnings", "--extern"]).arg(macros).arg(path);
    let output = command.output().expect("the compiler that built this is there");
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    let lines = stderr.lines().filter_map(|line| line.strip_prefix(path.to_str()?));
    let mut errors: Vec<Reported> = lines.filter_map(position).collect();
    assert!(!errors.is_empty(), "{stderr}");
    errors.sort();
    errors
}

/// Takes `:LINE:COLUMN: error[CODE]: TEXT` apart.
fn position(rest: &str) -> Option<Reported> {
    let mut parts = rest.strip_prefix(':')?.splitn(3, ':');
    let (line, column) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    let (_, text) = parts.next()?.split_once(": ")?;
    Some((line, column, text.to_owned()))
}

/// What the comments announce.
fn expected(text: &str) -> Vec<Reported> {
    let announced = text.lines().enumerate().filter_map(|(index, line)| {
        let (code, comment) = line.split_once(" //~ `")?;
        let (place, error) = comment.split_once("`: ").expect("a place and an error");
        let byte = code.rfind(place).expect("the line has the place");
        Some((index + 1, code[..byte].chars().count() + 1, error.to_owned()))
    });
    announced.collect()
}

fn check(name: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/wrong").join(name);
    let expected = expected(&fs::read_to_string(&path).expect("it is in the repository"));
    let reported = reported(&path);
    for ((line, column, beginning), error) in expected.iter().zip(&reported) {
        assert_eq!((*line, *column), (error.0, error.1), "{beginning}: {error:?}");
        assert!(error.2.starts_with(beginning), "{name}:{line}: {error:?}");
    }
    assert_eq!(expected.len(), reported.len(), "{reported:#?}");
}

#[test]
fn the_macro_reports_wrong_syntax() {
    check("syntax.rs");
}

#[test]
fn the_compiler_reports_wrong_names_and_types() {
    check("types.rs");
}
