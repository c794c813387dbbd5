//! `--transport dpdk` and `fabric` with real processes: with the cargo features of these names over
//! devices and providers of software, without them the answer that says how to get them.

mod support;

use support::{Finished, petasos};

/// Whether the doctor's table has a line that begins with these words.
fn doctor_says(finding: &str, state: &str) -> bool {
    let finished = petasos(&["doctor"]);
    let columns = |line: &str| line.split('|').map(|cell| cell.trim().to_owned()).collect();
    finished.success().lines().any(|line| {
        let columns: Vec<String> = columns(line);
        columns.get(1).is_some_and(|name| name == finding)
            && columns.get(2).is_some_and(|word| word == state)
    })
}

/// Opening `--transport` with these arguments, which fails.
fn refusal(command: &[&str], more: &[&str]) -> String {
    let finished: Finished = petasos(&[command, more].concat());
    finished.failure().to_owned()
}

#[cfg(not(feature = "dpdk"))]
#[test]
fn without_dpdk_the_program_says_how_to_get_it() {
    let serve = ["serve", "--listen", "127.0.0.1:0"];
    let line = refusal(&serve, &["--transport", "dpdk", "--device", "net_ring0"]);
    assert!(line.contains("built without") && line.contains("--features dpdk"), "{line}");
    let line = refusal(&serve, &["--device", "net_ring0"]);
    assert!(line.contains("--device is for DPDK only"), "{line}");
    assert!(doctor_says("dpdk", "no"));
}

#[cfg(not(feature = "fabric"))]
#[test]
fn without_libfabric_the_program_says_how_to_get_it() {
    let line = refusal(&["raw", "127.0.0.1:9", "echo", "x"], &["--transport", "fabric"]);
    assert!(line.contains("built without") && line.contains("--features fabric"), "{line}");
    assert!(doctor_says("fabric", "no"));
}

#[cfg(feature = "fabric")]
mod fabric {
    use std::time::Duration;

    use super::support::{Folder, Petasos, Server};
    use super::*;
    use rustix::process::Signal;

    const UDP: [&str; 4] = ["--transport", "fabric", "--provider", "udp"];

    fn call(server: &Server, args: &[&str]) -> Finished {
        server.call(&[args, &UDP].concat())
    }

    #[test]
    fn calls_of_all_lengths_work() {
        let server = Server::start(&UDP);
        assert_eq!(call(&server, &["echo", "over a fabric"]).success(), "over a fabric\n");
        let value: String = (0..200_000).map(|number| format!("{number} ")).collect();
        let args = ["raw", &server.address, "put", "1", "-"];
        let mut put = Petasos::start(&[&args[..], &UDP].concat());
        put.feed(value.as_bytes());
        assert_eq!(put.finish().success(), "stored\n");
        assert!(call(&server, &["get", "1"]).success().trim_end() == value.trim_end());
        assert!(doctor_says("fabric:udp:lo", "yes"));
        // A signal lets the server finish what it has begun.
        let mut told = Server::start(&UDP);
        told.process.send(Signal::TERM);
        told.process.hear("petasos: told to stop");
        assert_eq!(told.process.finish().code, Some(0));
        // A fabric's messages hold several packets (C7), so that sockets are no peers.
        let answer = server.call(&["echo", "from a socket", "--transport", "udp"]);
        let line = answer.failure();
        assert!(line.contains("refused the session") && line.contains("--transport"), "{line}");
    }

    #[test]
    fn several_endpoints_and_the_demo_work() {
        let server =
            Server::start(&[&UDP[..], &["--endpoints", "2", "--polling", "spin"]].concat());
        for _ in 0..2 {
            assert_eq!(call(&server, &["echo", "either"]).success(), "either\n");
        }
        let folder = Folder::new("fabric-demo");
        let (text, report) = (folder.file("text", b"one\ntwo\nthree\n"), folder.path("report"));
        let demo = petasos(&[&["demo", "--file", &text, "--report", &report], &UDP[..]].concat());
        assert!(demo.success().contains("every byte was right"), "{demo:?}");
    }

    #[test]
    fn what_cannot_be_had_is_named_with_advice() {
        let serve = ["serve", "--transport", "fabric", "--listen", "127.0.0.1:0"];
        let line = refusal(&serve, &["--provider", "no-such-provider"]);
        assert!(line.contains("no libfabric provider called no-such-provider"), "{line}");
        let line = refusal(&serve, &["--provider", "udp", "--domain", "nic9"]);
        assert!(line.contains("called udp with a domain nic9"), "{line}");
        let any = ["serve", "--plaintext", "--listen", "0.0.0.0:0"];
        let line = refusal(&any, &["--transport", "fabric"]);
        assert!(line.contains("belongs to no single interface"), "{line}");
        let line = refusal(&any, &["--provider", "udp"]);
        assert!(line.contains("--provider is for libfabric only"), "{line}");
    }

    #[test]
    fn a_killed_server_is_noticed_and_a_killed_client_harms_nobody() {
        let server = Server::start(&UDP);
        let start = || {
            // Method 5 takes its first four bytes for a delay.
            let args = ["raw", &server.address, "method", "5", "zzzz", "--timeout", "100000"];
            let waiting = Petasos::start(&[&args[..], &UDP].concat());
            server.await_figure_over("requests.running", &UDP, |running| running == 1);
            waiting
        };
        let client = start();
        client.send(Signal::KILL);
        assert_eq!(client.finish().code, None);
        server.await_figure_over("requests.running", &UDP, |running| running == 0);
        let waiting = start();
        server.process.send(Signal::KILL);
        let finished = waiting.finish_within(Duration::from_secs(60));
        let line = finished.failure();
        assert!(line.contains("lost the server") && line.contains("restart"), "{line}");
    }
}

#[cfg(feature = "dpdk")]
mod dpdk {
    use std::fs::File;
    use std::os::fd::AsRawFd;
    use std::process::Command;
    use std::sync::mpsc::channel;
    use std::sync::{Mutex, MutexGuard, PoisonError};
    use std::time::Duration;

    use nix::sched::{CloneFlags, unshare};
    use rustix::process::Signal;

    use super::support::{Folder, Petasos, Server};
    use super::*;

    /// One test at a time: loops over DPDK never sleep, and starve each other on few processors.
    fn alone() -> MutexGuard<'static, ()> {
        static ALONE: Mutex<()> = Mutex::new(());
        ALONE.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// For processors that others use as well.
    const PATIENCE: [&str; 2] = ["--timeout", "60000"];

    /// Moves this thread, and the processes that it starts, into a network of their own. False if
    /// that is not permitted here.
    fn leave() -> bool {
        if let Err(error) = unshare(CloneFlags::CLONE_NEWNET) {
            petasos_skips::skip("root", format!("cannot make a network namespace: {error}"));
            return false;
        }
        ip("link set lo up");
        true
    }

    /// The same, with a pair of interfaces there, `v0` and `v1`, without addresses.
    fn leave_with_pair() -> bool {
        let left = leave();
        if left {
            ip("link add v0 type veth peer name v1");
            ip("link set v0 up");
            ip("link set v1 up");
        }
        left
    }

    fn ip(arguments: &str) {
        let status = Command::new("ip").args(arguments.split(' ')).status();
        assert!(status.expect("iproute2 is installed").success(), "ip {arguments}");
    }

    /// A port and its own address, as options.
    fn port<'a>(device: &'a str, address: &'a str) -> [&'a str; 7] {
        ["--plaintext", "--transport", "dpdk", "--device", device, "--data-address", address]
    }

    const V0: &str = "net_af_packet0,iface=v0";
    const V1: &str = "net_af_packet0,iface=v1";

    /// Stores a value of many packets through `client`, and gets it back.
    fn exchange(server: &Server, client: &[&str]) {
        let value = "many packets ".repeat(5000);
        let args = ["raw", &server.address, "put", "1", "-"];
        let mut put = Petasos::start(&[&args[..], client, &PATIENCE].concat());
        put.feed(value.as_bytes());
        assert_eq!(put.finish().success(), "stored\n");
        let got = server.call(&[&["get", "1"], client, &PATIENCE].concat());
        assert!(got.success().trim_end() == value.trim_end());
    }

    /// The control connection takes the kernel's loopback, packets another way, between addresses
    /// that the kernel does not have.
    #[test]
    fn calls_work_over_packet_sockets() {
        let _alone = alone();
        if !leave_with_pair() {
            return;
        }
        let server = Server::start(&port(V0, "10.9.9.1/24"));
        let client = port(V1, "10.9.9.2/24");
        let answer = server.call(&[&["echo", "over frames"], &client[..], &PATIENCE].concat());
        assert_eq!(answer.success(), "over frames\n");
        exchange(&server, &client);
        // Another neighbour is found as the first one was.
        let client = port(V1, "10.9.9.3/24");
        assert_eq!(
            server.call(&[&["echo", "x"], &client[..], &PATIENCE].concat()).success(),
            "x\n"
        );
        let v6 = Server::start(&port("net_af_packet1,iface=v0", "fd99::1/64"));
        let client = port(V1, "fd99::2");
        assert_eq!(
            v6.call(&[&["echo", "six"], &client[..], &PATIENCE].concat()).success(),
            "six\n"
        );
    }

    /// Two hosts, whose kernels have the addresses, too: no option but the device is needed.
    #[test]
    fn an_address_may_be_the_kernels_too() {
        let _alone = alone();
        if !leave() {
            return;
        }
        let (ready, interface) = (channel(), channel());
        let far = std::thread::spawn(move || {
            assert!(leave(), "this thread's parent could");
            let own = File::open("/proc/thread-self/ns/net").expect("it is there");
            ready.0.send(own).expect("it waits");
            interface.1.recv().expect("it is being made");
            ip("addr add 10.9.9.1/24 dev v1");
            ip("link set v1 up");
            let dpdk = ["--plaintext", "--transport", "dpdk", "--device", V1];
            Server::start_at("10.9.9.1:7411", &dpdk)
        });
        let namespace = ready.1.recv().expect("the thread says where it is");
        let path = format!("/proc/{}/fd/{}", std::process::id(), namespace.as_raw_fd());
        ip(&format!("link add v0 type veth peer name v1 netns {path}"));
        ip("addr add 10.9.9.2/24 dev v0");
        ip("link set v0 up");
        interface.0.send(()).expect("it waits");
        let server = far.join().expect("the server starts");
        exchange(&server, &["--plaintext", "--transport", "dpdk", "--device", V0]);
    }

    /// Rings in memory that two processes share; needs no privilege. Each server gets one client:
    /// when a client leaves, DPDK 22.11's driver may take its server's process with it, since its
    /// own thread unmaps the rings while the server polls them.
    #[test]
    fn calls_work_over_shared_memory() {
        let _alone = alone();
        let value = "many packets ".repeat(5000);
        let (server, client, _folder) = memory();
        let client = client.each_ref().map(String::as_str);
        let echo = server.call(&[&["echo", &value], &client[..], &PATIENCE].concat());
        assert!(echo.success().trim_end() == value.trim_end());
    }

    /// The memory's server is away for a moment: clients ask again.
    #[test]
    fn a_client_waits_for_the_shared_memory() {
        let _alone = alone();
        let (server, client, folder) = memory();
        let (path, away) = (folder.path("socket"), folder.path("away"));
        std::fs::rename(&path, &away).expect("the server made it");
        let args = ["raw", &server.address, "echo", "patient"];
        let client = client.each_ref().map(String::as_str);
        let mut waiting = Petasos::start(&[&args[..], &client, &PATIENCE].concat());
        waiting.hear("memif_connect_client");
        std::fs::rename(&away, &path).expect("it is there still");
        assert_eq!(waiting.finish().success(), "patient\n");
    }

    /// A server over memory that it shares, the options of its client, and the socket's folder.
    fn memory() -> (Server, [String; 7], Folder) {
        let folder = Folder::new("memif");
        let path = folder.path("socket");
        let device = |role| format!("net_memif0,role={role},socket={path},socket-abstract=no");
        let server = Server::start(&port(&device("server"), "10.9.9.1/24"));
        let client = port(&device("client"), "10.9.9.2/24").map(str::to_owned);
        (server, client, folder)
    }

    #[test]
    fn a_killed_server_is_noticed_and_a_killed_client_harms_nobody() {
        let _alone = alone();
        if !leave_with_pair() {
            return;
        }
        let server = Server::start(&port(V0, "10.9.9.1/24"));
        let other = port("net_af_packet1,iface=v1", "10.9.9.3/24");
        let start = || {
            // Method 5 takes its first four bytes for a delay.
            let args = ["raw", &server.address, "method", "5", "zzzz", "--timeout", "100000"];
            let waiting = Petasos::start(&[&args[..], &port(V1, "10.9.9.2/24")].concat());
            server.await_figure_over("requests.running", &other, |running| running == 1);
            waiting
        };
        let client = start();
        client.send(Signal::KILL);
        assert_eq!(client.finish().code, None);
        server.await_figure_over("requests.running", &other, |running| running == 0);
        let waiting = start();
        server.process.send(Signal::KILL);
        let finished = waiting.finish_within(Duration::from_secs(60));
        let line = finished.failure();
        assert!(line.contains("lost the server") && line.contains("restart"), "{line}");
    }

    #[test]
    fn what_cannot_be_had_is_named_with_advice() {
        let _alone = alone();
        if !leave_with_pair() {
            return;
        }
        let serve = ["serve", "--listen", "127.0.0.1:0"];
        let line = refusal(&serve, &["--transport", "dpdk"]);
        assert!(line.contains("name one with --device"), "{line}");
        let line = refusal(&serve, &["--transport", "dpdk", "--device", V0]);
        assert!(line.contains("do so with --data-address"), "{line}");
        let line = refusal(&serve, &port("net_nothing0", "10.9.9.1/24"));
        assert!(line.contains("there is no DPDK port net_nothing0"), "{line}");
        let line = refusal(&serve, &port("net_af_packet0,iface=v9", "10.9.9.1/24"));
        assert!(line.contains("there is no DPDK port") && line.contains("v9"), "{line}");
        let line = refusal(&serve, &[&port(V0, "10.9.9.1")[..], &["--eal", "--nonsense"]].concat());
        assert!(line.contains("DPDK did not start with `--nonsense`"), "{line}");
        let two = ["--endpoints", "2"];
        let line = refusal(&serve, &[&port(V0, "10.9.9.1")[..], &two].concat());
        assert!(line.contains("carries one endpoint"), "{line}");
        let gateway = ["--gateway", "10.9.8.1"];
        let line = refusal(&serve, &[&port(V0, "10.9.9.1")[..], &gateway].concat());
        assert!(line.contains("10.9.8.1 cannot be the gateway"), "{line}");
        let line = refusal(&["demo"], &port(V0, "10.9.9.1/24")[1..]);
        assert!(line.contains("use --connect"), "{line}");
        assert!(doctor_says("dpdk", "limited") || doctor_says("dpdk", "yes"));
    }

    #[test]
    fn packets_that_find_no_way_are_a_failure() {
        let _alone = alone();
        if !leave_with_pair() {
            return;
        }
        let server = Server::start(&port(V0, "10.9.9.1/24"));
        let echo = |server: &Server, client: &[&str]| {
            server.call(&[&["echo", "x"], client, &PATIENCE].concat())
        };
        let line = echo(&server, &port(V1, "10.9.8.2/24"));
        assert!(line.failure().contains("check --data-address and --gateway"), "{line:?}");
        let line = echo(&server, &["--transport", "udp"]);
        assert!(line.failure().contains("transports or settings do not fit"), "{line:?}");
        // Its loop would take a processor from the next two.
        drop(server);
        let server = Server::start(&["--transport", "udp"]);
        let line = echo(&server, &port(V1, "10.9.9.2/24"));
        assert!(line.failure().contains("check --data-address"), "{line:?}");
    }

    #[test]
    fn without_privileges_it_is_refused_with_advice() {
        let _alone = alone();
        if Command::new("setpriv").arg("--version").output().is_err() {
            return petasos_skips::skip("setpriv", "there is no `setpriv`");
        }
        if !leave_with_pair() {
            return;
        }
        let output = Command::new("setpriv")
            .args(["--bounding-set=-all", "--inh-caps=-all", "--reuid=65534", "--clear-groups"])
            .args([env!("CARGO_BIN_EXE_petasos"), "serve", "--listen", "127.0.0.1:0"])
            .args(port(V0, "10.9.9.1/24"))
            .current_dir(std::env::temp_dir())
            .output();
        let output = output.expect("it is installed");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("may need rights (CAP_NET_RAW)"), "{said}");
    }
}
