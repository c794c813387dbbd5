//! Handlers on worker threads, over real sockets.

use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use petasos_endpoint::{CallError, Endpoint, MsgBuf, RejectCode, WorkerPool};

use crate::common::*;

const REVERSE: u16 = 2;
const PANIC: u16 = 3;
const DECLINE: u16 = 4;
const WAIT: u16 = 5;

fn register(endpoint: &mut Endpoint<usize>, pool: &WorkerPool, gate: mpsc::Receiver<()>) {
    let reverse = |request: petasos_endpoint::WorkerRequest<'_>| {
        let reversed: Vec<u8> = request.payload.iter().rev().copied().collect();
        Ok(MsgBuf::from_slice(&reversed))
    };
    let gate = Mutex::new(gate);
    let wait = move |_: petasos_endpoint::WorkerRequest<'_>| {
        let gate = gate.lock().map_err(|_| RejectCode::Declined)?;
        gate.recv().map_err(|_| RejectCode::Declined)?;
        Ok(MsgBuf::from_slice(b"waited"))
    };
    endpoint.register_worker(REVERSE, pool, Arc::new(reverse)).expect("descriptors");
    endpoint.register_worker(PANIC, pool, Arc::new(|_| panic!("on purpose"))).expect("descriptors");
    let decline = Arc::new(|_: petasos_endpoint::WorkerRequest<'_>| Err(RejectCode::Declined));
    endpoint.register_worker(DECLINE, pool, decline).expect("descriptors");
    endpoint.register_worker(WAIT, pool, Arc::new(wait)).expect("descriptors");
}

fn setup(threads: usize, queue_max: usize) -> (Connected, mpsc::Sender<()>) {
    let (open_gate, gate) = mpsc::channel();
    let pair = connected(move |endpoint| {
        let pool = WorkerPool::new(threads, queue_max).expect("threads");
        register(endpoint, &pool, gate);
    });
    (pair, open_gate)
}

fn wait_for(client: &mut Endpoint<Outcomes>, count: usize) -> Vec<(u64, Outcome)> {
    assert!(client.run_for(PATIENCE, |state, _| state.list.len() >= count), "the calls end");
    std::mem::take(&mut client.state_mut().list)
}

#[test]
fn workers_answer_short_and_long_requests() {
    let _watchdog = watchdog("workers");
    let (mut pair, _open_gate) = setup(2, 64);
    let (client, session) = (&mut pair.client, pair.session);
    for len in [0usize, 1, 100, 4096, 4097, 5000, 100_000, 1 << 20, 3_000_001] {
        let bytes: Vec<u8> = (0..len).map(|at| (at % 251) as u8).collect();
        let request = MsgBuf::from_slice(&bytes);
        let call = client.context().enqueue_request(session, REVERSE, request, collect, 0);
        call.expect("there is room");
        let (_, outcome) = wait_for(client, 1).remove(0);
        let reversed: Vec<u8> = bytes.into_iter().rev().collect();
        assert!(outcome == Ok(reversed), "{len} bytes come back reversed");
    }
}

#[test]
fn a_panic_and_a_refusal_are_answered_and_kill_no_worker() {
    let _watchdog = watchdog("worker panics");
    let (mut pair, _open_gate) = setup(1, 64);
    let (client, session) = (&mut pair.client, pair.session);
    for _ in 0..3 {
        assert_eq!(call(client, session, PANIC), Err(CallError::HandlerFailed));
        assert_eq!(call(client, session, DECLINE), Err(CallError::Declined));
    }
    assert_eq!(call(client, session, REVERSE), Ok(vec![0, 0, 0, 0, 0, 0, 0, 7]));
    echoes(client, session);
}

#[test]
fn a_full_queue_rejects_as_overloaded_and_loses_nothing_else() {
    let _watchdog = watchdog("worker overload");
    let (mut pair, open_gate) = setup(1, 2);
    let (client, session) = (&mut pair.client, pair.session);
    // Eight slots: one runs or two wait, depending on when the worker takes the first.
    for tag in 0..8 {
        start(client, session, WAIT, tag);
    }
    let rejected = wait_for(client, 5);
    assert!(rejected.iter().all(|(_, outcome)| *outcome == Err(CallError::Overloaded)));
    echoes(client, session);
    drop(open_gate);
    let rest = wait_for(client, 8 - rejected.len());
    assert!(rest.iter().all(|(_, outcome)| *outcome == Err(CallError::Declined)), "{rest:?}");
}

#[test]
fn draining_waits_for_workers() {
    let _watchdog = watchdog("draining workers");
    let (open_gate, gate) = mpsc::channel();
    let (stopped, is_stopped) = mpsc::channel();
    let server_node = node(Some(localhost()));
    let address = server_node.local_address().expect("it listens");
    let attached = server_node.clone();
    let (running, is_running) = mpsc::channel();
    std::thread::spawn(move || {
        let pool = WorkerPool::new(1, 8).expect("threads");
        let mut endpoint = endpoint_at(localhost(), Default::default(), 0usize);
        register(&mut endpoint, &pool, gate);
        endpoint.attach(&attached).expect("the node runs");
        while endpoint.unfinished().0 == 0 {
            endpoint.run_for(Duration::from_millis(1), |_, _| false);
        }
        running.send(()).expect("the test waits");
        stopped.send(endpoint.shut_down(PATIENCE)).expect("the test waits");
    });
    let client_node = node(None);
    let mut client = client(&client_node, localhost());
    let session = loop {
        // The server's endpoint may not be attached yet.
        if let Ok(session) = client.connect_and_wait(address, PATIENCE) {
            break session;
        }
    };
    start(&mut client, session, WAIT, 1);
    while is_running.try_recv().is_err() {
        client.run_for(Duration::from_millis(1), |_, _| false);
    }
    while call(&mut client, session, REVERSE) != Err(CallError::Draining) {}
    assert!(is_stopped.try_recv().is_err(), "the worker is not done");
    open_gate.send(()).expect("the worker waits");
    let outcomes = wait_for(&mut client, 1);
    assert_eq!(outcomes, [(1, Ok(b"waited".to_vec()))]);
    let cut_off = is_stopped.recv().expect("the server stops");
    assert_eq!((cut_off.requests, cut_off.calls), (0, 0));
}
