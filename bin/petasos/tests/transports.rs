//! `--transport` with real processes: what is chosen, what cannot be had, what happens to peers.

mod support;

use std::time::Duration;

use rustix::process::Signal;
use support::{Petasos, Server, petasos};

/// Whether this process may do what AF_XDP takes; says so if not.
fn is_privileged() -> bool {
    let privileged = rustix::process::geteuid().is_root();
    if !privileged {
        petasos_skips::skip("root", "AF_XDP and network namespaces need root");
    }
    privileged
}

#[test]
fn calls_work_over_every_transport_of_one_host() {
    for server in ["auto", "shm"] {
        let server = Server::start(&["--transport", server]);
        for client in ["auto", "shm"] {
            let answer = server.call(&["echo", "over rings", "--transport", client]);
            assert_eq!(answer.success(), "over rings\n");
        }
    }
    let server = Server::start(&["--transport", "udp"]);
    for client in ["auto", "udp"] {
        let answer = server.call(&["echo", "over sockets", "--transport", client]);
        assert_eq!(answer.success(), "over sockets\n");
    }
    let server = Server::start(&["--transport", "tcp"]);
    let answer = server.call(&["echo", "over connections", "--transport", "tcp"]);
    assert_eq!(answer.success(), "over connections\n");
    // C7: they cannot hear each other, and are told.
    let finished = server.call(&["echo", "x", "--transport", "udp"]);
    let line = finished.failure();
    assert!(line.contains("transports or settings do not fit"), "{line}");
}

#[test]
fn an_unknown_transport_is_named_with_those_that_exist() {
    let finished = petasos(&["serve", "--transport", "pigeon"]);
    assert_eq!(finished.code, Some(2), "{finished:?}");
    let said = &finished.stderr;
    assert!(said.contains("pigeon") && said.contains("auto, udp, tcp, shm, xdp"), "{said}");
}

#[test]
fn a_server_without_shared_memory_is_named_with_advice() {
    let server = Server::start(&["--transport", "udp"]);
    let finished = server.call(&["echo", "x", "--transport", "shm"]);
    let line = finished.failure();
    assert!(line.contains("offers no shared memory") && line.contains("on one host"), "{line}");
    let server = Server::start(&["--transport", "shm"]);
    let finished = server.call(&["echo", "x", "--transport", "udp"]);
    let line = finished.failure();
    assert!(line.contains("transports or settings do not fit"), "{line}");
}

#[test]
fn an_interface_without_af_xdp_is_named_with_advice() {
    let finished = petasos(&["serve", "--interface", "lo"]);
    assert!(finished.failure().contains("add --transport xdp"), "{finished:?}");
    let finished = petasos(&["serve", "--transport", "xdp", "--listen", "127.0.0.1:0"]);
    let line = finished.failure();
    assert!(line.contains("interface lo is not Ethernet"), "{line}");
    let wanting = ["serve", "--transport", "xdp", "--interface", "none0", "--listen", "0.0.0.0:0"];
    let finished = petasos(&[&wanting[..], &["--plaintext"]].concat());
    assert!(finished.failure().contains("no interface none0"), "{finished:?}");
    let finished = petasos(&["demo", "--transport", "xdp"]);
    assert!(finished.failure().contains("--connect"), "{finished:?}");
}

#[test]
fn without_privileges_af_xdp_is_refused_with_advice() {
    if !is_privileged() || !has("setpriv") {
        return;
    }
    let script = "ip link add v0 type veth peer name v1 && ip addr add 10.9.9.1/24 dev v0 && \
                  ip link set v0 up && ip link set v1 up && exec setpriv --bounding-set=-all \
                  --inh-caps=-all --reuid=65534 --clear-groups \"$0\" serve --transport xdp \
                  --plaintext --listen 10.9.9.1:0";
    let line = apart(script);
    assert!(line.contains("no permission to") && line.contains("CAP_NET_ADMIN"), "{line}");
}

#[test]
fn an_interface_that_is_down_is_named_with_advice() {
    if !is_privileged() {
        return;
    }
    let script = "ip link add v0 type veth peer name v1 && ip addr add 10.9.9.1/24 dev v0 && \
                  exec \"$0\" serve --plaintext --transport xdp --interface v0 \
                  --listen 10.9.9.1:0";
    let line = apart(script);
    assert!(line.contains("interface v0 is down: `ip link set v0 up`"), "{line}");
}

fn has(program: &str) -> bool {
    let found = std::process::Command::new(program).arg("--version").output().is_ok();
    if !found {
        petasos_skips::skip(program, format!("there is no `{program}`"));
    }
    found
}

/// Runs a script in a network namespace of its own; `$0` is the program. The line it fails with.
fn apart(script: &str) -> String {
    let output = std::process::Command::new("unshare")
        .args(["--net", "timeout", "60", "sh", "-c", script, env!("CARGO_BIN_EXE_petasos")])
        .current_dir(std::env::temp_dir())
        .output()
        .expect("util-linux is installed");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    let line = said.lines().find(|line| line.starts_with("petasos: "));
    line.unwrap_or_else(|| panic!("no failure in {said}")).to_owned()
}

#[test]
fn a_server_killed_over_rings_is_noticed() {
    for transport in ["auto", "shm"] {
        let server = Server::start(&["--transport", transport]);
        // Method 5 takes its first four bytes for a delay.
        let args = ["raw", &server.address, "method", "5", "zzzz", "--timeout", "100000"];
        let waiting = Petasos::start(&[&args[..], &["--transport", transport]].concat());
        server.await_figure("requests.running", |running| running == 1);
        server.process.send(Signal::KILL);
        let finished = waiting.finish_within(Duration::from_secs(60));
        let line = finished.failure();
        assert!(line.contains("lost the server") && line.contains("restart"), "{line}");
    }
}

#[test]
fn a_client_killed_over_rings_harms_nobody() {
    let server = Server::start(&["--transport", "auto"]);
    let args = ["raw", &server.address, "method", "5", "zzzz", "--timeout", "60000"];
    let client = Petasos::start(&args);
    server.await_figure("requests.running", |running| running == 1);
    client.send(Signal::KILL);
    assert_eq!(client.finish().code, None);
    assert_eq!(server.call(&["echo", "undisturbed"]).success(), "undisturbed\n");
}

#[test]
fn the_doctor_names_every_facility_and_fails_only_if_asked() {
    let finished = petasos(&["doctor"]);
    let text = finished.success();
    let names = [
        "udp",
        "udp-gso",
        "udp-gro",
        "udp-ecn",
        "udp-receive-buffer",
        "shm",
        "xdp",
        "xdp:lo",
        "dpdk",
        "fabric",
        "privileges",
        "huge-pages",
        "locked-memory",
        "processors",
        "clock",
    ];
    for name in names {
        assert!(text.contains(&format!("| {name} ")), "no {name} in\n{text}");
    }
    let json = petasos(&["doctor", "--json"]);
    let json: serde_json::Value = serde_json::from_str(json.success()).expect("it is JSON");
    let facilities = json["facilities"].as_array().expect("a list");
    let state = |name: &str| {
        let found = facilities.iter().find(|each| each["name"] == name);
        found.unwrap_or_else(|| panic!("no {name}"))["state"].clone()
    };
    assert_eq!(state("shm"), "yes");
    assert_eq!(state("xdp:lo"), "no");
    assert_eq!(petasos(&["doctor", "--require", "udp", "--require", "shm"]).code, Some(0));
    let finished = petasos(&["doctor", "--require", "xdp:lo"]);
    assert!(finished.failure().contains("xdp:lo is missing"), "{finished:?}");
    let finished = petasos(&["doctor", "--require", "pigeon"]);
    assert!(finished.failure().contains("no facility"), "{finished:?}");
}
