//! A service with streams that behaves as its requests ask, in a loop over memory and a virtual
//! clock.
#![allow(dead_code, reason = "each test file uses its own part")]

pub mod generated;

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use generated::{Chunk, Flow, FlowClient, FlowServer, Plan, Sum};
use petasos::{Code, Loop, Msg, Request, Response, Sender, Status, Streaming, block_on};
use petasos_base::{Clock, Time, VirtualClock};
use petasos_buf::PoolConfig;
use petasos_endpoint::{EndpointConfig, SessionConfig};
use petasos_netio::memory::{Hub, MemoryConfig};

/// Far longer than any test.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Runs a test on a thread without a loop; it fails rather than hangs.
pub fn in_time<F: Future<Output = ()>>(test: impl FnOnce() -> F + Send + 'static) {
    let (done, over) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        block_on(test());
        done.send(()).expect("somebody waits");
    });
    let outcome = over.recv_timeout(PATIENCE);
    assert!(!matches!(outcome, Err(mpsc::RecvTimeoutError::Timeout)), "it hangs");
    thread.join().expect("the test does not fail");
}

/// What the service has seen.
#[derive(Default)]
pub struct Seen {
    pub begun: u64,
    /// Chats whose handlers are there.
    pub running: u64,
    /// Handlers that were dropped while they held.
    pub dropped: u64,
    pub held: Vec<Waker>,
    pub release: bool,
    /// Chunks that handlers have taken, and sent.
    pub taken: u64,
    pub sent: u64,
    /// Streams of requests whose end was seen.
    pub closed: u64,
    pub timeout: Option<Duration>,
    pub metadata: Option<String>,
}

#[derive(Clone, Default)]
pub struct Service {
    pub seen: Arc<Mutex<Seen>>,
}

impl Service {
    pub fn seen(&self) -> std::sync::MutexGuard<'_, Seen> {
        self.seen.lock().expect("no test panics under the lock")
    }

    pub fn begun_and_dropped(&self) -> (u64, u64) {
        let seen = self.seen();
        (seen.begun, seen.dropped)
    }

    pub fn taken_and_closed(&self) -> (u64, u64) {
        let seen = self.seen();
        (seen.taken, seen.closed)
    }

    /// Lets held handlers go on.
    pub fn release(&self) {
        let held = {
            let mut seen = self.seen();
            seen.release = true;
            std::mem::take(&mut seen.held)
        };
        held.into_iter().for_each(Waker::wake);
    }

    pub fn held(&self) -> Held {
        Held { service: self.clone(), done: false }
    }

    async fn send(&self, to: &mut Sender<Chunk>, chunk: Msg<Chunk>) -> Result<(), Status> {
        to.send(chunk).await?;
        self.seen().sent += 1;
        Ok(())
    }

    async fn take(&self, from: &mut Streaming<Chunk>) -> Result<Option<Msg<Chunk>>, Status> {
        let chunk = from.message().await?;
        let mut seen = self.seen();
        seen.taken += u64::from(chunk.is_some());
        seen.closed += u64::from(chunk.is_none());
        Ok(chunk)
    }
}

/// Counts a handler for as long as it is there.
struct Running(Service);

impl Running {
    fn new(service: &Service) -> Running {
        service.seen().running += 1;
        Running(service.clone())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.seen().running -= 1;
    }
}

/// Waits until the test says so.
pub struct Held {
    service: Service,
    done: bool,
}

impl Future for Held {
    type Output = ();
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let released = self.service.seen().release;
        if released {
            self.done = true;
            return Poll::Ready(());
        }
        self.service.seen().held.push(cx.waker().clone());
        Poll::Pending
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.service.seen().dropped += u64::from(!self.done);
    }
}

impl Flow for Service {
    async fn echo(&self, request: Request<Chunk>) -> Result<Response<Chunk>, Status> {
        Ok(Response::new(request.into_message()))
    }

    async fn produce(&self, plan: Request<Plan>, mut out: Sender<Chunk>) -> Result<(), Status> {
        {
            let mut seen = self.seen();
            seen.begun += 1;
            seen.timeout = plan.timeout();
            seen.metadata = plan.metadata().get("from").map(str::to_owned);
        }
        if let Some(from) = plan.metadata().get("from") {
            out.metadata_mut().append("to", from).expect("a fine key");
            out.trailers_mut().append("end", from).expect("a fine key");
        }
        if plan.how() == "metadata first" {
            out.send_metadata();
            self.held().await;
        }
        for number in 0..plan.chunks() {
            self.send(&mut out, chunk(number, plan.bytes() as usize)).await?;
        }
        match plan.how() {
            "fail" => {
                let mut status = Status::not_found("no more chunks");
                status.metadata_mut().append("why", "planned").expect("a fine key");
                Err(status)
            }
            "panic" => panic!("a handler that fails on purpose"),
            "hold" => {
                self.held().await;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    async fn collect(&self, mut chunks: Streaming<Chunk>) -> Result<Response<Sum>, Status> {
        self.seen().begun += 1;
        let (mut count, mut bytes) = (0, 0);
        while let Some(chunk) = self.take(&mut chunks).await? {
            assert_eq!(chunk.number(), count, "in order");
            count += 1;
            bytes += chunk.bytes().len() as u64;
            match chunk.text() {
                "early" => break,
                "hold" => self.held().await,
                "fail" => return Err(Status::aborted("as asked")),
                _ => {}
            }
        }
        let mut sum = Sum::new();
        sum.edit().set_chunks(count).set_bytes(bytes);
        let mut response = Response::new(sum);
        if let Some(from) = chunks.metadata().get("from") {
            response.metadata_mut().append("to", from).expect("a fine key");
            response.trailers_mut().append("end", from).expect("a fine key");
        }
        Ok(response)
    }

    async fn chat(
        &self,
        mut chunks: Streaming<Chunk>,
        mut out: Sender<Chunk>,
    ) -> Result<(), Status> {
        let _running = Running::new(self);
        self.seen().begun += 1;
        while let Some(chunk) = self.take(&mut chunks).await? {
            match chunk.text() {
                "hold" => self.held().await,
                "end" => return Ok(()),
                "panic" => panic!("a handler that fails on purpose"),
                _ => self.send(&mut out, chunk).await?,
            }
        }
        Ok(())
    }
}

/// Lets others go on first, once.
pub async fn yield_once() {
    let mut has_waited = false;
    std::future::poll_fn(|cx| {
        if std::mem::replace(&mut has_waited, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

pub fn plan(how: &str, chunks: u32, bytes: u32) -> Msg<Plan> {
    let mut plan = Plan::new();
    plan.edit().set_how(how).set_chunks(chunks).set_bytes(bytes);
    plan
}

/// A chunk whose bytes tell its number.
pub fn chunk(number: u32, bytes: usize) -> Msg<Chunk> {
    let mut chunk = Chunk::new();
    chunk.edit().set_number(number).set_bytes(vec![number as u8; bytes]);
    chunk
}

pub fn asking(number: u32, text: &str) -> Msg<Chunk> {
    let mut chunk = chunk(number, 0);
    chunk.edit().set_text(text);
    chunk
}

pub fn check(chunk: &Chunk, number: u32, bytes: usize) {
    assert_eq!((chunk.number(), chunk.bytes().len()), (number, bytes));
    assert!(chunk.bytes().iter().all(|byte| *byte == number as u8));
}

/// Reads to the end; gives how many messages there were.
pub async fn drain(from: &mut Streaming<Chunk>, bytes: usize) -> Result<u32, Status> {
    let mut count = 0;
    while let Some(chunk) = from.message().await? {
        check(&chunk, count, bytes);
        count += 1;
    }
    Ok(count)
}

/// Both ends in one loop.
pub struct World {
    pub event_loop: Loop,
    pub time: VirtualClock,
    pub service: Service,
    pub client: FlowClient,
}

impl World {
    pub fn new() -> World {
        let world = World::bare();
        let service = FlowServer::new(world.service.clone());
        world.event_loop.serve(service).expect("it is the only service");
        world
    }

    /// Whose service is still to be served.
    pub fn bare() -> World {
        World::with_pool(PoolConfig::default())
    }

    /// Likewise, with these limits of the endpoint's memory.
    pub fn with_pool(pool: PoolConfig) -> World {
        let time = VirtualClock::default();
        let session = SessionConfig { message_bytes_max: 16 << 20, ..SessionConfig::default() };
        let config = EndpointConfig { seed: Some(5), session, pool, ..EndpointConfig::default() };
        let port = Hub::direct(MemoryConfig::default()).port();
        let event_loop = Loop::over(config, port, Clock::Virtual(time.clone()));
        let event_loop = event_loop.expect("this thread has no other loop");
        let service = Service::default();
        let client = FlowClient::new(event_loop.channel_to_itself());
        World { event_loop, time, service, client }
    }

    pub fn run<F: Future>(&self, future: F) -> F::Output {
        self.event_loop.block_on(future)
    }

    pub fn turn(&self) {
        self.event_loop.run_turns(20);
    }

    /// Lets `ms` milliseconds pass.
    pub fn pass_ms(&self, ms: u64) {
        for _ in 0..ms {
            self.time.set(Time::from_nanos(self.time.now().as_nanos() + 1_000_000));
            self.event_loop.run_turns(2);
        }
    }

    /// Other calls are not harmed by whatever goes on.
    pub fn check_unary(&self) {
        let echoed = self.run(async { self.client.echo(chunk(7, 100)).await });
        check(&echoed.expect("the handler answers"), 7, 100);
    }
}

/// Says so many chunks, each of which comes back.
pub async fn chat(client: &FlowClient, chunks: u32, bytes: usize) {
    let (mut out, mut back) = client.chat().await.expect("it begins");
    for number in 0..chunks {
        out.send(chunk(number, bytes)).await.expect("it is taken");
        check(&back.message().await.expect("it goes on").expect("there is one"), number, bytes);
    }
    out.close();
    assert!(back.message().await.expect("it went well").is_none());
}

/// Calls the methods of all kinds.
pub async fn every_shape(client: &FlowClient) {
    check(&client.echo(chunk(3, 5)).await.expect("it answers"), 3, 5);
    let mut chunks = client.produce(plan("", 2000, 300)).await.expect("it begins");
    assert_eq!(drain(&mut chunks, 300).await, Ok(2000));
    let mut upload = client.collect();
    for number in 0..2000 {
        upload.send(chunk(number, 300)).await.expect("it is taken");
    }
    let sum = upload.finish().await.expect("it answers");
    assert_eq!((sum.chunks(), sum.bytes()), (2000, 600_000));
    chat(client, 50, 20).await;
    chat(client, 2, 3_000_000).await;
    let mut failing = client.produce(plan("fail", 1, 8)).await.expect("it begins");
    assert_eq!(drain(&mut failing, 8).await.expect_err("it fails").code(), Code::NotFound);
}
