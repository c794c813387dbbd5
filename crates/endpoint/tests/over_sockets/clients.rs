//! Async clients on the loop's thread and on others, over real sockets.

use std::future::Future;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use petasos_base::sync::{AtomicBool, Ordering};
use petasos_endpoint::{
    CallError, CallFuture, CallSettings, Client, ClientError, ConnectAndWaitError, EndpointConfig,
    EnqueueError, LocalClient, Node, Polling, SessionError,
};

use crate::common::*;

/// Keeps its requests for ever.
const STUCK: u16 = 2;

fn never<S>(_: &mut S, _: &mut petasos_endpoint::Context<S>, _: petasos_endpoint::Request<'_>) {}

fn server(node: &Node) -> Server {
    Server::start_with(node, localhost(), |endpoint| endpoint.register(STUCK, never))
}

/// Waits for all of `futures` at once.
async fn join_all(futures: Vec<CallFuture>) -> Vec<Result<Vec<u8>, ClientError>> {
    let mut pending: Vec<_> = futures.into_iter().map(Some).collect();
    let mut results: Vec<_> = pending.iter().map(|_| None).collect();
    std::future::poll_fn(move |context| {
        for (future, result) in pending.iter_mut().zip(&mut results) {
            if let Some(waiting) = future
                && let Poll::Ready(response) = Pin::new(waiting).poll(context)
            {
                *result = Some(response.map(|response| response.to_vec()));
                *future = None;
            }
        }
        if results.iter().any(Option::is_none) {
            return Poll::Pending;
        }
        Poll::Ready(results.iter_mut().filter_map(Option::take).collect())
    })
    .await
}

#[test]
fn a_local_client_makes_several_calls_at_once() {
    let _watchdog = watchdog("local client");
    let server_node = node(Some(localhost()));
    let _server = server(&server_node);
    let client_node = node(None);
    let mut endpoint = client(&client_node, localhost());
    let address = server_node.local_address().expect("it listens");
    let session = endpoint.connect_and_wait(address, PATIENCE).expect("the server is up");
    let local = LocalClient::new(endpoint).expect("descriptors");
    let big = vec![5u8; 2_000_000];
    let calls = (0..40u8).map(|n| local.call(session, ECHO, &[n; 100][..]));
    let calls = calls.chain([local.call(session, ECHO, &big[..])]).collect();
    let results = local.block_on(join_all(calls));
    assert_eq!(results.len(), 41);
    for (n, result) in results.iter().take(40).enumerate() {
        assert_eq!(*result, Ok(vec![n as u8; 100]));
    }
    assert!(results[40] == Ok(big), "the long message is whole");
    let lent = local.endpoint().memory().pool.lent_bytes;
    assert_eq!(lent, 0, "responses that left the endpoint are not counted as lent");
}

#[test]
fn dropping_a_future_cancels_its_call() {
    let _watchdog = watchdog("cancellation");
    let server_node = node(Some(localhost()));
    let _server = server(&server_node);
    let client_node = node(None);
    let mut endpoint = client(&client_node, localhost());
    let address = server_node.local_address().expect("it listens");
    let session = endpoint.connect_and_wait(address, PATIENCE).expect("the server is up");
    let local = LocalClient::new(endpoint).expect("descriptors");
    let stuck: Vec<_> = (0..20).map(|_| local.call(session, STUCK, &b"x"[..])).collect();
    let echo = local.call(session, ECHO, &b"late"[..]);
    local.endpoint().run_for(Duration::from_millis(5), |_, _| false);
    assert_eq!(local.endpoint().unfinished().1, 21, "every slot is taken");
    drop(stuck);
    let response = local.block_on(echo).expect("the slots are free again");
    assert_eq!(&response[..], b"late");
    assert_eq!(local.endpoint().unfinished().1, 0);
}

#[test]
fn a_call_can_time_out_behind_a_live_peer() {
    let _watchdog = watchdog("call timeout");
    let server_node = node(Some(localhost()));
    let _server = server(&server_node);
    let client_node = node(None);
    let mut endpoint = client(&client_node, localhost());
    let address = server_node.local_address().expect("it listens");
    let session = endpoint.connect_and_wait(address, PATIENCE).expect("the server is up");
    let local = LocalClient::new(endpoint).expect("descriptors");
    let timeout = Some(Duration::from_millis(30));
    let settings = CallSettings { timeout, ..CallSettings::default() };
    let outcome = local.block_on(local.call_with(session, STUCK, &b"x"[..], settings));
    assert_eq!(outcome.map(|_| ()), Err(ClientError::Failed(CallError::Timeout)));
}

/// Runs a client endpoint on a thread of its own while `test` uses its handle.
fn with_remote_client(node: &Node, test: impl FnOnce(Client)) {
    let (send, receive) = std::sync::mpsc::channel();
    let stop = AtomicBool::new(false);
    let node = node.clone();
    std::thread::scope(|scope| {
        let stopped = &stop;
        let ended = scope.spawn(move || {
            // It sleeps whenever it can, and without a limit: a lost wake-up is a hang.
            let polling = Polling::Adaptive { spin: Duration::ZERO };
            let config = EndpointConfig { polling, ..EndpointConfig::default() };
            let mut endpoint = endpoint_at(localhost(), config, Outcomes::default());
            endpoint.attach(&node).expect("the node runs");
            send.send(endpoint.client().expect("descriptors")).expect("the test waits");
            endpoint.run(|_, _| stopped.load(Ordering::Acquire));
        });
        let client = receive.recv().expect("the endpoint starts");
        test(client.clone());
        stop.store(true, Ordering::Release);
        client.wake();
        ended.join().expect("the endpoint's thread does not panic");
    });
}

fn block_on<F: Future>(future: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.expect("a runtime starts").block_on(future)
}

#[test]
fn a_client_calls_from_any_thread() {
    let _watchdog = watchdog("remote client");
    let server_node = node(Some(localhost()));
    let _server = server(&server_node);
    let address = server_node.local_address().expect("it listens");
    let client_node = node(None);
    with_remote_client(&client_node, |client| {
        let session = block_on(client.connect(address)).expect("the server is up");
        std::thread::scope(|scope| {
            for thread in 0..4u8 {
                let client = client.clone();
                scope.spawn(move || {
                    for n in (0..=255u8).cycle().take(1000) {
                        let response = block_on(client.call(session, ECHO, &[thread, n][..]));
                        assert_eq!(&response.expect("the server is up")[..], [thread, n]);
                    }
                });
            }
        });
        let stuck: Vec<_> = (0..20).map(|_| client.call(session, STUCK, &b"x"[..])).collect();
        let echo = client.call(session, ECHO, &b"late"[..]);
        drop(stuck);
        assert_eq!(&block_on(echo).expect("the slots are free again")[..], b"late");
        client.close(session);
        let error = block_on(client.call(session, ECHO, &b"x"[..])).map(|_| ());
        let gone = EnqueueError::NoSuchSession;
        assert_eq!(error, Err(ClientError::NotStarted(gone)));
    });
}

#[test]
fn futures_outlive_their_endpoint() {
    let _watchdog = watchdog("endpoint gone");
    let server_node = node(Some(localhost()));
    let _server = server(&server_node);
    let address = server_node.local_address().expect("it listens");
    let client_node = node(None);
    let mut kept = None;
    with_remote_client(&client_node, |client| {
        let session = block_on(client.connect(address)).expect("the server is up");
        let stuck = client.call(session, STUCK, &b"x"[..]);
        kept = Some((client, session, stuck));
    });
    let (client, session, stuck) = kept.expect("the test has run");
    assert_eq!(block_on(stuck).map(|_| ()), Err(ClientError::EndpointGone));
    let late = client.call(session, ECHO, &b"x"[..]);
    assert_eq!(block_on(late).map(|_| ()), Err(ClientError::EndpointGone));
}

#[test]
fn a_client_learns_why_it_gets_no_session() {
    let _watchdog = watchdog("remote connect failure");
    let client_node = node(None);
    with_remote_client(&client_node, |client| {
        let nobody = std::net::TcpListener::bind((localhost(), 0)).expect("loopback has ports");
        let address = nobody.local_addr().expect("it is bound");
        drop(nobody);
        let outcome = block_on(client.connect(address));
        let refused = matches!(outcome, Err(ConnectAndWaitError::Failed(SessionError::Refused)));
        assert!(refused, "{outcome:?}");
    });
}

#[test]
fn shutting_down_ends_calls_that_nobody_answers() {
    let _watchdog = watchdog("shut down");
    let server_node = node(Some(localhost()));
    let _server = server(&server_node);
    let client_node = node(None);
    let mut client = client(&client_node, localhost());
    let address = server_node.local_address().expect("it listens");
    let session = client.connect_and_wait(address, PATIENCE).expect("the server is up");
    start(&mut client, session, STUCK, 1);
    let cut_off = client.shut_down(Duration::from_millis(50));
    assert_eq!((cut_off.requests, cut_off.calls), (0, 1));
    assert_eq!(client.state().list, [(1, Err(CallError::SessionClosed))]);
}
