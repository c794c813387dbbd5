//! An endpoint driven by a Tokio runtime, through its descriptor.

use std::cell::RefCell;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::Duration;

use petasos_endpoint::{
    CallError, CallSettings, Completion, Context, Endpoint, EndpointConfig, MsgBuf, Polling,
};
use tokio::io::unix::AsyncFd;

use crate::callers::{Asker, Caller, connect};
use crate::common::*;

const STUCK: u16 = 2;

/// The task that turns the loop: when the descriptor is readable, or a timer is due.
async fn drive(endpoint: Rc<RefCell<Endpoint<Caller>>>, descriptor: AsyncFd<OwnedFd>) {
    loop {
        let next = {
            let mut endpoint = endpoint.borrow_mut();
            let at = endpoint.run_ready(64);
            endpoint.until(at)
        };
        let due = async {
            match next {
                Some(wait) => tokio::time::sleep(wait).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            ready = descriptor.readable() => ready.expect("the runtime lives").clear_ready(),
            () = due => {}
        }
    }
}

/// The successor of `new` is unsafe: the descriptor must stay the same until it is deregistered,
/// which an `OwnedFd` sees to.
#[allow(deprecated, reason = "an `OwnedFd` keeps its promise without unsafe code here")]
fn register(descriptor: OwnedFd) -> AsyncFd<OwnedFd> {
    AsyncFd::new(descriptor).expect("the runtime takes it")
}

fn is_readable(descriptor: &OwnedFd) -> bool {
    let at_once = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
    let mut fds = [rustix::event::PollFd::new(descriptor, rustix::event::PollFlags::IN)];
    rustix::event::poll(&mut fds, Some(&at_once)).expect("it can be polled") == 1
}

#[test]
fn running_the_loop_between_does_not_deafen_its_descriptor() {
    let _watchdog = watchdog("external and run");
    let server_node = node(Some(localhost()));
    let _server = Server::start(&server_node, localhost());
    let address = server_node.local_address().expect("it listens");
    let client_node = node(None);
    let config = EndpointConfig { polling: Polling::External, ..EndpointConfig::default() };
    let mut endpoint = endpoint_at(localhost(), config, Outcomes::default());
    endpoint.attach(&client_node).expect("the node runs");
    let descriptor = endpoint.descriptor().expect("descriptors");
    for _ in 0..100 {
        let session = endpoint.connect_and_wait(address, PATIENCE).expect("the server is up");
        endpoint.close_session(session);
    }
    endpoint.run_ready(64);
    assert!(!is_readable(&descriptor), "nothing is left to do");
    endpoint.notifier().expect("it has a mailbox").notify();
    assert!(is_readable(&descriptor), "it has been notified");
    endpoint.run_ready(64);
    assert!(!is_readable(&descriptor), "nothing is left to do");
}

/// Each would have every endpoint look through all of its sessions.
#[test]
fn issue_10_strangers_that_come_and_go_wake_no_endpoint() {
    let _watchdog = watchdog("strangers");
    let node = node(Some(localhost()));
    let address = node.local_address().expect("it listens");
    let config = EndpointConfig { polling: Polling::External, ..EndpointConfig::default() };
    let mut endpoint = endpoint_at(localhost(), config, 0usize);
    endpoint.register(ECHO, echo);
    endpoint.attach(&node).expect("the node runs");
    let descriptor = endpoint.descriptor().expect("descriptors");
    endpoint.run_ready(64);
    for _ in 0..20 {
        let mut stranger = TcpStream::connect(address).expect("it listens");
        stranger.write_all(&[0xff; 64]).expect("it takes bytes");
        // The node has ended the connection once it closes its side.
        let _ = stranger.read_to_end(&mut Vec::new());
    }
    assert!(!is_readable(&descriptor), "nobody has asked this endpoint for anything");
}

#[test]
fn a_tokio_runtime_drives_an_endpoint() {
    let _watchdog = watchdog("external polling");
    let server_node = node(Some(localhost()));
    let _server = Server::start_with(&server_node, localhost(), |endpoint| {
        endpoint.register(STUCK, |_, _, _| {});
    });
    let address = server_node.local_address().expect("it listens");
    let client_node = node(None);
    let (mut endpoint, asker) = Caller::endpoint(&client_node, Polling::External);
    connect(&mut endpoint, address);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime starts");
    let tasks = tokio::task::LocalSet::new();
    tasks.block_on(&runtime, async {
        let descriptor = register(endpoint.descriptor().expect("descriptors"));
        let endpoint = Rc::new(RefCell::new(endpoint));
        tokio::task::spawn_local(drive(endpoint.clone(), descriptor));
        // The notifier wakes the driver for each call, then packets do.
        for n in 0..200u32 {
            let answer = asker.ask(&n.to_le_bytes()).await.expect("the loop runs");
            assert_eq!(answer, Ok(n.to_le_bytes().to_vec()));
        }
        let other = asker.clone();
        let other_thread = tokio::task::spawn_blocking(move || {
            (0..50u8).all(|n| other.ask(&[n; 3000]).blocking_recv() == Ok(Ok(vec![n; 3000])))
        });
        assert!(other_thread.await.expect("it does not panic"));
        time_out(&endpoint, &asker).await;
    });
}

/// Timers come by the deadline alone.
async fn time_out(endpoint: &RefCell<Endpoint<Caller>>, asker: &Asker) {
    let timeout = Some(Duration::from_millis(30));
    let settings = CallSettings { timeout, ..CallSettings::default() };
    {
        let mut endpoint = endpoint.borrow_mut();
        let session = endpoint.state().session.expect("it is connected");
        let (cx, request) = (endpoint.context(), MsgBuf::from_slice(b"x"));
        let call = cx.enqueue_with(session, STUCK, request, on_end, 0, &settings);
        call.expect("there is room");
    }
    // The driver sleeps, and has seen neither the call nor its timer.
    asker.notifier.notify();
    while endpoint.borrow().state().ended.is_empty() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(endpoint.borrow().state().ended, [Err(CallError::Timeout)]);
}

fn on_end(caller: &mut Caller, _: &mut Context<Caller>, done: Completion<'_>) {
    caller.ended.push(done.result.map(drop));
}
