//! What is in `packaging/` starts the service with options that it has.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

#[path = "../../../crates/endpoint/tests/certificates/mod.rs"]
mod certificates;

use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

use certificates::{Authority, Folder};

fn packaging() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging")
}

fn read(name: &str) -> String {
    let path = packaging().join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

/// The command line that has the configuration which is installed.
const INSTALLED: [&str; 2] = ["--config", "/etc/petasos/petasosd.toml"];

/// Checks a configuration, with folders that there are in the place of those that are installed.
fn check(text: &str) -> Result<(), String> {
    let log = std::env::temp_dir().display().to_string();
    let text = text
        .replace("/var/log/petasos", &log)
        .replace("/var/cache/petasos", &format!("{log}/petasosd-no-cache"));
    let mut hash = std::hash::DefaultHasher::new();
    text.hash(&mut hash);
    let name = format!("petasosd-packaging-{}-{:x}.toml", std::process::id(), hash.finish());
    let path = std::env::temp_dir().join(name);
    std::fs::write(&path, text).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_petasosd"));
    let output = command.arg("--check").arg("--config").arg(&path).output().unwrap();
    std::fs::remove_file(&path).unwrap();
    match output.status.code() {
        Some(0) => Ok(()),
        _ => Err(String::from_utf8(output.stderr).unwrap()),
    }
}

#[test]
fn the_unit_starts_as_it_checks() {
    let unit = read("petasosd.service");
    let line = |name: &str| unit.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    let options = |name: &str| {
        let (program, options) = line(name).split_once(' ').unwrap();
        assert_eq!(program, "/usr/bin/petasosd");
        words(options)
    };
    assert_eq!(options("ExecStart="), INSTALLED);
    assert_eq!(options("ExecStartPre="), [&["--check"], &INSTALLED[..]].concat());
    assert_eq!(check(&read("petasosd.toml")), Ok(()));
}

#[test]
fn examples_of_options_are_options() {
    let text = read("petasosd.toml");
    let is_example = |line: &&str| line.starts_with('#') && !line.starts_with("# ");
    let examples: Vec<&str> =
        text.lines().filter(|line| is_example(line) && *line != "#").collect();
    assert_eq!(examples.len(), 10, "{examples:?}");
    // All together. The certificates are the operator's: only their options are looked at.
    let all = examples.iter().fold(text.clone(), |text, line| text.replace(line, &line[1..]));
    let said = check(&all).unwrap_err();
    assert!(said.contains("/etc/petasos/tls/"), "{said}");
    let without: String = all
        .lines()
        .map(|line| if line.starts_with("tls-cert") { "plaintext = true" } else { line })
        .filter(|line| !line.starts_with("tls-"))
        .flat_map(|line| [line, "\n"])
        .collect();
    assert_eq!(check(&without), Ok(()));
}

#[test]
fn the_image_and_the_daemon_set_start_with_configurations_that_are_right() {
    let image = read("Containerfile");
    let command = image.lines().find_map(|line| line.strip_prefix("CMD ")).unwrap();
    let options: Vec<String> = serde_json::from_str(command).unwrap();
    assert_eq!(options, INSTALLED);
    assert!(image.contains("COPY packaging/petasosd.toml /etc/petasos/petasosd.toml"));
    let manifest = read("kubernetes/base/daemonset.yaml");
    let (_, container) = manifest.split_once("- name: petasosd\n").unwrap();
    let (_, arguments) = container.split_once("args:\n").unwrap();
    let options: Vec<&str> =
        arguments.lines().map_while(|line| line.trim().strip_prefix("- ")).collect();
    assert_eq!(options[..2], INSTALLED);
    let configuration = configuration_in(&manifest);
    assert!(configuration.contains("[[policies]]"), "{configuration}");
    assert_eq!(check(configuration), Ok(()));
}

/// The configuration in a manifest.
fn configuration_in(manifest: &str) -> &str {
    let (_, configuration) = manifest.split_once("petasosd.toml: |\n").unwrap();
    configuration.split_once("---").map_or(configuration, |(configuration, _)| configuration)
}

#[test]
fn nodes_that_other_nodes_call_have_a_configuration_that_is_right() {
    let authority = Authority::new("cluster");
    let folder = Folder::new("petasosd-packaging-nodes");
    let files = folder.write(&authority.pem("spiffe://cluster/petasosd"));
    let configuration = read("kubernetes/across-nodes/configuration.yaml");
    let mut configuration = configuration_in(&configuration).to_owned();
    let mounted =
        [("tls.crt", files.certificate), ("tls.key", files.key), ("ca.crt", files.authorities)];
    for (name, file) in mounted {
        let path = format!("/etc/petasos-tls/{name}");
        assert!(configuration.contains(&path), "{name}");
        configuration = configuration.replace(&path, &file.unwrap().display().to_string());
    }
    // No NetworkPolicy applies to the node's network.
    assert!(configuration.contains("metrics = \"127.0.0.1:"), "{configuration}");
    let with_peer = configuration.replace("#peer.geo", "peer.geo");
    assert_ne!(with_peer, configuration);
    assert_eq!([check(&configuration), check(&with_peer)], [Ok(()), Ok(())]);
    // What it names is there.
    let patch = read("kubernetes/across-nodes/network.yaml");
    assert!(
        patch.contains("secretName: petasosd-tls") && patch.contains("mountPath: /etc/petasos-tls")
    );
    let certificate = read("kubernetes/across-nodes/certificate.yaml");
    assert!(certificate.contains("secretName: petasosd-tls"));
    assert!(certificate.contains("- spiffe://cluster/petasosd"));
    for folder in ["base", "across-nodes"] {
        let text = read(&format!("kubernetes/{folder}/kustomization.yaml"));
        let is_path = |line: &&str| line.trim_start().starts_with("- ");
        for line in text.lines().filter(is_path) {
            let name = line.trim().trim_start_matches("- ").trim_start_matches("path: ");
            assert!(packaging().join("kubernetes").join(folder).join(name).exists(), "{line}");
        }
    }
}

#[test]
fn an_option_that_there_is_not_is_found() {
    assert!(check("sockets = '/run/petasos/petasosd.sock'").is_err());
}
