//! What `--check` says of options, and that nothing else happens.

use std::process::{Command, Output};

use crate::support::Daemon;

fn check(arguments: &[&str]) -> (bool, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_petasosd"));
    let Output { status, stdout, stderr } =
        command.arg("--check").args(arguments).output().unwrap();
    let said = [stdout, stderr].concat();
    assert!(matches!(status.code(), Some(0 | 1)), "{status}");
    (status.success(), String::from_utf8(said).unwrap())
}

#[test]
fn options_that_are_right_are_valid_beside_a_service_that_has_them() {
    let policies = r#"[{"application": "*", "kind": "null"}]"#;
    let daemon = Daemon::start("checked", Some(policies));
    let folder = daemon.folder().display().to_string();
    let at = |name: &str| format!("{folder}/{name}");
    let (is_valid, said) = check(&[
        "--socket",
        &at("socket"),
        "--policies",
        &at("policies.json"),
        "--audit",
        &at("audit.log"),
        "--listen",
        "127.0.0.1:7700",
        "--peer",
        "shop=petasos://127.0.0.1:7701",
        "--metrics",
        "127.0.0.1:9464",
        "--viewer",
        "gid:7",
    ]);
    assert!(is_valid, "{said}");
    assert_eq!(said, "petasosd: the configuration is valid: 1 policy\n");
    assert!(!daemon.folder().join("audit.log").exists(), "nothing is written");
    daemon.attach("app");
    assert!(check(&[]).0);
}

#[test]
fn what_is_wrong_is_said_in_a_line() {
    let folder = std::env::temp_dir().join(format!("petasosd-check-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let policies = folder.join("policies.json");
    std::fs::write(&policies, r#"[{"application": "*", "kind": "nul"}]"#).unwrap();
    let (policies, folder_text) = (policies.display().to_string(), folder.display().to_string());
    let long = format!("/{}", "x".repeat(200));
    for (arguments, why) in [
        (&["--policies", &*policies][..], "policies.json: policy 1: there is no kind `nul`"),
        (&["--provider", "udp"], "--provider is for --transport fabric only"),
        (&["--transport", "tcp", "--nic", "127.0.0.1"], "--nic is for --transport fabric only"),
        (&["--cpus", "0,1"], "--cpus has 2 processors for 1 runtimes"),
        (&["--cpus", "4000000000"], "--cpus: there is no processor 4000000000 that this process"),
        (&["--cpus", "1023"], "--cpus: there is no processor 1023 that this process may use"),
        (&["--policies", "/nowhere/policies.json"], "cannot read /nowhere/policies.json"),
        (
            &["--listen", "0.0.0.0:7700"],
            "0.0.0.0:7700 can be reached by other hosts: give --tls-cert",
        ),
        (&["--listen", "192.0.2.1:7700", "--plaintext"], "cannot open the transport"),
        (&["--peer", "shop=nonsense"], "nonsense"),
        (&["--metrics", "0.0.0.0:9464"], "--metrics-plaintext"),
        (&["--tls-cert", "/nowhere/cert.pem"], "--tls-cert, --tls-key and --tls-ca together"),
        (
            &[
                "--tls-cert",
                "/n/c",
                "--tls-key",
                "/n/k",
                "--tls-ca",
                "/n/a",
                "--listen",
                "127.0.0.1:0",
            ],
            "/n/",
        ),
        (&["--allow", "name"], "--allow names nobody"),
        (&["--audit", "/nowhere/audit.log"], "there is no such folder"),
        (&["--audit", &folder_text], "it is a folder"),
        (&["--plugin", "mine=/nowhere/x.so"], "plug-in `mine`"),
        (&["--otlp", "http://h:1"], "--otlp http://h:1: it is neither grpc://HOST:PORT nor"),
        (&["--otlp", "grpcs://h:1"], "it takes certificates of the service"),
        (&["--socket", &long], "at most 103 bytes"),
    ] {
        let (is_valid, said) = check(arguments);
        assert!(!is_valid && said.contains(why), "{arguments:?}: {said}");
        assert!(said.starts_with("petasosd: ") && said.lines().count() == 1, "{said}");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
#[cfg(not(feature = "fabric"))]
fn without_libfabric_the_service_says_how_to_get_it() {
    let (is_valid, said) = check(&["--transport", "fabric", "--listen", "127.0.0.1:0"]);
    assert!(!is_valid && said.contains("built without libfabric"), "{said}");
    assert!(said.contains("--features fabric") && said.contains("libfabric-dev"), "{said}");
}
