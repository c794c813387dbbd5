//! A server in a process of its own that is killed: the client learns of it, and of its return.

mod common;

use std::net::SocketAddr;
use std::time::Duration;

use common::*;
use petasos_endpoint::{
    CallError, Clock, FailureReason, MsgBuf, Node, NodeConfig, SessionError, SessionState,
};

/// Set in the server's process: where to listen.
const LISTEN: &str = "PETASOS_TEST_LISTEN";

/// Not a test of its own: what the server's process runs.
#[test]
fn child_server() {
    let Ok(listen) = std::env::var(LISTEN) else { return };
    let listen: SocketAddr = listen.parse().expect("the parent gives an address");
    let config = NodeConfig { listen: Some(listen), ..NodeConfig::default() };
    let node = Node::start(config).expect("the port is free");
    let _server = Server::start(&node, listen.ip());
    tell_parent(&node);
}

fn server_at(listen: SocketAddr) -> ServerProcess {
    let mut command = this_program("child_server");
    command.env(LISTEN, listen.to_string());
    ServerProcess::start(command).expect("the test can run itself")
}

#[test]
fn a_killed_server_fails_its_sessions_at_once_and_can_come_back() {
    let _watchdog = watchdog("killed server");
    let mut server = server_at(SocketAddr::new(localhost(), 0));
    let node = node(None);
    let mut client = client(&node, localhost());
    let session = client.connect_and_wait(server.address, PATIENCE).expect("the server is up");
    echoes(&mut client, session);
    // It dies in the middle of large messages.
    for tag in 0..4 {
        let request = MsgBuf::new(16 << 20);
        let call = client.context().enqueue_request(session, ECHO, request, collect, tag);
        call.expect("there is room");
    }
    client.run_for(Duration::from_millis(2), |_, _| false);
    server.kill();
    assert!(client.run_for(PATIENCE, |state, _| state.list.len() == 4), "every call ends");
    for (_, outcome) in client.state_mut().list.drain(..) {
        assert!(outcome.is_ok() || outcome == Err(CallError::PeerFailed), "whole or failed");
    }
    assert!(
        client.run_for(PATIENCE, |_, cx| { cx.session_state(session) == SessionState::Failed })
    );
    let error = client.context().session_error(session).expect("the node knows why");
    let dead = [FailureReason::Eof, FailureReason::Reset].map(SessionError::PeerFailed);
    assert!(dead.contains(&error), "{error:?}");
    assert!(error.retry_may_succeed());
    client.close_session(session);
    assert_eq!(client.memory().pool.lent_bytes, 0, "every buffer has come back");
    let again = server_at(server.address);
    let session = client.connect_and_wait(again.address, PATIENCE).expect("it is back");
    echoes(&mut client, session);
}

#[test]
fn a_stopped_server_is_noticed_by_its_silence() {
    let _watchdog = watchdog("stopped server");
    let server = server_at(SocketAddr::new(localhost(), 0));
    let config = NodeConfig {
        heartbeat: Duration::from_millis(50),
        failure_timeout: Duration::from_millis(300),
        ..NodeConfig::default()
    };
    let node = Node::start(config).expect("threads are to be had");
    let mut client = client(&node, localhost());
    let session = client.connect_and_wait(server.address, PATIENCE).expect("the server is up");
    echoes(&mut client, session);
    let pid = rustix::process::Pid::from_child(&server.child);
    let stop = rustix::process::Signal::STOP;
    rustix::process::kill_process(pid, stop).expect("it is our child");
    // The signal takes a moment to reach every thread: until then the server still answers.
    let stopped = rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::UNTRACED);
    stopped.expect("it is our child").expect("it has stopped");
    assert_eq!(call(&mut client, session, ECHO), Err(CallError::PeerFailed));
    let error = client.context().session_error(session);
    assert_eq!(error, Some(SessionError::PeerFailed(FailureReason::Timeout)));
}

/// Processor time of this process, in nanoseconds.
fn processor_time_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Run it alone: `cargo test --test node_processes -- --ignored idle`. The other tests of this
/// file would be counted as well.
#[test]
#[ignore = "measures the whole process"]
fn an_idle_client_uses_next_to_no_processor_time() {
    let _watchdog = watchdog("idle client");
    let server = server_at(SocketAddr::new(localhost(), 0));
    let node = node(None);
    let mut client = client(&node, localhost());
    let session = client.connect_and_wait(server.address, PATIENCE).expect("the server is up");
    echoes(&mut client, session);
    let clock = Clock::system();
    let (begin, used) = (clock.now(), processor_time_ns());
    client.run_for(Duration::from_secs(2), |_, _| false);
    let (elapsed, used) = (clock.now() - begin, processor_time_ns() - used);
    let share = used as f64 / elapsed.as_nanos() as f64;
    eprintln!("an idle client takes {:.3} % of a core", share * 100.0);
    assert!(share < 0.01, "{share}");
}
