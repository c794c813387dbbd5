//! Others at the operators' socket: without rights, silent, or noisy.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use petasos::Code;
use petasos_admin::ListApplicationsRequest;

use super::{Operator, attach, plan};
use crate::support::Daemon;

pub(super) const NOBODY: u32 = 65534;
pub(super) const VIEWER: u32 = 65533;
/// A chain of changes that can be undone.
const CHAIN: u64 = 77;
pub(super) const SOCKET: &str = "PETASOSD_TEST_ADMIN_SOCKET";

/// What somebody may do who calls as the user of this process: of [`child`].
#[test]
fn somebody() {
    let Some(socket) = std::env::var_os(SOCKET) else { return };
    let operator = match Operator::at(&socket.to_string_lossy()) {
        Ok(operator) => operator,
        Err(error) => return println!("unconnected {error}"),
    };
    let request = ListApplicationsRequest::new();
    let looked = operator.ask(request, |client, request| client.list_applications(request));
    println!("look {:?}", looked.map_or_else(|status| status.code(), |_| Code::Ok));
    let change = operator.try_change(plan(&[&|step| attach(step, "app", "null", "")]));
    println!("change {:?}", change.map_or_else(|status| status.code(), |_| Code::Ok));
    let undone = operator.undo(CHAIN);
    println!("undo {:?}", undone.map_or_else(|(code, _)| code, |_| Code::Ok));
}

/// What a user may do; none if this process cannot be another user.
fn child(daemon: &Daemon, user: u32) -> Option<String> {
    child_of("admin::hostile::somebody", daemon, user)
}

/// What this test says as another user.
pub(super) fn child_of(test: &str, daemon: &Daemon, user: u32) -> Option<String> {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture"]);
    command.env(SOCKET, daemon.admin_socket()).uid(user).gid(user).current_dir("/");
    match command.stderr(Stdio::null()).output() {
        Ok(Output { stdout, .. }) => Some(String::from_utf8(stdout).unwrap()),
        Err(error) => {
            petasos_skips::skip("root", format!("no other user: {error}"));
            None
        }
    }
}

#[test]
fn who_may_look_changes_nothing_and_who_may_not_does_not_look() {
    let log = std::env::temp_dir().join(format!("petasosd-audit-{}", std::process::id()));
    let log_text = log.display().to_string();
    let more = ["--viewer", "uid:65533", "--audit", &log_text];
    let daemon = Daemon::start_more("roles", None, &more);
    let operator = Operator::of(&daemon);
    let _app = daemon.attach("app");
    operator.keep((CHAIN, 0), &[&|step| attach(step, "app", "telemetry", "")]);
    let Some(said) = child(&daemon, VIEWER) else { return };
    assert!(said.contains("look Ok") && said.contains("change PermissionDenied"), "{said}");
    assert!(said.contains("undo PermissionDenied"), "{said}");
    let said = child(&daemon, NOBODY).unwrap();
    for what in ["look", "change", "undo"] {
        assert!(said.contains(&format!("{what} PermissionDenied")), "{said}");
    }
    let kinds: Vec<_> = operator.engines("app").into_iter().map(|(kind, _)| kind).collect();
    assert_eq!(kinds, ["telemetry"], "nothing has changed");
    operator.change(&[&|step| attach(step, "app", "null", "")]);
    operator.fails(&[&|step| attach(step, "shop", "null", "")]);
    let audit = operator.audit();
    let found: Vec<_> = audit
        .entries()
        .iter()
        .map(|entry| {
            (entry.uid(), entry.role(), entry.method(), entry.status(), entry.steps().len())
        })
        .collect();
    let own = rustix::process::geteuid().as_raw();
    assert_eq!(
        found,
        [
            // What it does, and that it can be undone.
            (own, "operator", "Change", "OK", 2),
            (VIEWER, "viewer", "ListApplications", "OK", 0),
            (VIEWER, "viewer", "Change", "PERMISSION_DENIED", 1),
            (VIEWER, "viewer", "Undo", "PERMISSION_DENIED", 1),
            (NOBODY, "nobody", "ListApplications", "PERMISSION_DENIED", 0),
            (NOBODY, "nobody", "Change", "PERMISSION_DENIED", 1),
            (NOBODY, "nobody", "Undo", "PERMISSION_DENIED", 1),
            (own, "operator", "ListDatapaths", "OK", 0),
            (own, "operator", "Change", "OK", 1),
            (own, "operator", "Change", "NOT_FOUND", 1),
        ]
    );
    assert_eq!(&*audit.entries()[8].steps()[0], "attach null to app: ");
    assert!(audit.entries().iter().all(|entry| entry.pid().is_some() && entry.time_us() > 0));
    let file = std::fs::read_to_string(&log).unwrap();
    std::fs::remove_file(&log).unwrap();
    let lines: Vec<serde_json::Value> =
        file.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 11, "that the log was listed is in it as well");
    assert_eq!(
        (&lines[2]["uid"], &lines[2]["status"]),
        (&VIEWER.into(), &"PERMISSION_DENIED".into())
    );
}

#[test]
fn without_viewers_others_do_not_even_connect() {
    let daemon = Daemon::start("closed", None);
    let Some(said) = child(&daemon, NOBODY) else { return };
    assert!(said.contains("unconnected") && said.contains("Permission denied"), "{said}");
    assert_eq!(Operator::of(&daemon).audit().entries().len(), 0);
}

#[test]
fn changes_are_refused_while_the_audit_log_cannot_be_written() {
    let daemon = Daemon::start_more("full", None, &["--audit", "/dev/full"]);
    let operator = Operator::of(&daemon);
    let _app = daemon.attach("app");
    assert_eq!(operator.engines("app"), []);
    let (code, why) = operator.fails(&[&|step| attach(step, "app", "null", "")]);
    assert_eq!(code, Code::Unavailable);
    assert!(why.starts_with("the audit log could not be written"), "{why}");
    assert_eq!(operator.engines("app"), []);
    // Nor by a signal.
    let policies = r#"[{"application": "*", "kind": "null"}]"#;
    let daemon = Daemon::start_more("full-signal", Some("[]"), &["--audit", "/dev/full"]);
    let operator = Operator::of(&daemon);
    let _app = daemon.attach("app");
    assert_eq!(operator.engines("app"), []);
    daemon.write_policies(policies);
    daemon.hang_up();
    crate::until::until(|| {
        let audit = operator.audit();
        let mut its = audit.entries().iter().filter(|one| one.method() == "Signal");
        its.any(|one| one.status() == "UNAVAILABLE")
    });
    assert_eq!(operator.engines("app"), []);
}

#[test]
fn clients_that_stall_or_say_garbage_stop_neither_calls_nor_operators() {
    let daemon = Daemon::start("stalled", None);
    let operator = Operator::of(&daemon);
    let server = daemon.serve_until("server", "stop");
    let mut client = daemon.attach("client");
    let target = client.target("greeter");
    let connect = || UnixStream::connect(daemon.admin_socket()).unwrap();
    let mut stalled: Vec<UnixStream> = (0..4).map(|_| connect()).collect();
    // The preface of HTTP/2, settings, and the head of a request that never comes.
    let begun =
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0\0\0\x40\x01\x04\0\0\0\x01\x82";
    stalled[0].write_all(begun).unwrap();
    stalled[1].write_all(&begun[..10]).unwrap();
    for round in 0..20 {
        let mut noisy = connect();
        let garbage: Vec<u8> = (0..4096).map(|at| (at * 7 + round * 13) as u8).collect();
        // It may have been closed already.
        let _ = noisy.write_all(&garbage);
        assert!(client.greet(target, "ann").is_ok());
    }
    operator.change(&[&|step| attach(step, "client", "null", "")]);
    // One user has no more than a share: others are closed at once.
    let flood: Vec<UnixStream> = (0..40).map(|_| connect()).collect();
    let closed = flood.iter().filter(|stream| {
        stream.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        matches!({ *stream }.read(&mut [0; 1]), Ok(0))
    });
    assert!(closed.count() >= 32, "8 connections of a user");
    assert_eq!(operator.engines("client").len(), 1, "who is connected is served");
    assert!(client.greet(target, "stop").is_ok());
    server.join().unwrap();
}

#[test]
fn a_daemon_that_sleeps_answers_operators() {
    let daemon = Daemon::start_more("asleep", None, &["--spin-us", "0"]);
    let operator = Operator::of(&daemon);
    let clock = petasos_base::Clock::system();
    let since = clock.now();
    for _ in 0..60 {
        // It is asleep by then. If nothing woke it, it would sleep for a second.
        std::thread::sleep(Duration::from_millis(5));
        operator.policies();
    }
    assert!(clock.now() - since < Duration::from_secs(30), "operators wake the loop");
    // Several at once: it does one at a time, and forgets none.
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..50).for_each(|_| drop(operator.policies())));
        }
    });
}
