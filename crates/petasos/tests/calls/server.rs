//! Servers: loops, workers, panics, and how they end.

use crate::servers;
use std::collections::HashSet;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::ThreadId;
use std::time::Duration;

use crate::greeter::generated::{Blob, Greeter, GreeterClient, GreeterServer, Greeting, Name};
use crate::greeter::*;
use crate::servers::*;
use petasos::{Channel, Code, Placement, Request, Response, Server, StartError, Status, block_on};

/// A service that blocks: `echo` until the test says so, and notes its thread.
struct Blocking {
    go: Mutex<Receiver<()>>,
    threads: Arc<Mutex<HashSet<ThreadId>>>,
}

impl Greeter for Blocking {
    async fn greet(&self, request: Request<Name>) -> Result<Response<Greeting>, Status> {
        self.threads.lock().expect("nothing panics here").insert(std::thread::current().id());
        Ok(Response::new(greeting(request.name())))
    }

    async fn echo(&self, request: Request<Blob>) -> Result<Response<Blob>, Status> {
        if request.bytes() == b"panic" {
            panic!("a worker that fails on purpose");
        }
        let told = self.go.lock().expect("nothing panics here").recv();
        told.map_err(|_| Status::aborted("the test is over"))?;
        Ok(Response::new(request.into_message()))
    }
}

fn blocking() -> (Blocking, Sender<()>, Arc<Mutex<HashSet<ThreadId>>>) {
    let (tell, go) = channel();
    let threads = Arc::default();
    (Blocking { go: Mutex::new(go), threads: Arc::clone(&threads) }, tell, threads)
}

fn check_workers() {
    let (service, tell, _) = blocking();
    let server = Server::builder().add(GreeterServer::new(service)).listen("127.0.0.1:0");
    let server = server.place("hello.Greeter/Echo", Placement::Worker).worker_calls_max(3);
    let server = server.worker_threads(2).start().expect("loopback has ports");
    let client = client(&server);
    let blocked: Vec<_> = (0..3).map(|_| client.echo(blob(b"x"))).collect();
    // The loop is not blocked; calls of one session may overtake each other, so ask until it shows.
    until(|| {
        let full = client.echo(blob(b"one too many"));
        let dispatched = block_on(client.greet(name("quick"))).expect("the loop is free");
        assert_eq!(dispatched.text(), "hello, quick");
        block_on(full).is_err_and(|status| status.code() == Code::ResourceExhausted)
    });
    for _ in 0..4 {
        tell.send(()).expect("the service lives");
    }
    for call in blocked {
        assert_eq!(block_on(call).expect("the handler answers").bytes(), b"x");
    }
    let failed = block_on(client.echo(blob(b"panic"))).expect_err("it panics");
    assert_eq!(failed.code(), Code::Internal);
    assert!(block_on(client.echo(blob(b"after"))).is_ok());
}

#[test]
fn workers_of_the_server_block_without_harm() {
    check_workers();
}

#[test]
fn workers_of_a_runtime_block_without_harm() {
    let runtime = runtime(3);
    let _entered = runtime.enter();
    check_workers();
}

/// A service whose handlers need the runtime's timers.
struct Sleepy;

impl Greeter for Sleepy {
    async fn greet(&self, request: Request<Name>) -> Result<Response<Greeting>, Status> {
        tokio::time::sleep(Duration::from_millis(5)).await;
        Ok(Response::new(greeting(request.name())))
    }

    async fn echo(&self, request: Request<Blob>) -> Result<Response<Blob>, Status> {
        Ok(Response::new(request.into_message()))
    }
}

#[test]
fn handlers_have_the_timers_of_the_runtime() {
    let runtime = runtime(1);
    runtime.block_on(async {
        let server = Server::builder().add(GreeterServer::new(Sleepy)).listen("127.0.0.1:0");
        let server = server.start().expect("loopback has ports");
        let channel = Channel::connect(&target(&server)).await.expect("the server is up");
        let client = GreeterClient::new(channel);
        let greeting = client.greet(name("after a while")).await;
        assert_eq!(greeting.expect("the handler answers").text(), "hello, after a while");
        let late = Request::new(name("too late")).with_timeout(Duration::from_millis(1));
        let late = client.greet(late).await.expect_err("it sleeps longer");
        assert_eq!(late.code(), Code::DeadlineExceeded);
        assert_eq!(server.shut_down().await.threads_failed, 0);
    });
}

#[test]
fn several_loops_share_an_address() {
    let (service, _tell, threads) = blocking();
    let server = Server::builder().add(GreeterServer::new(service)).listen("127.0.0.1:0");
    let server = server.loops(2).start().expect("loopback has ports");
    // Sessions spread over loops.
    let clients: Vec<_> = (0..4).map(|_| client(&server)).collect();
    for client in &clients {
        assert!(block_on(client.greet(name("x"))).is_ok());
    }
    assert_eq!(threads.lock().expect("nothing panics here").len(), 2);
}

#[test]
fn a_panic_harms_no_other_call() {
    let service = Service::default();
    let server = start(&service);
    let client = client(&server);
    let held = client.greet(name("hold"));
    let failed = block_on(client.greet(name("panic"))).expect_err("it panics");
    assert_eq!(failed.code(), Code::Internal);
    release(&service);
    assert!(block_on(held).is_ok());
}

#[test]
fn draining_finishes_what_has_begun_and_refuses_the_rest() {
    let service = Service::default();
    let server = start(&service);
    let client = client(&server);
    let held = client.greet(name("hold"));
    until(|| service.seen().begun == 1);
    let target = target(&server);
    let draining = std::thread::spawn(move || block_on(server.drain(PATIENCE)));
    until(|| {
        let refused = block_on(client.greet(name("new")));
        refused.is_err_and(|status| status.code() == Code::Unavailable)
    });
    assert!(block_on(Channel::connect(&target)).is_err(), "it takes no sessions");
    assert!(!draining.is_finished());
    release(&service);
    assert_eq!(block_on(held).expect("it has begun before").text(), "hello, held");
    let ended = draining.join().expect("it does not panic");
    assert_eq!((ended.calls, ended.threads_failed), (0, 0));
}

#[test]
fn draining_cuts_off_what_takes_too_long() {
    let service = Service::default();
    let server = start(&service);
    let client = client(&server);
    let held = client.greet(name("hold"));
    until(|| service.seen().begun == 1);
    let ended = block_on(server.drain(Duration::from_millis(10)));
    assert_eq!((ended.calls, ended.threads_failed), (1, 0));
    assert_eq!(block_on(held).expect_err("it was cut off").code(), Code::Unavailable);
    assert_eq!(service.seen().dropped, 1);
}

#[test]
fn what_cannot_be_started_says_so() {
    let placed =
        servers::builder(&Service::default()).place("hello.Greeter/Nod", Placement::Worker);
    assert!(matches!(placed.start(), Err(StartError::NoSuchMethod(_))));
    let twice = servers::builder(&Service::default());
    let twice = twice.add(GreeterServer::new(Service::default())).start();
    assert!(matches!(twice, Err(StartError::Service(_))), "{twice:?}");
    let server = start(&Service::default());
    let address = server.local_address().expect("it listens");
    let taken = servers::builder(&Service::default()).listen(address).start();
    assert!(matches!(taken, Err(StartError::Node(_))), "{taken:?}");
    let nowhere = servers::builder(&Service::default()).listen("nowhere").start();
    assert!(matches!(nowhere, Err(StartError::Address(..))), "{nowhere:?}");
}
