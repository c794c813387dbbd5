//! Calls go on while the router's process is killed and replaced: a holder keeps its program, which
//! decides alone meanwhile, and a successor takes over (ADR 47).

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use petasos_attach::packet;
use petasos_base::SystemClock;
use petasos_netio_xdp::has_program as kernel_has;

use crate::callers::{Place, call_at, worker_at};
use crate::network::Network;
use crate::operator::until;
use crate::program::{Admin, BY_PROGRAM};
use crate::support::{Process, router};
use crate::typed::{SERVICE, call_with, check, target};
use crate::xdp::{Certified, LISTEN, has_program, said};

/// How long a router is away.
const AWAY: Duration = Duration::from_secs(1);

/// A router's host with a holder, and a group there.
struct Held {
    network: Network,
    admin: Admin,
    holder: Process,
    socket: String,
    security: Vec<String>,
}

impl Held {
    fn new(name: &str, security: &[&str]) -> Option<Held> {
        let network = Network::new()?;
        let admin = Admin::new(name);
        let socket = admin.beside("holder");
        let (holder, security) = (hold(&socket), security.iter().map(|it| it.to_string()));
        let security = security.collect();
        Some(Held { network, admin, holder, socket, security })
    }

    fn arguments(&self, listen: &str) -> Vec<String> {
        let own = ["--listen", listen, "--admin", &self.admin.socket, "--holder", &self.socket];
        let all = own.iter().chain(&BY_PROGRAM).chain(&SERVICE).map(|it| it.to_string());
        all.chain(["--drain-s".to_owned(), "0".to_owned()]).chain(self.security.clone()).collect()
    }

    fn start(&self, listen: &str) -> (Process, String) {
        let arguments = self.arguments(listen);
        let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
        let (process, address) = self.network.router.run(|| router(&arguments));
        (process, address.to_string())
    }

    /// Workers, members of the group at an address.
    fn workers(&self, group: &str, at: &Place) -> Vec<Process> {
        let worker = || self.network.workers.run(|| worker_at(group, at));
        vec![worker(), worker()]
    }

    /// Until the program gives requests to workers.
    fn until_program_gives(&self) {
        until(|| self.admin.given().0 > 0);
    }

    /// The number of the program at the interface.
    fn program(&self) -> Option<u32> {
        let text = self.network.router.ip("-d link show dev v0");
        let id = text.split("prog/xdp id ").nth(1)?;
        id.split(' ').next().and_then(|id| id.parse().ok())
    }
}

fn hold(socket: &str) -> Process {
    let mut command = Command::new(env!("CARGO_BIN_EXE_petasos-router"));
    command.args(["--hold", socket]);
    Process::start(command, "ready: holds")
}

/// Where workers and clients are, without certificates.
fn places() -> [Place; 2] {
    let [_, workers, client] = Network::addresses().map(|ip| Place { ip, folder: None });
    [workers, client]
}

fn target_of(address: &str) -> String {
    target(&[address.parse().expect("it is an address")])
}

/// Kills the router and starts it again while calls go on, twice.
fn calls_go_on(held: &Held, [at_workers, at_client]: &[Place; 2]) {
    let (mut active, address) = held.start(LISTEN[1]);
    let group = target_of(&address);
    let workers = held.workers(&group, at_workers);
    let seen = held.network.client.run(|| {
        call_with(&group, at_client.security(), |calls| {
            let until_more = |more| {
                calls.until_more(more);
                println!("the longest call took {:?}", calls.longest());
            };
            for _ in 0..2 {
                held.until_program_gives();
                until_more(100);
                let before = held.program();
                active.kill();
                // Nobody but the program is there.
                until_more(200);
                std::thread::sleep(AWAY);
                until_more(100);
                assert_eq!(held.program(), before);
                active = held.start(&address).0;
                let takes = |line: &String| line.contains("takes over the program");
                assert!(active.first.iter().any(takes), "{:?}", active.first);
                assert_ne!(held.program(), before);
                until_more(100);
            }
            held.until_program_gives();
        })
    });
    check(&seen, workers, 0);
}

#[test]
fn rt35_calls_go_on_while_the_router_is_killed_and_replaced() {
    let Some(held) = Held::new("held", &["--plaintext"]) else { return };
    calls_go_on(&held, &places());
}

/// The same in a sealed group, and at a port that is configured.
#[test]
fn rt35_sealed_calls_go_on_while_the_router_is_killed_and_replaced() {
    let certified = Certified::new("held");
    let tls = certified.arguments();
    let tls = tls.iter().map(String::as_str);
    let security: Vec<_> = tls.chain(["--data", "10.78.0.1:7001"]).collect();
    let Some(held) = Held::new("held-sealed", &security) else { return };
    calls_go_on(&held, &certified.places());
}

/// What nobody has come for, and what was followed, is gone after a while.
#[test]
fn rt35_the_earlier_program_is_gone_after_a_while() {
    let Some(held) = Held::new("held-outlive", &["--plaintext"]) else { return };
    let has = |id: u32| kernel_has(id).expect("root may ask");
    let (mut first, address) = held.start(LISTEN[1]);
    let earlier = held.program().expect("it has one");
    first.kill();
    let (mut second, _) = held.start(&address);
    let later = held.program().expect("it has one");
    assert!(has(earlier) && earlier != later, "it is followed");
    until(|| !has(earlier));
    assert_eq!(held.program(), Some(later));
    second.kill();
    assert_eq!(held.program(), Some(later), "it is kept");
    until(|| held.program().is_none());
    until(|| !has(later));
    let (_third, _) = held.start(&address);
    assert!(held.program().is_some(), "the interface was free");
}

#[test]
fn rt35_a_router_that_is_killed_again_and_again_costs_no_call() {
    let Some(held) = Held::new("held-often", &["--plaintext"]) else { return };
    let [at_workers, client] = places();
    let (mut active, address) = held.start(LISTEN[1]);
    let group = target_of(&address);
    let workers = held.workers(&group, &at_workers);
    let mut ids = Vec::new();
    let seen = held.network.client.run(|| {
        call_at(&group, &client, |until_more| {
            for _ in 0..4 {
                // Members are attached to each, but the one before is not over yet.
                held.until_program_gives();
                until_more(20);
                active.kill();
                active = held.start(&address).0;
            }
            until_more(100);
            held.until_program_gives();
        })
    });
    check(&seen, workers, 0);
    // Nobody has time for anything.
    let clock = SystemClock::default();
    for _ in 0..4 {
        ids.extend(held.program());
        active.kill();
        active = held.start(&address).0;
    }
    // The kernel frees the others a moment later. Were they kept, each would be there for ten
    // seconds.
    let has = |id: &&u32| kernel_has(**id).expect("root may ask");
    let freed_by = clock.now() + Duration::from_secs(5);
    while ids.iter().filter(has).count() > 1 {
        assert!(clock.now() < freed_by, "one earlier program is followed at most");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_holder_that_is_killed_costs_nothing_and_the_next_one_has_the_program() {
    let Some(mut held) = Held::new("held-killed", &["--plaintext"]) else { return };
    let [at_workers, client] = places();
    let (active, address) = held.start(LISTEN[1]);
    let group = target_of(&address);
    let workers = held.workers(&group, &at_workers);
    let mut next = None;
    held.holder.kill();
    let socket = held.socket.clone();
    held.holder = hold(&socket);
    let holder = held.holder.child.id();
    until(|| descriptors(holder).iter().any(|name| name.contains("bpf_link")));
    let seen = held.network.client.run(|| {
        call_at(&group, &client, |until_more| {
            held.until_program_gives();
            let said = active.end().join("\n");
            for wanted in ["is gone: until it is back", "has the program again"] {
                assert!(said.contains(wanted), "{said}");
            }
            until_more(200);
            next = Some(held.start(&address));
            held.until_program_gives();
            until_more(100);
        })
    });
    drop(next);
    check(&seen, workers, 0);
}

#[test]
fn a_router_that_ends_in_order_leaves_nothing_to_its_holder() {
    use rustix::process::{Pid, Signal, kill_process};
    let Some(held) = Held::new("held-ends", &["--plaintext"]) else { return };
    let (mut process, address) = held.start(LISTEN[1]);
    kill_process(Pid::from_child(&process.child), Signal::TERM).expect("it is our child");
    assert!(process.child.wait().expect("it is our child").success());
    assert!(!has_program(&held.network));
    assert!(descriptors(held.holder.child.id()).iter().all(|name| !name.contains("bpf")));
    let (next, _) = held.start(&address);
    assert!(!next.first.iter().any(|line| line.contains("takes over")), "{:?}", next.first);
}

/// An interface has one router that runs, with a holder as without.
#[test]
fn what_is_wrong_with_a_holder_is_said() {
    let Some(held) = Held::new("held-wrong", &["--plaintext"]) else { return };
    let arguments = held.arguments(LISTEN[1]);
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    let (first, _) = held.network.router.run(|| router(&arguments));
    let again: Vec<_> = arguments.iter().filter(|it| **it != held.admin.socket).copied().collect();
    let again: Vec<_> = again.into_iter().filter(|it| *it != "--admin").collect();
    let (is_right, text) = said(&held.network, &again);
    assert!(!is_right && text.contains("has XDP program"), "{text}");
    assert!(text.contains(&format!("{}", first.child.id())), "and says who has it: {text}");
    let (is_right, text) = said(&held.network, &[&again[..], &["--check"]].concat());
    assert!(is_right, "{text}");
    assert!(has_program(&held.network));
    drop::<Process>(held.holder);
    for more in [&[][..], &["--check"]] {
        let (is_right, text) = said(&held.network, &[&again[..], more].concat());
        assert!(!is_right && text.contains("--hold"), "and says what to do: {text}");
    }
    let by_socket = ["--listen", "127.0.0.1:0", "--holder", &held.socket];
    let (is_right, text) = said(&held.network, &by_socket);
    assert!(!is_right && text.contains("holder is for plane xdp only"), "{text}");
}

/// What a process has open.
fn descriptors(process: u32) -> Vec<String> {
    let all = std::fs::read_dir(format!("/proc/{process}/fd")).expect("it runs");
    let name = |path: std::path::PathBuf| std::fs::read_link(path).ok();
    all.flatten().filter_map(|fd| name(fd.path())).map(|it| it.display().to_string()).collect()
}

/// Whoever may connect to a holder says garbage, says nothing, or hands over what is no program:
/// nothing of that stays, and routers are served.
#[test]
fn strangers_garbage_and_floods_leave_a_holder_as_it_was() {
    let Some(held) = Held::new("held-strange", &["--plaintext"]) else { return };
    let holder = held.holder.child.id();
    let path = Path::new(&held.socket);
    let (_first, _) = held.start(LISTEN[1]);
    let program = held.program();
    until(|| descriptors(holder).iter().any(|name| name.contains("bpf_link")));
    let before = descriptors(holder).len();
    let null = OwnedFd::from(std::fs::File::open("/dev/null").expect("it is there"));
    let place = [&[1, 2, 1][..], &[0; 8], &1u32.to_le_bytes()].concat();
    let long = vec![1; 4096];
    let packets: [(&[u8], usize); 9] = [
        (&place, 4),
        (&place, 3),
        (&place, 0),
        (&[1, 3], 1),
        (&[1, 1], 0),
        (&[2, 3], 0),
        (&[0], 4),
        (&long, 0),
        (&long, 4),
    ];
    for (bytes, files) in packets {
        let socket = packet::connect(path).expect("it listens");
        let files = vec![null.as_fd(); files];
        packet::send(socket.as_fd(), bytes, &files).expect("there is room");
        until_answered(socket.as_fd());
    }
    // More than may be connected, some of which say something and do not read what is answered.
    let silent: Vec<_> = (0..200).filter_map(|_| packet::connect(path).ok()).collect();
    for socket in &silent {
        while packet::send(socket.as_fd(), &place[..2], &[]).is_ok() {}
    }
    let (is_right, text) = {
        let arguments = held.arguments(LISTEN[1]);
        let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
        said(&held.network, &[&arguments[..], &["--check"]].concat())
    };
    assert!(is_right, "{text}");
    drop(silent);
    until(|| descriptors(holder).len() <= before);
    assert_eq!(held.program(), program);
    // Another user's process is kept out by the socket's mode, and without that by its user.
    for (mode, wanted) in [(0o600, "PermissionDenied"), (0o777, "only the holder's user")] {
        for path in [path, path.parent().expect("it has one")] {
            let mode = if path.is_dir() { 0o755 } else { mode };
            let permissions = std::fs::Permissions::from_mode(mode);
            std::fs::set_permissions(path, permissions).expect("it is ours");
        }
        let text = ask_as_other(path);
        assert!(text.contains(wanted), "{text}");
    }
}

/// Set in a process of another user: where a holder is.
const STRANGER: &str = "PETASOS_TEST_HOLDER";
const OTHER: u32 = 65_534;

/// Copies a program, in a process of its own: children that other tests start meanwhile would have
/// this one's descriptor, and what somebody may write to cannot be run.
fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp").args([from, to]).status().expect("it starts");
    assert!(copied.success(), "there is room");
}

/// What another user's process gets of a holder.
fn ask_as_other(path: &Path) -> String {
    // Where everybody may run it.
    let file = std::env::temp_dir().join(format!("petasos-stranger-{}", std::process::id()));
    copy(&std::env::current_exe().expect("it is a program"), &file);
    let mut other = Command::new(&file);
    other.args(["child_stranger", "--nocapture"]).env(STRANGER, path).uid(OTHER).gid(OTHER);
    let output = other.output().expect("it starts");
    std::fs::remove_file(&file).expect("it was written");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Not a test of its own: what another user's process asks.
#[test]
fn child_stranger() {
    let Ok(path) = std::env::var(STRANGER) else { return };
    match packet::connect(path.as_ref()) {
        Ok(socket) => {
            // It may have been told already.
            let _ = packet::send(socket.as_fd(), &[1, 3], &[]);
            println!("{}", String::from_utf8_lossy(&until_answered(socket.as_fd())));
        }
        Err(error) => println!("{:?}", std::io::Error::from(error).kind()),
    }
}

#[test]
fn a_router_gives_its_link_to_no_other_users_holder() {
    let Some(network) = Network::new() else { return };
    let admin = Admin::new("held-other");
    let socket = admin.beside("holder");
    let file = admin.beside("program");
    copy(Path::new(env!("CARGO_BIN_EXE_petasos-router")), Path::new(&file));
    let folder = Path::new(&socket).parent().expect("it has one");
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o777)).expect("it is ours");
    let mut other = Command::new(&file);
    other.args(["--hold", &socket]).uid(OTHER).gid(OTHER);
    let other = Process::start(other, "ready: holds");
    let arguments = [&LISTEN[..], &BY_PROGRAM, &["--plaintext", "--holder", &socket]].concat();
    let (is_right, text) = said(&network, &arguments);
    assert!(!is_right && text.contains("run it as this user"), "{text}");
    assert!(!has_program(&network));
    assert!(descriptors(other.child.id()).iter().all(|name| !name.contains("bpf")));
}

/// What the holder has answered, which is nothing if it has hung up.
fn until_answered(socket: BorrowedFd<'_>) -> Vec<u8> {
    let mut answer = Vec::new();
    until(|| {
        let mut bytes = [0; 512];
        let received = packet::receive(socket, &mut bytes);
        if let packet::Received::Packet(len, _) = received {
            answer = bytes[..len].to_vec();
        }
        !matches!(received, packet::Received::Nothing)
    });
    answer
}

/// In a reload, a new group has the interface of one that goes. If the reload fails, that one has
/// it again.
#[test]
fn a_group_that_is_removed_leaves_its_interface_to_one_that_is_added() {
    let Some(held) = Held::new("held-reload", &["--plaintext"]) else { return };
    let file = held.admin.beside("router.toml");
    let write = |groups: &str| {
        let socket = &held.admin.socket;
        let text = format!("[admin]\nsocket = \"{socket}\"\n{groups}");
        std::fs::write(&file, text).expect("there is room");
    };
    let group = |port: u16, more: &str| {
        let holder = &held.socket;
        format!(
            "[[group]]\nlisten = \"10.78.0.1:{port}\"\nplane = \"xdp\"\ninterface = \"v0\"\n\
             plaintext = true\npartial_checksums = true\nholder = \"{holder}\"\n{more}\n"
        )
    };
    write(&group(7100, ""));
    let (process, _) = held.network.router.run(|| router(&["--config", &file, "--drain-s", "1"]));
    assert!(process.ready.contains("xdp on v0"), "{}", process.ready);
    let first = held.program().expect("it has one");
    let operator = held.admin.operator();
    let other = "[[group]]\nlisten = \"192.0.2.1:1\"\nplaintext = true\n";
    write(&[&group(7200, "")[..], other].concat());
    let refused = operator.reload().expect_err("that is nobody's address");
    assert!(refused.message().contains("192.0.2.1:1"), "{refused}");
    assert_eq!(held.program(), Some(first), "it is back");
    write(&group(7200, ""));
    let done = operator.reload().expect("it is right").join("\n");
    assert!(done.contains("7200: added") && done.contains("7100: removed"), "{done}");
    assert!(held.program().is_some_and(|id| id != first));
}
