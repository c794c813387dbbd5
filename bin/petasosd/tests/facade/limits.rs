//! Quotas of calls and memory: programs wait, or are told, and nothing is lost.

use std::sync::Arc;
use std::time::Duration;

use petasos::{Code, Loop, Request, Response, Sender, Server, Status, Streaming, block_on};
use petasos_base::sync::{AtomicUsize, Ordering};

use crate::support::managed::{Item, Work, WorkClient, WorkServer};
use crate::support::*;

/// Long enough for the service to hear all that was said before, on a busy machine, too.
pub const PAUSE: Duration = Duration::from_millis(500);

/// Counts the calls that are held.
#[derive(Clone, Default)]
pub struct Holder(pub Arc<AtomicUsize>);

impl Holder {
    pub fn start(&self, daemon: &Daemon) -> Server {
        let server = Server::builder().add(WorkServer::new(self.clone())).listen("127.0.0.1:0");
        server.service(daemon.service("server")).start().unwrap()
    }
}

impl Work for Holder {
    async fn echo(&self, request: Request<Item>) -> Result<Response<Item>, Status> {
        Worker.echo(request).await
    }

    async fn fail(&self, request: Request<Item>) -> Result<Response<Item>, Status> {
        Worker.fail(request).await
    }

    async fn hold(&self, request: Request<Item>) -> Result<Response<Item>, Status> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Worker.hold(request).await
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

/// A daemon whose file has these quotas.
pub fn configured(test: &str, quotas: &str) -> Daemon {
    let name = format!("{test}-{}.toml", std::process::id());
    let file = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&file, quotas).unwrap();
    let daemon = Daemon::start_more(test, None, &["--config", file.to_str().unwrap()]);
    std::fs::remove_file(file).unwrap();
    daemon
}

fn blob(bytes: usize) -> petasos::Msg<Item> {
    let mut message = item("long", bytes as i64);
    message.set_blob(&*vec![7; bytes]);
    message
}

/// Makes calls with such messages at once. All are answered.
async fn echo_all(client: &WorkClient, calls: usize, bytes: usize) {
    let calls: Vec<_> = (0..calls).map(|_| client.echo(blob(bytes))).collect();
    for call in calls {
        assert_eq!(call.await.unwrap().blob().len(), bytes);
    }
}

#[test]
fn a_program_waits_when_it_has_as_many_calls_as_it_may_and_others_do_not() {
    let daemon = configured("few-calls", "application.client.quota.calls = 4\n");
    let holder = Holder::default();
    let server = holder.start(&daemon);
    let event_loop: Loop = daemon.event_loop("client");
    let few = client(&event_loop, &server);
    let held = event_loop.block_on(async {
        let held: Vec<_> = (0..6).map(|number| few.hold(item("held", number))).collect();
        let late = few.echo(Request::new(item("late", 1)).with_timeout(PAUSE)).await;
        assert_eq!(late.unwrap_err().code(), Code::DeadlineExceeded, "it has waited");
        held
    });
    assert_eq!(holder.0.load(Ordering::SeqCst), 4, "two wait");
    let server_at = &server;
    std::thread::scope(|scope| {
        let elsewhere = scope.spawn(|| {
            block_on(async {
                let other = client_elsewhere(&daemon, server_at).await;
                echo_all(&other, 100, 10).await;
            });
        });
        elsewhere.join().unwrap();
    });
    event_loop.block_on(async {
        drop(held);
        echo_all(&few, 200, 10).await;
    });
}

#[test]
fn a_program_with_little_memory_waits_for_it_and_is_told_of_what_never_fits() {
    let quotas = "application.client.quota = { send-heap-bytes = 1048576, \
                  receive-heap-bytes = 1048576 }\n";
    let daemon = configured("little-memory", quotas);
    let server = daemon.server("server");
    let event_loop = daemon.event_loop("client");
    let little = client(&event_loop, &server);
    event_loop.block_on(async {
        // Twenty times what it can send, and receive, at once.
        echo_all(&little, 200, 100_000).await;
        let never = little.echo(blob(2 << 20)).await.unwrap_err();
        assert_eq!(never.code(), Code::ResourceExhausted, "{never}");
        echo_all(&little, 20, 100_000).await;
    });
    drop((little, event_loop));
    block_on(async {
        let other = client_elsewhere(&daemon, &server).await;
        echo_all(&other, 2, 5 << 20).await;
    });
}

#[test]
fn a_server_with_little_memory_gets_what_fits_and_its_callers_are_told_of_the_rest() {
    let quotas = "application.server.quota.receive-heap-bytes = 1048576\n";
    let daemon = configured("little-server", quotas);
    let server = daemon.server("server");
    let event_loop = daemon.event_loop("client");
    let client = client(&event_loop, &server);
    event_loop.block_on(async {
        let never = client.echo(blob(3 << 20));
        echo_all(&client, 100, 100_000).await;
        let never = never.await.unwrap_err();
        assert_eq!(never.code(), Code::ResourceExhausted, "{never}");
        // Messages of streams, likewise.
        let mut items = client.sum();
        let _ = items.send(blob(3 << 20)).await;
        let never = items.finish().await.map(drop).unwrap_err();
        assert_eq!(never.code(), Code::ResourceExhausted, "{never}");
        let mut items = client.sum();
        for _ in 0..50 {
            items.send(blob(100_000)).await.unwrap();
        }
        assert_eq!(items.finish().await.unwrap().number(), 50 * 100_000);
    });
}
