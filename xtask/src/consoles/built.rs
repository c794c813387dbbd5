//! `cargo run` of what the workspace's build has made.

use std::path::Path;

use super::dry::started;
use super::line::words;

/// The command line that starts the program which `cargo run --quiet …` names, if the workspace's
/// build has made it. Cargo would build it, and most of what it depends on, a second time, with the
/// features that it asks for alone. With another profile cargo runs it, as with anything unknown.
pub fn built(programs: &Path, command: &str) -> Option<String> {
    let words = words(command);
    let dashes = words.iter().position(|word| *word == "--").unwrap_or(words.len());
    let (own, behind) = words.split_at(dashes);
    let ["cargo", "run", "--quiet", selection @ ..] = own else { return None };
    let path = match selection {
        ["-p", _, "--example", example] => programs.join("examples").join(example),
        ["-p", _] | ["--bin", _] => programs.join(started(own)?),
        _ => return None,
    };
    let arguments = behind.get(1..).unwrap_or_default();
    let program = path.is_file().then(|| path.display().to_string())?;
    Some([&[program.as_str()], arguments].concat().join(" "))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn programs_of_the_build_are_run_from_there() {
        let folder = std::env::temp_dir().join(format!("built-test-{}", std::process::id()));
        fs::create_dir_all(folder.join("examples")).unwrap();
        for name in ["one", "petasos", "examples/two"] {
            fs::write(folder.join(name), "").unwrap();
        }
        let built = |command| {
            let line = built(&folder, command)?;
            Some(line.replace(&folder.display().to_string(), "F"))
        };
        assert_eq!(built("cargo run --quiet -p one").unwrap(), "F/one");
        assert_eq!(built("cargo run --quiet -p one -- a 'b c'  # d").unwrap(), "F/one a 'b c'");
        assert_eq!(built("cargo run --quiet -p petasos-cli -- list").unwrap(), "F/petasos list");
        assert_eq!(built("cargo run --quiet -p x --example two").unwrap(), "F/examples/two");
        for cargos in [
            "cargo run --quiet -p three",
            "cargo run --quiet --release -p one",
            "cargo run -p one",
            "cargo build --quiet -p one",
            "one",
        ] {
            assert_eq!(built(cargos), None, "{cargos}");
        }
        fs::remove_dir_all(&folder).unwrap();
    }
}
