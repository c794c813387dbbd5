//! A program at the router's interface gives requests to workers (`--plane xdp`); members are on
//! the link and behind a gateway, as with AF_XDP.

use std::cell::Cell;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use rustix::process::{Pid, Signal, kill_process};

use crate::callers::{Place, call_at, worker_at};
use crate::network::Network;
use crate::operator::{GET_METRICS, Operator, folder, metrics_of, page, until, value};
use crate::support::{Process, router};
use crate::typed::{SERVICE, check, target};
use crate::xdp::{ByXdp, LISTEN, calls_go_through, has_program, said, sealed_calls_go_through};

pub const BY_PROGRAM: [&str; 5] = ["--plane", "xdp", "--interface", "v0", "--partial-checksums"];
const SAID: &str = "xdp on v0 (generic)";

/// Where a router's operators reach it.
pub struct Admin {
    folder: PathBuf,
    pub socket: String,
}

impl Admin {
    pub fn new(name: &str) -> Admin {
        let folder = folder(name);
        let socket = folder.join("s").display().to_string();
        Admin { folder, socket }
    }

    /// A file in the same folder.
    pub fn beside(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }

    pub fn operator(&self) -> Operator {
        Operator::at(&self.socket).expect("it listens")
    }

    /// Requests that the program has given to workers, and those that anybody has.
    pub fn given(&self) -> (u64, u64) {
        let status = self.operator().status();
        let group = status.groups().iter().next().expect("there is one group");
        let of = |name: &str| {
            let count = group.program().iter().find(|it| it.name() == name);
            count.expect("it is counted").count()
        };
        (of("given") + of("unparked"), group.given())
    }
}

impl Drop for Admin {
    fn drop(&mut self) {
        // Whatever is left there costs the next test nothing.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Runs `test` with a plane that has to have given more each time that somebody looks.
fn with_program(name: &str, test: impl FnOnce(&ByXdp<'_>)) {
    let admin = Admin::new(name);
    let arguments = [&BY_PROGRAM[..], &["--admin", &admin.socket]].concat();
    let before = Cell::new(0);
    let look = || {
        until(|| admin.given().0 > before.get());
        let (by_program, all) = admin.given();
        println!("the program has given {by_program} of {all}");
        before.set(by_program);
    };
    test(&ByXdp { arguments: &arguments, said: SAID, look: &look });
    assert!(before.get() > 0, "somebody has looked");
}

#[test]
fn rt26_calls_go_through_a_program_in_plaintext() {
    let Some(network) = Network::new() else { return };
    let [_, workers, client] = Network::addresses().map(|ip| Place { ip, folder: None });
    with_program("program", |by| {
        calls_go_through(&network, by, &["--plaintext"], [workers, client]);
    });
}

#[test]
fn rt28_calls_go_through_a_program_sealed() {
    if Network::new().is_some() {
        with_program("program-sealed", |by| sealed_calls_go_through(by, "program"));
    }
}

/// The program is gone with its process, and the standby's plane has the calls, until the next
/// process has put a program there.
#[test]
fn rt38_a_killed_router_and_its_successor_have_a_program_each() {
    let Some(network) = Network::new() else { return };
    let [_, workers_at, client] = Network::addresses().map(|ip| Place { ip, folder: None });
    let admin = Admin::new("program-killed");
    let start = |listen: &str| {
        let seen = ["--admin", &admin.socket, "--metrics", "127.0.0.1:0"];
        let others = ["--listen", listen, "--plaintext"];
        let arguments = [&others[..], &seen, &BY_PROGRAM, &SERVICE].concat();
        network.router.run(|| router(&arguments))
    };
    let (mut active, first) = start(LISTEN[1]);
    let standby = ["--listen", "10.78.0.2:0", "--plaintext", "--standby"];
    let (_standby, second) = network.workers.run(|| router(&[&standby[..], &SERVICE].concat()));
    let (group, again) = (target(&[first, second]), first.to_string());
    let worker = || network.workers.run(|| worker_at(&group, &workers_at));
    let workers = vec![worker(), worker()];
    let seen = network.client.run(|| {
        call_at(&group, &client, |until_more| {
            for _ in 0..2 {
                // Whoever is there has workers and the calls.
                until(|| admin.given().0 > 0);
                until_more(100);
                active.kill();
                assert!(!has_program(&network), "the program goes with its process");
                until_more(100);
                active = start(&again).0;
                assert!(has_program(&network), "its successor has one");
            }
            until(|| admin.given().0 > 0);
        })
    });
    let text = network.router.run(|| page(&metrics_of(&active), GET_METRICS));
    let given = format!("petasos_router_program_total{{group=\"{first}\",what=\"given\"}} ");
    assert!(value(&text, &given) > 0.0, "{text}");
    // What a router has given goes on, and what it has not is asked of the other one.
    check(&seen, workers, 0);
}

#[test]
fn a_router_that_is_told_to_end_takes_its_program_along() {
    let Some(network) = Network::new() else { return };
    let arguments = [&LISTEN[..], &BY_PROGRAM, &["--plaintext", "--drain-s", "0"]].concat();
    let (mut process, _) = network.router.run(|| router(&arguments));
    assert!(has_program(&network));
    let pid = Pid::from_child(&process.child);
    kill_process(pid, Signal::TERM).expect("it is our child");
    assert!(process.child.wait().expect("it is our child").success());
    assert!(!has_program(&network));
    // And the interface is free for the next one.
    drop::<Process>(network.router.run(|| router(&arguments)).0);
}

#[test]
fn what_is_wrong_with_a_program_is_said() {
    let Some(network) = Network::new() else { return };
    let by_program = [&LISTEN[..], &["--plaintext", "--plane", "xdp"]].concat();
    let cases: [(&[&str], &str); 6] = [
        (&["--interface", "v9"], "there is no interface v9"),
        (&["--interface", "lo"], "interface lo does not have the address 10.78.0.1"),
        (&["--queue", "0"], "queue is for plane xdp-socket only"),
        (&["--data", "10.99.0.1:0"], "cannot come to 10.99.0.1:0"),
        (&["--data", "0.0.0.0:0"], "needs an interface's address in data, not 0.0.0.0"),
        (&["--data", "[2001:db8::1]:0"], "needs an IPv4 address in data, not 2001:db8::1"),
    ];
    for (more, wanted) in cases {
        let (is_right, text) = said(&network, &[&by_program[..], more].concat());
        assert!(!is_right && text.contains(wanted), "{more:?}: {text}");
    }
    let random = [&by_program[..], &["--policy", "random"]].concat();
    let (process, _) = network.router.run(|| router(&random));
    let warned = process.first.iter().any(|line| line.contains("the program gives nothing"));
    assert!(warned, "{:?}", process.first);
    drop::<Process>(process);
    network.router.ip("link set v0 down");
    for more in [&[][..], &["--check"]] {
        let (is_right, text) = said(&network, &[&by_program[..], more].concat());
        assert!(!is_right && text.contains("ip link set v0 up"), "{text}");
    }
}

#[test]
fn without_privileges_a_program_is_refused_with_what_it_needs() {
    let Some(network) = Network::new() else { return };
    // Where everybody may run it.
    let file = std::env::temp_dir().join(format!("petasos-router-{}-p", std::process::id()));
    std::fs::copy(env!("CARGO_BIN_EXE_petasos-router"), &file).expect("there is room");
    let mut command = Command::new(&file);
    command.args(LISTEN).args(BY_PROGRAM).arg("--plaintext").uid(65_534).gid(65_534);
    let output = network.router.run(|| command.output()).expect("it starts");
    std::fs::remove_file(&file).expect("it was written");
    let text = String::from_utf8(output.stderr).expect("it is text");
    assert!(!output.status.success() && text.contains("CAP_BPF"), "{text}");
}

/// An interface has one program: who comes later is told who has it, and nobody is disturbed.
#[test]
fn a_program_is_not_disturbed_by_a_check_or_by_another_router() {
    let Some(network) = Network::new() else { return };
    let by_program = [&LISTEN[..], &BY_PROGRAM, &["--plaintext"]].concat();
    let (first, _) = network.router.run(|| router(&by_program));
    let (is_right, text) = said(&network, &[&by_program[..], &["--check"]].concat());
    assert!(is_right && text.contains("1 group, all right"), "{text}");
    let by_socket = [&LISTEN[..], &["--plaintext", "--plane", "xdp-socket"]].concat();
    for other in [by_program, by_socket] {
        let (is_right, text) = said(&network, &other);
        assert!(!is_right && text.contains("has XDP program"), "{text}");
        assert!(text.contains(&format!("{}", first.child.id())), "and says who has it: {text}");
    }
    assert!(has_program(&network));
}
