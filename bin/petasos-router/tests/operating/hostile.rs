//! Others at the operators' socket: without rights, silent, or noisy.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use petasos::Code;
use petasos_admin::router as proto;

use crate::operator::{Operator, Router, call_while, pass, refusal, worker};

const NOBODY: u32 = 65534;
const VIEWER: u32 = 65533;
const SOCKET: &str = "PETASOS_TEST_ROUTER_SOCKET";

/// What somebody may do who calls as the user of this process: of [`child`].
#[test]
fn somebody() {
    let Some(socket) = std::env::var_os(SOCKET) else { return };
    let operator = match Operator::at(&socket.to_string_lossy()) {
        Ok(operator) => operator,
        Err(error) => return println!("unconnected {error}"),
    };
    let code = |result: Result<(), petasos::Status>| match result {
        Ok(()) => Code::Ok,
        Err(status) => status.code(),
    };
    let looked = operator.ask(proto::StatusRequest::new(), |client, it| client.status(it));
    println!("look {:?}", code(looked.map(drop)));
    println!("drain {:?}", code(operator.drain(1, false).map(drop)));
    println!("weigh {:?}", code(operator.weigh(1, 5).map(drop)));
    println!("set {:?}", code(operator.set(|to| _ = to.set_policy("rr")).map(drop)));
    println!("reload {:?}", code(operator.reload().map(drop)));
}

/// What a user may do; none if this process cannot be another user.
fn child(router: &Router, user: u32) -> Option<String> {
    let mut command = Command::new(std::env::current_exe().expect("the test is a program"));
    command.args(["--exact", "hostile::somebody", "--nocapture"]);
    command.env(SOCKET, router.socket()).uid(user).gid(user).current_dir("/");
    match command.stderr(Stdio::null()).output() {
        Ok(Output { stdout, .. }) => Some(String::from_utf8(stdout).expect("it is text")),
        Err(error) => {
            petasos_skips::skip("root", format!("no other user: {error}"));
            None
        }
    }
}

#[test]
fn who_may_look_changes_nothing_and_who_may_not_does_not_look() {
    let audit = std::env::temp_dir().join(format!("petasos-op-{}-audit", std::process::id()));
    let admin = format!("viewers = [\"uid:{VIEWER}\"]\naudit = \"{}\"", audit.display());
    let router = Router::start("roles", "", &admin);
    let operator = router.operator();
    let Some(said) = child(&router, VIEWER) else { return };
    assert!(said.contains("look Ok"), "{said}");
    for what in ["drain", "weigh", "set", "reload"] {
        assert!(said.contains(&format!("{what} PermissionDenied")), "{said}");
    }
    let said = child(&router, NOBODY).expect("the first could be another user");
    for what in ["look", "drain", "weigh", "set", "reload"] {
        assert!(said.contains(&format!("{what} PermissionDenied")), "{said}");
    }
    let log = operator.audit();
    let found: Vec<_> = log
        .entries()
        .iter()
        .map(|entry| (entry.uid(), entry.role(), entry.method(), entry.status()))
        .collect();
    let of = |uid, role| {
        ["DrainWorker", "WeighWorker", "SetPolicy", "Reload"]
            .map(|method| (uid, role, method, "PERMISSION_DENIED"))
    };
    assert_eq!(found[0], (VIEWER, "viewer", "Status", "OK"));
    assert_eq!(found[1..5], of(VIEWER, "viewer"));
    assert_eq!(found[5], (NOBODY, "nobody", "Status", "PERMISSION_DENIED"));
    assert_eq!(found[6..], of(NOBODY, "nobody"));
    let lines = std::fs::read_to_string(&audit).expect("it is written");
    assert_eq!(lines.lines().count(), found.len() + 1, "that it was listed is in it, too");
    assert!(lines.contains("drain worker 1"), "{lines}");
    std::fs::remove_file(&audit).expect("it was written");
}

#[test]
fn without_viewers_others_do_not_even_connect() {
    let router = Router::start("closed", "", "");
    let Some(said) = child(&router, NOBODY) else { return };
    assert!(said.contains("unconnected") && said.contains("Permission denied"), "{said}");
    assert_eq!(router.operator().audit().entries().len(), 0);
}

#[test]
fn changes_are_refused_while_the_audit_log_cannot_be_written() {
    let router = Router::start("full", "", "audit = \"/dev/full\"");
    let operator = router.operator();
    // That it was asked cannot be written.
    assert_eq!(operator.status().groups().len(), 1);
    for refused in
        [operator.set(|to| _ = to.set_policy("rr")), operator.reload(), operator.drain(1, false)]
    {
        let (code, why) = refusal(refused);
        assert!(code == Code::Unavailable && why.contains("audit log"), "{why}");
    }
    let status = operator.status();
    assert_eq!(status.groups()[0].settings().expect("it has some").policy(), "jbsq3");
}

#[test]
fn requests_that_are_too_long_or_none_at_all_stop_neither_calls_nor_operators() {
    let router = Router::start("noise", "", "");
    let target = router.target();
    let _worker = worker(&target);
    let operator = router.operator();
    operator.until_workers(1);
    call_while(&target, |answered| {
        let long = "x".repeat(petasos_admin::REQUEST_BYTES_MAX + 1);
        let (code, _) = refusal(operator.set(|to| _ = to.set_policy(&*long)));
        assert_eq!(code, Code::ResourceExhausted);
        let nearly = "x".repeat(petasos_admin::REQUEST_BYTES_MAX / 2);
        let (code, why) = refusal(operator.set(|to| _ = to.set_policy(&*nearly)));
        assert!(code == Code::InvalidArgument && why.len() < 5000, "{code:?} {}", why.len());
        // Some say nothing, others what is no gRPC.
        let silent: Vec<_> =
            (0..4).filter_map(|_| UnixStream::connect(router.socket()).ok()).collect();
        let mut noisy = UnixStream::connect(router.socket()).expect("it listens");
        noisy.set_read_timeout(Some(Duration::from_secs(30))).expect("it is a socket");
        noisy.write_all(&[0xff; 4096]).expect("it listens");
        // It ends the connection.
        let mut rest = Vec::new();
        let _ = noisy.read_to_end(&mut rest);
        pass(answered, 50);
        assert_eq!(operator.status().groups().len(), 1);
        drop(silent);
    });
    let audit = operator.audit();
    let steps: usize = audit.entries().iter().flat_map(|it| it.steps()).map(|it| it.len()).sum();
    assert!(steps < 64 << 10, "{steps}");
}

#[test]
fn many_who_ask_at_once_cost_a_group_few_snapshots_and_no_call() {
    let router = Router::start("many", "", "");
    let target = router.target();
    let _worker = worker(&target);
    let operator = router.operator();
    operator.until_workers(1);
    call_while(&target, |answered| {
        std::thread::scope(|scope| {
            for _ in 0..6 {
                scope.spawn(|| {
                    let operator = router.operator();
                    (0..50).for_each(|_| assert_eq!(operator.status().groups().len(), 1));
                });
            }
        });
        pass(answered, 20);
    });
}
