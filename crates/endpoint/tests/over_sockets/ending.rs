//! What becomes of requests that are on their way when their server ends.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use petasos_endpoint::{CallError, EndpointConfig, MsgBuf};

use crate::common::*;

/// Its client knows then that it has not run, and may go elsewhere.
#[test]
fn a_request_that_has_come_in_part_is_refused_once_it_is_complete() {
    let _watchdog = watchdog("a part of a request");
    let server_node = node(Some(localhost()));
    let address = server_node.local_address().expect("it listens");
    let (end, may_end) = mpsc::channel::<()>();
    let server = thread::spawn(move || {
        let mut endpoint = endpoint_at(localhost(), EndpointConfig::default(), 0usize);
        endpoint.register(ECHO, echo);
        endpoint.attach(&server_node).expect("the node runs");
        // It waits for a request only if it knows a part of it.
        while endpoint.stats().server.acks == 0 || may_end.try_recv().is_err() {
            endpoint.run_for(Duration::from_millis(1), |_, _| false);
        }
        endpoint.shut_down(PATIENCE)
    });
    let client_node = node(None);
    let mut config = EndpointConfig::default();
    // One window is not the whole request, and a second one is the rest: on a busy machine, more
    // would take longer than the server stays for it.
    (config.session.credits, config.session.datagram_bytes_max) = (8, 1472);
    let mut client = endpoint_at(localhost(), config, Outcomes::default());
    client.attach(&client_node).expect("the node runs");
    let session = loop {
        // The server's endpoint may not be attached yet.
        if let Ok(session) = client.connect_and_wait(address, PATIENCE) {
            break session;
        }
    };
    let request = MsgBuf::from_slice(&[7; 16_000]);
    client.context().enqueue_request(session, ECHO, request, collect, 1).expect("there is room");
    client.run_once();
    end.send(()).expect("the server waits");
    // Longer than it lingers for what it knows nothing of.
    thread::sleep(Duration::from_millis(150));
    assert!(client.run_for(PATIENCE, |state, _| !state.list.is_empty()), "the call ends");
    assert_eq!(client.state().list, [(1, Err(CallError::Draining))]);
    let cut_off = server.join().expect("it does not panic");
    assert_eq!((cut_off.requests, cut_off.calls), (0, 0));
}
