//! Calls that other threads have a loop make: through its notifier and its own work of a turn.

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use petasos_base::sync::{AtomicBool, Ordering};
use petasos_endpoint::{CallError, CallSettings, Endpoint, MsgBuf, Polling};

use crate::callers::{Asker, Caller, connect};
use crate::common::*;

/// Keeps its requests for ever.
const STUCK: u16 = 2;

fn never_answers(server: &mut Endpoint<usize>) {
    server.register(STUCK, |_, _, _| {});
}

/// Runs a loop on a thread of its own while `test` asks it.
fn with_caller(test: impl FnOnce(&Asker)) {
    let server_node = node(Some(localhost()));
    let _server = Server::start(&server_node, localhost());
    let address = server_node.local_address().expect("it listens");
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = stop.clone();
    let (ready, is_ready) = channel();
    let thread = std::thread::spawn(move || {
        let client_node = node(None);
        // It sleeps whenever it can, and without a limit: a lost wake-up is a hang.
        let polling = Polling::Adaptive { spin: Duration::ZERO };
        let (mut endpoint, asker) = Caller::endpoint(&client_node, polling);
        connect(&mut endpoint, address);
        ready.send(asker).expect("the test waits");
        endpoint.run(|_, _| stopped.load(Ordering::Acquire));
    });
    let asker = is_ready.recv().expect("the loop starts");
    test(&asker);
    stop.store(true, Ordering::Release);
    asker.notifier.notify();
    thread.join().expect("the loop does not panic");
}

#[test]
fn a_sleeping_loop_calls_for_any_thread() {
    let _watchdog = watchdog("calls of other threads");
    with_caller(|asker| {
        std::thread::scope(|scope| {
            for thread in 0..4u8 {
                let asker = asker.clone();
                scope.spawn(move || {
                    for n in (0..=255u8).cycle().take(1000) {
                        let answer = asker.ask(&[thread, n]).blocking_recv();
                        assert_eq!(answer.expect("the loop runs"), Ok(vec![thread, n]));
                    }
                });
            }
        });
        let many: Vec<_> = (0..20u8).map(|n| asker.ask(&[n; 3000])).collect();
        for (n, answer) in (0..20u8).zip(many) {
            assert_eq!(answer.blocking_recv().expect("the loop runs"), Ok(vec![n; 3000]));
        }
    });
}

#[test]
fn calls_that_end_early_free_their_slots() {
    let _watchdog = watchdog("cancellation");
    let mut pair = connected(never_answers);
    let (client, session) = (&mut pair.client, pair.session);
    let (cx, request) = (client.context(), || MsgBuf::from_slice(b"x"));
    let stuck = (0..20).map(|tag| cx.enqueue_request(session, STUCK, request(), collect, tag));
    let stuck: Vec<_> = stuck.map(|call| call.expect("there is room")).collect();
    start(client, session, ECHO, 20);
    client.run_for(Duration::from_millis(5), |_, _| false);
    assert_eq!(client.unfinished().1, 21, "every slot is taken");
    for call in stuck {
        assert!(client.context().cancel(call));
    }
    assert!(client.run_for(PATIENCE, |state, _| state.list.len() == 21), "every call ends");
    let answered: Vec<_> = client.state().list.iter().filter(|(_, end)| end.is_ok()).collect();
    assert_eq!(answered, [&(20, Ok(20u64.to_le_bytes().to_vec()))]);
    assert_eq!(client.unfinished().1, 0);
}

#[test]
fn a_call_can_time_out_behind_a_live_peer() {
    let _watchdog = watchdog("call timeout");
    let mut pair = connected(never_answers);
    let (client, session) = (&mut pair.client, pair.session);
    let timeout = Some(Duration::from_millis(30));
    let settings = CallSettings { timeout, ..CallSettings::default() };
    let request = MsgBuf::from_slice(b"x");
    let call = client.context().enqueue_with(session, STUCK, request, collect, 1, &settings);
    call.expect("there is room");
    assert!(client.run_for(PATIENCE, |state, _| !state.list.is_empty()), "the call ends");
    assert_eq!(client.state().list, [(1, Err(CallError::Timeout))]);
}

#[test]
fn shutting_down_ends_calls_that_nobody_answers() {
    let _watchdog = watchdog("shut down");
    let mut pair = connected(never_answers);
    let (client, session) = (&mut pair.client, pair.session);
    start(client, session, STUCK, 1);
    let cut_off = client.shut_down(Duration::from_millis(50));
    assert_eq!((cut_off.requests, cut_off.calls), (0, 1));
    assert_eq!(client.state().list, [(1, Err(CallError::SessionClosed))]);
}
