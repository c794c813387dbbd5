//! Calls that are tried again: by policy, within budgets, and because they have not run.

use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use crate::flaky::*;
use crate::greeter::generated::GreeterClient;
use crate::greeter::{blob, name};
use crate::servers::{PATIENCE, target, until};
use petasos::config::{EndpointConfig, LocalConfig, LocalPolicy, SessionConfig};
use petasos::{Channel, Code, Loop, LoopConfig, Request, Status, block_on};

const UNAVAILABLE: &str = r#""UNAVAILABLE""#;
/// So short that no test waits, in seconds.
const SHORT: &str = "0.002";
/// Longer than any test.
const LONG: &str = "1000";

fn client(target: &str, config: &str) -> GreeterClient {
    let channel = Channel::builder(target).service_config(config).connect();
    GreeterClient::new(block_on(channel).expect("the server is up"))
}

fn numbered(list: &[&str]) -> Vec<Option<String>> {
    let numbers = list.iter().map(|number| Some(number.to_string()));
    std::iter::once(None).chain(numbers).collect()
}

async fn check_retries(service: Flaky, client: GreeterClient) {
    let request = Request::new(name("you")).with_metadata("from", "me").expect("a fine key");
    let response = client.greet(request).await.expect("the third attempt succeeds");
    assert_eq!(response.text(), "hello, you");
    assert_eq!(service.previous(), numbered(&["1", "2"]));
    assert!(service.state().reached.iter().all(|reached| reached.from.as_deref() == Some("me")));
    // A long message, in packets: it is sent again as it was.
    service.state().next.extend([fail(Code::Unavailable), fail(Code::Unavailable)]);
    let bytes: Vec<u8> = (0..200_000u32).map(|at| at as u8).collect();
    let echoed = client.echo(blob(&bytes)).await.expect("the third attempt succeeds");
    assert!(echoed.bytes() == bytes);
    assert_eq!(service.count(), 6);
}

#[test]
fn a_status_that_the_policy_names_is_tried_again() {
    let service = Flaky::failing(&[Code::Unavailable; 2]);
    let server = service.start();
    let config = config(&retries(3, SHORT, UNAVAILABLE), "");
    block_on(check_retries(service.clone(), client(&target(&server), &config)));
}

#[test]
fn likewise_in_a_loop_of_the_caller() {
    let service = Flaky::failing(&[Code::Unavailable; 2]);
    let server = service.start();
    let config = config(&retries(3, SHORT, UNAVAILABLE), "");
    let event_loop = Loop::new(LoopConfig::default()).expect("a loop starts");
    event_loop.block_on(async {
        let channel = Channel::builder(&target(&server)).service_config(&config).connect().await;
        check_retries(service.clone(), GreeterClient::new(channel.expect("the server is up")))
            .await;
    });
}

#[test]
fn attempts_end_and_other_statuses_are_not_tried_again() {
    let service = Flaky::always(fail(Code::Unavailable));
    let server = service.start();
    let client = client(&target(&server), &config(&retries(3, SHORT, UNAVAILABLE), ""));
    let status = block_on(client.greet(name("x"))).expect_err("it always fails");
    assert_eq!((status.code(), status.message()), (Code::Unavailable, "it fails on purpose"));
    assert_eq!(service.count(), 3);
    service.state().always = Some(fail(Code::Aborted));
    let status = block_on(client.greet(name("x"))).expect_err("it always fails");
    assert_eq!(status.code(), Code::Aborted);
    assert_eq!(service.count(), 4);
}

#[test]
fn without_a_policy_nothing_is_tried_again() {
    let service = Flaky::always(fail(Code::Unavailable));
    let server = service.start();
    let client = client(&target(&server), "{}");
    let status = block_on(client.greet(name("x"))).expect_err("it always fails");
    assert_eq!((status.code(), service.count()), (Code::Unavailable, 1));
}

#[test]
fn a_server_says_when_it_is_to_be_asked_again() {
    let service = Flaky::default();
    let server = service.start();
    let client = client(&target(&server), &config(&retries(5, LONG, UNAVAILABLE), ""));
    service.state().next.extend(["0", "3", "1"].map(|wait| push_back(Code::Unavailable, wait)));
    assert!(block_on(client.greet(name("x"))).is_ok(), "it does not wait for the policy's time");
    assert_eq!(service.previous(), numbered(&["1", "2", "3"]));
    for never in ["-1", "soon"] {
        let before = service.count();
        service.state().next.push_back(push_back(Code::Unavailable, never));
        let status = block_on(client.greet(name("x"))).expect_err("the server wants no other");
        assert_eq!((status.code(), service.count()), (Code::Unavailable, before + 1), "{never}");
    }
}

#[test]
fn a_budget_bounds_the_attempts_of_all_calls() {
    let service = Flaky::always(fail(Code::Unavailable));
    let server = service.start();
    let throttling = r#", "retryThrottling": {"maxTokens": 4, "tokenRatio": 1}"#;
    let client = client(&target(&server), &config(&retries(5, SHORT, UNAVAILABLE), throttling));
    for _ in 0..20 {
        assert!(block_on(client.greet(name("x"))).is_err());
    }
    // Of four tokens, the first call took two; half of them is not enough.
    assert_eq!(service.count(), 21);
    service.state().always = None;
    for _ in 0..3 {
        assert!(block_on(client.greet(name("x"))).is_ok());
    }
    service.state().next.push_back(fail(Code::Unavailable));
    assert!(block_on(client.greet(name("x"))).is_err(), "three tokens are enough for no retry");
    for _ in 0..4 {
        assert!(block_on(client.greet(name("x"))).is_ok());
    }
    service.state().next.push_back(fail(Code::Unavailable));
    assert!(block_on(client.greet(name("x"))).is_ok(), "successes have filled the budget");
}

#[test]
fn a_deadline_covers_all_attempts() {
    let service = Flaky::default();
    let server = service.start();
    let client = client(&target(&server), &config(&retries(4, SHORT, UNAVAILABLE), ""));
    service.state().next.extend([fail(Code::Unavailable), fail(Code::Unavailable), Act::Hold]);
    let request = Request::new(name("x")).with_timeout(Duration::from_millis(300));
    let status = block_on(client.greet(request)).expect_err("the third attempt never ends");
    assert_eq!(status.code(), Code::DeadlineExceeded);
    let left: Vec<_> = service.state().reached.iter().map(|reached| reached.timeout).collect();
    assert_eq!(left.len(), 3);
    assert!(left[0] > left[1] && left[1] > left[2], "{left:?}");
    until(|| service.state().dropped == 1);
    // A wait that would pass the deadline is not begun: the status tells more.
    let client = self::client(&target(&server), &config(&retries(4, LONG, UNAVAILABLE), ""));
    service.state().next.push_back(fail(Code::Unavailable));
    let request = Request::new(name("x")).with_timeout(PATIENCE);
    let status = block_on(client.greet(request)).expect_err("its next attempt would be too late");
    assert_eq!(status.code(), Code::Unavailable);
}

#[test]
fn a_call_that_is_given_up_is_not_tried_again() {
    let service = Flaky::failing(&[Code::Unavailable]);
    let server = service.start();
    let client = client(&target(&server), &config(&retries(2, LONG, UNAVAILABLE), ""));
    let paused = client.greet(name("x"));
    until(|| service.count() == 1);
    assert!(block_on(client.greet(name("y"))).is_ok());
    drop(paused);
    assert!(block_on(client.greet(name("z"))).is_ok());
    assert_eq!(service.count(), 3);
}

#[test]
fn what_a_draining_server_refuses_goes_elsewhere_at_once() {
    let (first, second) = (Flaky::always(Act::Hold), Flaky::default());
    let (one, other) = (first.start(), second.start());
    let targets = format!("{},{}", target(&one), other.local_address().expect("it listens"));
    // No policy: it certainly has not run.
    let client = client(&targets, "{}");
    let held = client.echo(blob(b"held"));
    until(|| first.count() == 1);
    let draining = std::thread::spawn(move || block_on(one.drain(PATIENCE)));
    until(|| {
        // One that comes before the drain is held, too.
        let request = Request::new(blob(b"x")).with_timeout(Duration::from_millis(50));
        let outcome = block_on(client.echo(request));
        assert!(outcome.is_ok() || first.count() > 1, "{outcome:?}");
        second.count() > 0
    });
    assert_eq!(second.previous()[0], None, "it does not count as an attempt");
    drop(held);
    draining.join().expect("it does not panic");
}

const CHILD: &str = "PETASOS_TEST_HOLDS_AT";

/// Not a test of its own: the server process of the next one, whose calls never end.
#[test]
fn child_process() {
    let Ok(address) = std::env::var(CHILD) else { return };
    let service = Flaky::always(Act::Hold);
    let _server = service.builder().listen(&*address).start().expect("the port is free");
    println!("it listens");
    until(|| service.count() == 2);
    println!("it holds");
    std::thread::sleep(PATIENCE);
}

struct Process {
    child: Child,
    told: BufReader<ChildStdout>,
}

impl Process {
    fn start(address: SocketAddr) -> Process {
        let program = std::env::current_exe().expect("a test knows itself");
        let mut command = Command::new(program);
        command.args(["--exact", "retries::child_process", "--nocapture"]);
        command.env(CHILD, address.to_string()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("the program can be started");
        let told = BufReader::new(child.stdout.take().expect("it is a pipe"));
        Process { child, told }
    }

    /// Waits until the process has said this.
    fn says(&mut self, what: &str) {
        let mut line = String::new();
        while !line.contains(what) {
            line.clear();
            let read = self.told.read_line(&mut line).expect("it speaks text");
            assert!(read > 0, "it has ended before");
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // One that has ended already need not be ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A call of each method, under way at a server that is killed; and how many went to another.
fn killed(config: &str) -> (Result<(), Code>, Result<(), Code>, usize) {
    let address = free_address();
    let mut process = Process::start(address);
    process.says("it listens");
    let other = Flaky::default();
    let server = other.start();
    let second = server.local_address().expect("it listens");
    let client = client(&format!("petasos://{address},{second}"), config);
    let (idempotent, unknown) = (client.greet(name("x")), client.echo(blob(b"x")));
    process.says("it holds");
    drop(process);
    let code = |status: Status| status.code();
    let idempotent = block_on(idempotent).map(drop).map_err(code);
    (idempotent, block_on(unknown).map(drop).map_err(code), other.count())
}

#[test]
fn what_may_have_run_is_tried_again_only_if_the_policy_says_so() {
    let lost = Err(Code::Unavailable);
    assert_eq!(killed("{}"), (lost, lost, 0));
    let of_aborted = config(&retries(2, SHORT, r#""ABORTED""#), "");
    assert_eq!(killed(&of_aborted), (Ok(()), lost, 1), "only the idempotent one");
    let of_unavailable = config(&retries(2, SHORT, UNAVAILABLE), "");
    assert_eq!(killed(&of_unavailable), (Ok(()), Ok(()), 2));
}

/// A free port of loopback's.
fn free_address() -> SocketAddr {
    let free = TcpListener::bind("127.0.0.1:0").expect("loopback has ports");
    free.local_addr().expect("it is bound")
}

#[test]
fn r12_what_was_never_sent_goes_elsewhere_when_its_server_dies() {
    const CALLS: usize = 16;
    let address = free_address();
    let mut process = Process::start(address);
    process.says("it listens");
    let pid = process.child.id().to_string();
    let holds = std::thread::spawn(move || {
        process.says("it holds");
        process
    });
    let other = Flaky::default();
    let server = other.start();
    // Few packets may be under way at once.
    let session = SessionConfig { slots: 64, credits: 1, ..SessionConfig::default() };
    let endpoint = EndpointConfig { session, ..EndpointConfig::default() };
    let io = LocalConfig { local: LocalPolicy::Never, ..LocalConfig::default() };
    let event_loop = Loop::new(LoopConfig { endpoint, io, ..LoopConfig::default() });
    let event_loop = event_loop.expect("a loop starts");
    let second = server.local_address().expect("it listens");
    let channel = Channel::builder(&format!("petasos://{address},{second}")).connect();
    let client = GreeterClient::new(event_loop.block_on(channel).expect("the server is up"));
    let held = [0, 1].map(|_| client.echo(blob(b"held")));
    until(|| {
        event_loop.run_turns(1);
        holds.is_finished()
    });
    let process = holds.join().expect("it holds");
    // Nothing is acknowledged any more, so most of these stay here.
    let stopped = Command::new("kill").args(["-STOP", &pid]).status();
    assert!(stopped.expect("there is kill").success());
    let calls = [0; CALLS].map(|_| client.echo(blob(&vec![7; 200_000])));
    event_loop.run_turns(20);
    drop(process);
    let (mut lost, mut answered) = (0, 0);
    event_loop.block_on(async {
        for call in held {
            assert_eq!(call.await.expect_err("it has run").code(), Code::Unavailable);
        }
        for call in calls {
            match call.await {
                Ok(_) => answered += 1,
                Err(status) => {
                    assert_eq!(status.code(), Code::Unavailable, "{status}");
                    lost += 1;
                }
            }
        }
    });
    assert!(answered >= CALLS / 4, "{lost} were lost, {answered} answered");
    assert_eq!(other.count(), answered);
}
