//! Checks the sources and the licences of dependencies.
//!
//! cargo-deny is used where it is installed, but it takes minutes to build. So that the step is
//! useful everywhere, the most important checks are done without it, with cargo's own metadata and
//! the list in `deny.toml`: every licence is allowed, everything comes from the crates.io registry,
//! and no package occurs in two versions.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::{TaskResult, skips, tools};

const CONFIGURATION: &str = "deny.toml";
const DATABASE: &str = "https://github.com/rustsec/advisory-db";
const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// Checks every package that a build for Linux uses.
pub fn run(root: &Path) -> TaskResult {
    if tools::is_installed("cargo-deny") {
        let mut command = tools::cargo();
        command.args(["deny", "--offline", "check", "bans", "licenses", "sources"]);
        tools::run(command.current_dir(root))?;
        return advisories(root);
    }
    println!("cargo-deny is not installed; checking licences, sources and versions without it");
    let text = fs::read_to_string(root.join(CONFIGURATION))
        .map_err(|error| format!("cannot read {CONFIGURATION}: {error}"))?;
    let allowed = strings(&text, "licenses", "allow");
    let excepted = strings(&text, "licenses", "exceptions");
    let skipped = strings(&text, "bans", "skip");
    if allowed.is_empty() {
        return Err(format!("{CONFIGURATION} allows no licence under [licenses]"));
    }
    let filter = format!("--filter-platform={}-unknown-linux-gnu", std::env::consts::ARCH);
    let metadata = tools::cargo_metadata(root, &["--all-features", "--locked", &filter])?;
    let packages = metadata["packages"].as_array().ok_or("cargo metadata has no packages")?;
    let complaints = complaints(packages, &allowed, &excepted, &skipped);
    for complaint in &complaints {
        eprintln!("{complaint}");
    }
    match complaints.len() {
        0 => {
            println!("{} packages, nothing to say", packages.len());
            advisories(root)
        }
        count => Err(format!("{count} dependencies are not welcome, see above")),
    }
}

/// Programs that know the advisory database, with their cargo commands. Each fetches the database.
const AUDITORS: [(&str, &[&str]); 2] =
    [("cargo-deny", &["deny", "check", "advisories"]), ("cargo-audit", &["audit"])];

/// Checks for known vulnerabilities of dependencies, if the database can be reached. CI installs a
/// program for this; elsewhere, an installed one is used.
fn advisories(root: &Path) -> TaskResult {
    let database = Command::new("git")
        .args(["ls-remote", "--quiet", "--exit-code", DATABASE, "HEAD"])
        .env("GIT_TERMINAL_PROMPT", "0")
        .stdout(Stdio::null())
        .status();
    if !database.is_ok_and(|status| status.success()) {
        let why = format!("advisories: {DATABASE} cannot be reached");
        return skips::skip(root, "advisories", &why);
    }
    let installed = || AUDITORS.iter().find(|(program, _)| tools::is_installed(program));
    if installed().is_none() && skips::is_ci() {
        let arguments = ["install", "--quiet", "--locked", "--debug", "cargo-audit"];
        tools::run(tools::cargo().args(arguments))?;
    }
    let Some((_, arguments)) = installed() else {
        let why = "advisories: install cargo-audit or cargo-deny with `cargo install --locked`";
        return skips::skip(root, "advisories", why);
    };
    tools::run(tools::cargo().args(*arguments).current_dir(root))
}

/// The first string of each line of the list `key` in `section`.
fn strings<'a>(configuration: &'a str, section: &str, key: &str) -> Vec<&'a str> {
    let lines = configuration.lines().map(str::trim);
    let lines = lines.skip_while(|line| *line != format!("[{section}]")).skip(1);
    let lines = lines.take_while(|line| !line.starts_with('['));
    let list = lines.skip_while(|line| *line != format!("{key} = [")).skip(1);
    list.take_while(|line| *line != "]").filter_map(|line| line.split('"').nth(1)).collect()
}

/// `excepted` has the packages whose licences are accepted individually. `skipped` has those, as
/// `name` or `name@version`, that may occur in several versions.
fn complaints(
    packages: &[Value],
    allowed: &[&str],
    excepted: &[&str],
    skipped: &[&str],
) -> Vec<String> {
    let mut complaints = Vec::new();
    let mut versions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for package in packages {
        let name = package["name"].as_str().unwrap_or_default();
        let licence = package["license"].as_str().unwrap_or_default();
        if !is_allowed(licence, allowed) && !excepted.contains(&name) {
            complaints.push(format!("{name}: licence `{licence}` is not in {CONFIGURATION}"));
        }
        if package["source"].as_str().is_some_and(|source| source != REGISTRY) {
            complaints.push(format!("{name}: comes from {}, not crates.io", package["source"]));
        }
        versions.entry(name).or_default().push(package["version"].as_str().unwrap_or_default());
    }
    let is_skipped = |name: &str| skipped.iter().any(|s| s.split('@').next() == Some(name));
    versions.retain(|name, versions| versions.len() > 1 && !is_skipped(name));
    for (name, versions) in versions {
        complaints.push(format!("{name}: in several versions, {}", versions.join(" and ")));
    }
    complaints
}

/// Whether an SPDX expression can be met: all parts of some alternative are allowed. `/` is how
/// old manifests write OR. Parentheses are only found around alternatives joined by AND, each of
/// which must then be met.
fn is_allowed(expression: &str, allowed: &[&str]) -> bool {
    let expression = expression.replace('/', " OR ");
    let mut depth = 0;
    let mut parts = vec![String::new()];
    for word in expression.replace('(', "( ").replace(')', " )").split_whitespace() {
        match word {
            "(" => depth += 1,
            ")" => depth -= 1,
            "AND" if depth == 0 => parts.push(String::new()),
            word => {
                let part = parts.last_mut().expect("there is always a part");
                part.push_str(if part.is_empty() { "" } else { " " });
                part.push_str(word);
            }
        }
    }
    let alternative = |licences: &str| licences.split(" AND ").all(|name| allowed.contains(&name));
    parts.iter().all(|part| part.split(" OR ").any(alternative))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const ALLOWED: [&str; 3] = ["MIT", "Apache-2.0", "Unicode-3.0"];

    #[test]
    fn lists_are_read_from_their_sections() {
        let text = r#"
            [bans]
            skip = [
                { crate = "a@1.0", reason = "b" },
            ]
            allow = [
                "x",
            ]
            [licenses]
            # one
            allow = [
                "MIT",
                "ISC", # two
            ]
            [sources]
            skip = []
            allow = [
                "y",
            ]
        "#;
        assert_eq!(strings(text, "licenses", "allow"), ["MIT", "ISC"]);
        assert_eq!(strings(text, "bans", "skip"), ["a@1.0"]);
        assert!(strings(text, "sources", "skip").is_empty());
    }

    #[test]
    fn one_alternative_suffices_and_every_part_is_needed() {
        for licence in [
            "MIT",
            "GPL-3.0 OR MIT",
            "GPL-3.0/MIT",
            "(MIT OR GPL-3.0) AND Unicode-3.0",
            "MIT AND Apache-2.0 AND Unicode-3.0",
        ] {
            assert!(is_allowed(licence, &ALLOWED), "{licence}");
        }
        for licence in ["", "GPL-3.0", "MIT AND GPL-3.0", "(MIT OR ISC) AND GPL-3.0", "MIT-0"] {
            assert!(!is_allowed(licence, &ALLOWED), "{licence}");
        }
    }

    fn with_licence(mut package: Value, licence: &str) -> Value {
        package["license"] = licence.into();
        package
    }

    #[test]
    fn licences_sources_and_versions_are_complained_about() {
        let package = |name: &str, version: &str, licence: &str, source: &str| {
            let place = json!({"name": name, "version": version, "source": source});
            with_licence(place, licence)
        };
        let mut packages = vec![
            package("good", "1.0.0", "MIT", REGISTRY),
            json!({"name": "ours", "version": "0.1.0", "license": "MIT", "source": null}),
        ];
        assert!(complaints(&packages, &ALLOWED, &[], &[]).is_empty());
        packages.push(package("good", "2.0.0", "MIT", REGISTRY));
        packages.push(package("far", "1.0.0", "MIT", "git+https://example.org/far"));
        packages.push(package("copyleft", "1.0.0", "GPL-3.0", REGISTRY));
        assert_eq!(complaints(&packages, &ALLOWED, &[], &["good@1.0.0"]).len(), 2);
        assert_eq!(complaints(&packages, &ALLOWED, &["copyleft"], &["good"]).len(), 1);
        let complaints = complaints(&packages, &ALLOWED, &[], &[]);
        assert_eq!(complaints.len(), 3, "{complaints:?}");
        assert!(complaints[2].contains("1.0.0 and 2.0.0"));
    }
}
