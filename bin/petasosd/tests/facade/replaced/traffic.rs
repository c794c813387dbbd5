//! Calls and streams that go on while the daemon is replaced, and a server that counts them.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use petasos::{
    Channel, Loop, LoopConfig, Request, Response, Sender, Server, ServiceChoice, Status, Streaming,
};
use petasos_base::sync::{AtomicBool, AtomicU64, Ordering};
use petasos_base::{SystemClock, Time};

use crate::support::managed::{Item, Work, WorkClient, WorkServer};
use crate::support::{Daemon, item};

/// How often each number has come.
pub type Counts = Arc<Mutex<HashMap<i64, u32>>>;

const MESSAGES: i64 = 10;
const PATIENCE: Duration = Duration::from_secs(60);

pub struct Counting(Counts);

impl Counting {
    /// A server in an application of its own.
    pub fn serve(daemon: &Daemon) -> (Counts, Server) {
        let counts = Counts::default();
        let server = Server::builder().add(WorkServer::new(Counting(counts.clone())));
        let server = server.listen("127.0.0.1:0").service(daemon.service("server"));
        (counts, server.start().unwrap())
    }

    fn count(&self, item: &Item) {
        *self.0.lock().unwrap().entry(item.number()).or_default() += 1;
    }
}

impl Work for Counting {
    async fn echo(&self, request: Request<Item>) -> Result<Response<Item>, Status> {
        self.count(&request);
        Ok(Response::new(request.into_message()))
    }

    async fn fail(&self, _: Request<Item>) -> Result<Response<Item>, Status> {
        Err(Status::unimplemented("not here"))
    }

    async fn hold(&self, _: Request<Item>) -> Result<Response<Item>, Status> {
        core::future::pending().await
    }

    async fn count(&self, _: Request<Item>, _: Sender<Item>) -> Result<(), Status> {
        Err(Status::unimplemented("not here"))
    }

    async fn sum(&self, _: Streaming<Item>) -> Result<Response<Item>, Status> {
        Err(Status::unimplemented("not here"))
    }

    async fn chat(&self, mut items: Streaming<Item>, mut out: Sender<Item>) -> Result<(), Status> {
        while let Some(item) = items.message().await? {
            Counting::count(self, &item);
            out.send(item).await?;
        }
        Ok(())
    }
}

/// What a load has done.
#[derive(Default)]
pub struct Done {
    /// The numbers that came back.
    pub ids: Vec<i64>,
    pub failed: Vec<String>,
    /// The longest time between two that came back.
    pub gap: Duration,
}

/// All that came back has run, and nothing ran twice, was lost or has failed.
pub fn check(counts: &Counts, loads: &[Done]) {
    for done in loads {
        assert_eq!(done.failed, Vec::<String>::new());
        assert!(done.ids.len() > 20, "{} is too few", done.ids.len());
        println!("{} went through, the longest pause was {:?}", done.ids.len(), done.gap);
    }
    let counts = counts.lock().unwrap();
    let all = loads.iter().map(|done| done.ids.len()).sum::<usize>();
    assert_eq!(counts.len(), all, "all have run");
    assert!(counts.values().all(|count| *count == 1), "and none twice");
    assert!(loads.iter().flat_map(|done| &done.ids).all(|id| counts.contains_key(id)));
}

/// An application that calls until it is stopped.
pub struct Load {
    thread: JoinHandle<Done>,
    is_over: Arc<AtomicBool>,
    went_through: Arc<AtomicU64>,
}

impl Load {
    /// One call after the other.
    pub fn unary(daemon: &Daemon, server: &Server, name: &str, first: i64) -> Load {
        Load::unary_at(daemon.service(name), server.local_address().unwrap(), first)
    }

    /// The same, to a server at an address.
    pub fn unary_at(service: ServiceChoice, server: SocketAddr, first: i64) -> Load {
        let at = move |event_loop: &Loop| WorkClient::new(event_loop.channel(server));
        Load::calls(service, at, first)
    }

    /// The same, to a gRPC server, without a service.
    pub fn grpc(target: &str, first: i64) -> Load {
        let target = format!("grpc://{target}");
        let at = move |_: &Loop| {
            let channel = Channel::builder(&target).service(ServiceChoice::Direct);
            WorkClient::new(channel.connect_lazily().unwrap())
        };
        Load::calls(ServiceChoice::Direct, at, first)
    }

    fn calls(
        service: ServiceChoice,
        at: impl FnOnce(&Loop) -> WorkClient + Send + 'static,
        first: i64,
    ) -> Load {
        Load::of(service, at, async move |client: &WorkClient, run: &mut Run| {
            let number = first + run.next();
            let called = client.echo(item("unary", number)).await;
            run.note(number, called.map(|echoed| echoed.number()));
            std::thread::sleep(Duration::from_millis(1));
        })
    }

    /// One stream after the other, with some messages in both directions each.
    pub fn streams(daemon: &Daemon, server: &Server, name: &str, first: i64) -> Load {
        Load::streams_at(daemon.service(name), server.local_address().unwrap(), first)
    }

    /// The same, to a server at an address.
    pub fn streams_at(service: ServiceChoice, server: SocketAddr, first: i64) -> Load {
        let at = move |event_loop: &Loop| WorkClient::new(event_loop.channel(server));
        Load::of(service, at, async move |client: &WorkClient, run: &mut Run| {
            if let Err(status) = talk(client, run, first).await {
                run.note(0, Err(status));
            }
        })
    }

    fn of(
        service: ServiceChoice,
        at: impl FnOnce(&Loop) -> WorkClient + Send + 'static,
        step: impl AsyncFn(&WorkClient, &mut Run) + Send + 'static,
    ) -> Load {
        let is_over = Arc::new(AtomicBool::new(false));
        let went_through = Arc::new(AtomicU64::new(0));
        let mut run = Run::new(went_through.clone());
        let until = is_over.clone();
        let thread = std::thread::spawn(move || {
            let config = LoopConfig { service, ..LoopConfig::default() };
            let event_loop = Loop::new(config).unwrap();
            let client = at(&event_loop);
            event_loop.block_on(async {
                while !until.load(Ordering::Relaxed) {
                    step(&client, &mut run).await;
                }
            });
            run.done
        });
        Load { thread, is_over, went_through }
    }

    /// Waits until something more went through.
    pub fn await_more(&self) {
        let clock = SystemClock::default();
        let (before, begun) = (self.went_through.load(Ordering::Relaxed), clock.now());
        while self.went_through.load(Ordering::Relaxed) < before + 3 {
            assert!(clock.now() - begun < PATIENCE, "nothing goes through");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    pub fn stop(self) -> Done {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

async fn talk(client: &WorkClient, run: &mut Run, first: i64) -> Result<(), Status> {
    let (mut out, mut back) = client.chat().await?;
    for _ in 0..MESSAGES {
        let number = first + run.next();
        out.send(item("stream", number)).await?;
        let came = back.message().await?;
        let came = came.ok_or_else(|| Status::internal("a message is missing"))?;
        run.note(number, Ok(came.number()));
        std::thread::sleep(Duration::from_millis(2));
    }
    out.close();
    match back.message().await? {
        None => Ok(()),
        Some(_) => Err(Status::internal("a message came twice")),
    }
}

/// A load that runs.
struct Run {
    done: Done,
    number: i64,
    clock: SystemClock,
    latest: Time,
    went_through: Arc<AtomicU64>,
}

impl Run {
    fn new(went_through: Arc<AtomicU64>) -> Run {
        let clock = SystemClock::default();
        let latest = clock.now();
        Run { done: Done::default(), number: 0, clock, latest, went_through }
    }

    fn next(&mut self) -> i64 {
        self.number += 1;
        self.number
    }

    fn note(&mut self, number: i64, came: Result<i64, Status>) {
        match came {
            Ok(came) if came == number => {
                let now = self.clock.now();
                self.done.gap = self.done.gap.max(now - self.latest);
                self.latest = now;
                self.done.ids.push(number);
                self.went_through.fetch_add(1, Ordering::Relaxed);
            }
            Ok(other) => self.done.failed.push(format!("{other} instead of {number}")),
            Err(status) => {
                self.done.failed.push(format!("{:?}: {}", status.code(), status.message()));
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }
}
