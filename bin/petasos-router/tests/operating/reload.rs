//! The configuration is read again while calls run.

use petasos::Code;
use petasos_admin::router as proto;
use rustix::process::{Pid, Signal, kill_process};

use crate::operator::{Router, call_while, folder, pass, refusal, until, worker};
use crate::support::router as plain_router;

#[test]
fn no_call_fails_while_the_file_is_read_again_and_groups_come_and_go() {
    let router = Router::start("reload", "", "");
    let target = router.target();
    let _workers = [worker(&target), worker(&target)];
    let operator = router.operator();
    operator.until_workers(2);
    call_while(&target, |answered| {
        pass(answered, 50);
        assert_eq!(operator.reload().expect("it is right"), ["nothing has changed"]);
        router.write("policy = \"rr\"\nwaiting_max = 200\nasked_max = 64", "");
        let done = operator.reload().expect("it is right").join("\n");
        for wanted in ["policy rr, was jbsq3", "waiting_max 200", "asked_max 64, was 4096"] {
            assert!(done.contains(wanted), "{done}");
        }
        pass(answered, 50);
        // What operators have set is the file's again.
        operator.set(|to| _ = to.set_policy("jsq")).expect("it is right");
        let done = operator.reload().expect("it is right").join("\n");
        assert!(done.contains("policy rr, was jsq"), "{done}");
        let more = "policy = \"rr\"\n[[group]]\nlisten = \"127.0.0.1:0\"";
        router.write(more, "");
        let done = operator.reload().expect("it is right").join("\n");
        assert!(done.contains("added"), "{done}");
        pass(answered, 50);
        assert_eq!(operator.status().groups().len(), 2);
        let other = operator.status().groups()[1].group().to_owned();
        assert_ne!(other, router.group.to_string());
        // Of two groups one has to be named.
        assert_eq!(refusal(operator.drain(1, false)).0, Code::InvalidArgument);
        router.write("policy = \"rr\"", "");
        let done = operator.reload().expect("it is right").join("\n");
        assert!(done.contains(&format!("{other}: removed")), "{done}");
        pass(answered, 50);
        assert_eq!(operator.status().groups().len(), 1);
    });
}

#[test]
fn what_cannot_change_or_is_wrong_leaves_all_as_it_is() {
    let router = Router::start("kept", "clients_max = 100", "");
    let target = router.target();
    let _worker = worker(&target);
    let operator = router.operator();
    operator.until_workers(1);
    let taken = router.group;
    let cases = [
        ("policy = \"best\"", "", "line 4"),
        ("police = \"rr\"", "", "line 7"),
        ("policy = \"rr\"\nclients_max = 101", "", "clients_max is 100"),
        ("clients_max = 100\npayload_bytes = 2000\nstandby = true", "", "payload_bytes, standby"),
        ("clients_max = 100\npolicy = \"rr\"", "viewers = [\"uid:7\"]", "[admin]"),
        (
            "clients_max = 100\npolicy = \"rr\"\n[[group]]\nlisten = \"192.0.2.1:1\"",
            "",
            "192.0.2.1:1",
        ),
        ("clients_max = 100\npolicy = \"rr\"\n[[group]]\nlisten = \"0.0.0.0:0\"", "", "TLS"),
        ("workers = 7", "", "line 7"),
    ];
    call_while(&target, |answered| {
        for (group, admin, wanted) in cases {
            router.write(group, admin);
            let (code, why) = refusal(operator.reload());
            assert!(code == Code::FailedPrecondition && why.contains(wanted), "{group}: {why}");
            assert!(why.contains("all stays as it is"), "{why}");
        }
        std::fs::remove_file(router.folder.join("router.toml")).expect("it was written");
        assert!(refusal(operator.reload()).1.contains("No such file"));
        let at_taken = format!("clients_max = 100\n[[group]]\nlisten = \"{taken}\"");
        router.write(&at_taken, "");
        assert!(refusal(operator.reload()).1.contains("in use"));
        pass(answered, 50);
    });
    let status = operator.status();
    let settings = status.groups()[0].settings().expect("it has some");
    assert_eq!((status.groups().len(), settings.policy()), (1, "jbsq3"));
}

#[test]
fn sighup_reads_the_file_again_and_is_written_down() {
    let router = Router::start("signal", "", "");
    let operator = router.operator();
    let hang_up = || {
        let pid = Pid::from_child(&router.process.child);
        kill_process(pid, Signal::HUP).expect("it is our child");
    };
    let policy = || {
        let status = operator.status();
        let settings = status.groups()[0].settings().expect("it has some");
        settings.policy().to_owned()
    };
    router.write("policy = \"pl2\"", "");
    hang_up();
    until(|| policy() == "pl2");
    router.write("policy = \"worst\"", "");
    hang_up();
    let failed = |entry: &petasos_admin::AuditEntry| {
        entry.method() == "Signal" && entry.status() == "FAILED_PRECONDITION"
    };
    until(|| operator.audit().entries().iter().any(failed));
    assert_eq!(policy(), "pl2");
    let audit = operator.audit();
    let signals: Vec<_> = audit.entries().iter().filter(|it| it.method() == "Signal").collect();
    assert_eq!((signals.len(), signals[0].status()), (2, "OK"));
    assert!(signals[1].message().contains("worst"), "{}", signals[1].message());
}

#[test]
fn a_router_without_a_file_has_nothing_to_read_and_a_signal_does_not_end_it() {
    let folder = folder("options");
    let socket = folder.join("s").display().to_string();
    let (process, _) = plain_router(&["--listen", "127.0.0.1:0", "--admin", &socket]);
    let operator = crate::operator::Operator::at(&socket).expect("it listens");
    let (code, why) = refusal(operator.reload());
    assert!(code == Code::FailedPrecondition && why.contains("--config"), "{why}");
    kill_process(Pid::from_child(&process.child), Signal::HUP).expect("it is our child");
    until(|| operator.audit().entries().iter().any(|it| it.method() == "Signal"));
    assert_eq!(operator.status().groups().len(), 1);
    drop(process);
    std::fs::remove_dir_all(folder).expect("it was made");
}

#[test]
fn an_operator_watches_groups_and_workers() {
    let router = Router::start("watch", "", "");
    let target = router.target();
    let _worker = worker(&target);
    let operator = router.operator();
    operator.until_workers(1);
    let mut request = proto::WatchRequest::new();
    request.edit().set_interval_ms(100);
    call_while(&target, |answered| {
        pass(answered, 10);
        petasos::block_on(async {
            let watched = operator.0.watch(petasos::Request::new(request)).await;
            let mut stream = watched.expect("it answers");
            let first = stream.message().await.expect("it answers").expect("it goes on");
            let mut now = stream.message().await.expect("it answers").expect("it goes on");
            while now.groups()[0].given() == first.groups()[0].given() {
                now = stream.message().await.expect("it answers").expect("it goes on");
            }
            assert!(now.time_ns() > first.time_ns());
            assert_eq!(now.workers()[0].workers().len(), 1);
        });
    });
    let mut request = proto::WatchRequest::new();
    request.edit().set_interval_ms(1);
    let refused = petasos::block_on(async {
        match operator.0.watch(petasos::Request::new(request)).await {
            Ok(mut stream) => stream.message().await.map(drop),
            Err(status) => Err(status),
        }
    });
    assert_eq!(refusal(refused).0, Code::InvalidArgument);
}
