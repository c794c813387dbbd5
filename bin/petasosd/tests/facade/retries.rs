//! Retries, hedging and balancing of channels whose calls go through the service.

use std::sync::Arc;

use petasos::{
    Balance, Channel, Code, Msg, Request, Response, Sender, Server, Status, Streaming, block_on,
};
use petasos_base::sync::{AtomicU32, Ordering};

use crate::support::managed::{Item, Work, WorkClient, WorkServer};
use crate::support::*;

/// Fails so many calls before it answers.
#[derive(Clone, Default)]
pub struct Flaky {
    left: Arc<AtomicU32>,
    reached: Arc<AtomicU32>,
}

impl Flaky {
    pub fn start(&self, daemon: &Daemon, application: &str) -> Server {
        let server = Server::builder().add(WorkServer::new(self.clone())).listen("127.0.0.1:0");
        server.service(daemon.service(application)).start().unwrap()
    }

    pub fn fail(&self, times: u32) {
        self.left.store(times, Ordering::SeqCst);
    }

    /// Calls that have reached it since the last look.
    pub fn take_reached(&self) -> u32 {
        self.reached.swap(0, Ordering::SeqCst)
    }
}

impl Work for Flaky {
    async fn echo(&self, request: Request<Item>) -> Result<Response<Item>, Status> {
        self.reached.fetch_add(1, Ordering::SeqCst);
        let less = |left: u32| left.checked_sub(1);
        match self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less) {
            Ok(_) => Err(Status::unavailable("it fails on purpose")),
            Err(_) => Ok(Response::new(request.into_message())),
        }
    }

    async fn fail(&self, request: Request<Item>) -> Result<Response<Item>, Status> {
        Worker.fail(request).await
    }

    async fn hold(&self, request: Request<Item>) -> Result<Response<Item>, Status> {
        // Only the first attempt finds nobody who answers.
        match self.reached.fetch_add(1, Ordering::SeqCst) {
            0 => Worker.hold(request).await,
            _ => Ok(Response::new(request.into_message())),
        }
    }

    async fn count(&self, upto: Request<Item>, out: Sender<Item>) -> Result<(), Status> {
        Worker.count(upto, out).await
    }

    async fn sum(&self, items: Streaming<Item>) -> Result<Response<Item>, Status> {
        Worker.sum(items).await
    }

    async fn chat(&self, items: Streaming<Item>, out: Sender<Item>) -> Result<(), Status> {
        Worker.chat(items, out).await
    }
}

pub const RETRIES: &str = r#"{"methodConfig": [{"name": [{"service": "managed.Work"}],
    "retryPolicy": {"maxAttempts": 3, "initialBackoff": "0.002s", "maxBackoff": "0.01s",
                    "backoffMultiplier": 1, "retryableStatusCodes": ["UNAVAILABLE"]}}]}"#;
/// Only what is named, or marked as idempotent, is hedged.
const HEDGES: &str = r#"{"methodConfig": [{"name": [{"service": "managed.Work", "method": "Hold"}],
    "hedgingPolicy": {"maxAttempts": 2, "hedgingDelay": "0.05s"}}]}"#;

fn channel(daemon: &Daemon, servers: &[&Server], config: &str) -> WorkClient {
    let addresses = servers.iter().map(|server| server.local_address().unwrap().to_string());
    let target = format!("petasos://{}", addresses.collect::<Vec<_>>().join(","));
    let channel = Channel::builder(&target).service(daemon.service("client"));
    let channel = channel.service_config(config).balance(Balance::RoundRobin);
    WorkClient::new(block_on(channel.connect()).unwrap())
}

fn long() -> Msg<Item> {
    let mut message = item("long", 1);
    message.set_blob(&*vec![7; 300_000]);
    message
}

#[test]
fn calls_are_tried_again_by_their_policies_long_ones_too() {
    let daemon = Daemon::start("retried", None);
    let flaky = Flaky::default();
    let server = flaky.start(&daemon, "server");
    let client = channel(&daemon, &[&server], RETRIES);
    for message in [|| item("short", 1), long] {
        flaky.fail(2);
        let echoed = block_on(client.echo(message())).unwrap();
        assert!(echoed.blob() == message().blob());
        assert_eq!(flaky.take_reached(), 3);
        flaky.fail(3);
        let status = block_on(client.echo(message())).unwrap_err();
        assert_eq!((status.code(), flaky.take_reached()), (Code::Unavailable, 3));
        flaky.fail(0);
    }
    // Without a policy, a call that has run is not made again.
    let plain = channel(&daemon, &[&server], "{}");
    flaky.fail(1);
    assert_eq!(block_on(plain.echo(long())).unwrap_err().code(), Code::Unavailable);
    assert_eq!(flaky.take_reached(), 1);
}

#[test]
fn calls_are_hedged() {
    let daemon = Daemon::start("hedged", None);
    let flaky = Flaky::default();
    let server = flaky.start(&daemon, "server");
    let client = channel(&daemon, &[&server], HEDGES);
    assert!(block_on(client.hold(item("slow", 1))).is_ok());
    assert_eq!(flaky.take_reached(), 2);
}

#[test]
fn calls_are_shared_out_among_servers_and_go_on_without_one_of_them() {
    let daemon = Daemon::start("balanced", None);
    let [one, other] = [Flaky::default(), Flaky::default()];
    let server = one.start(&daemon, "one");
    let leaves = other.start(&daemon, "other");
    let client = channel(&daemon, &[&server, &leaves], RETRIES);
    for _ in 0..200 {
        block_on(client.echo(item("x", 1))).unwrap();
    }
    let reached = [one.take_reached(), other.take_reached()];
    assert!(reached.iter().all(|reached| (60..=140).contains(reached)), "{reached:?}");
    drop(leaves);
    for number in 0..100 {
        block_on(client.echo(long())).unwrap_or_else(|status| panic!("{number}: {status}"));
    }
    assert!(one.take_reached() >= 99, "it has all but what reached the other as it left");
}
