//! Handlers of streams on workers, over datagrams and gRPC.
#![cfg(feature = "grpc")]

use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use crate::flow::generated::{Chunk, Flow, FlowClient, FlowServer, Plan, Sum};
use crate::flow::*;
use crate::flow::{PATIENCE, in_time};
use petasos::grpc::GrpcConfig;
use petasos::{
    Channel, Code, Metrics, Placement, Request, Response, Sender, Server, ServerBuilder, Status,
    Streaming, block_on,
};
use petasos_base::sync::{AtomicU64, Ordering};

const METHODS: [&str; 3] = ["flow.Flow/Produce", "flow.Flow/Collect", "flow.Flow/Chat"];

/// The service of the other tests, which notes where it runs, and blocks if it is asked to.
#[derive(Clone, Default)]
struct Noting {
    inner: Service,
    /// Handlers that have begun elsewhere than on workers.
    strays: Arc<AtomicU64>,
    /// Chats that are asked to `block` wait for word.
    go: Arc<Mutex<Option<mpsc::Receiver<()>>>>,
}

impl Noting {
    fn note(&self) {
        let is_worker = std::thread::current()
            .name()
            .is_some_and(|name| name.starts_with("petasos-worker") || name.starts_with("tokio"));
        self.strays.fetch_add(u64::from(!is_worker), Ordering::Relaxed);
    }

    fn block(&self) {
        let go = self.go.lock().expect("nothing panics under the lock");
        go.as_ref().expect("the test has one").recv().expect("the test gives word");
    }
}

impl Flow for Noting {
    async fn echo(&self, request: Request<Chunk>) -> Result<Response<Chunk>, Status> {
        self.inner.echo(request).await
    }

    async fn produce(&self, plan: Request<Plan>, out: Sender<Chunk>) -> Result<(), Status> {
        self.note();
        self.inner.produce(plan, out).await
    }

    async fn collect(&self, chunks: Streaming<Chunk>) -> Result<Response<Sum>, Status> {
        self.note();
        self.inner.collect(chunks).await
    }

    async fn chat(
        &self,
        mut chunks: Streaming<Chunk>,
        mut out: Sender<Chunk>,
    ) -> Result<(), Status> {
        self.note();
        let Some(first) = chunks.message().await? else { return Ok(()) };
        if first.text() == "block" {
            self.block();
        }
        out.send(first).await?;
        self.inner.chat(chunks, out).await
    }
}

fn builder(service: &Noting) -> ServerBuilder {
    let server = Server::builder().add(FlowServer::new(service.clone())).worker_threads(2);
    let server = server.listen("127.0.0.1:0").grpc("127.0.0.1:0", GrpcConfig::default());
    METHODS.iter().fold(server, |server, method| server.place(method, Placement::Worker))
}

fn serve(service: &Noting) -> Server {
    builder(service).start().expect("loopback has ports")
}

async fn connect(target: String) -> FlowClient {
    FlowClient::new(Channel::connect(&target).await.expect("the server listens"))
}

async fn over_datagrams(server: &Server) -> FlowClient {
    connect(format!("petasos://{}", server.local_address().expect("it listens"))).await
}

async fn over_grpc(server: &Server) -> FlowClient {
    connect(format!("grpc://{}", server.grpc_address().expect("it has a gRPC port"))).await
}

/// Over both.
async fn clients(server: &Server) -> [FlowClient; 2] {
    [over_datagrams(server).await, over_grpc(server).await]
}

/// Waits until handlers have seen something.
fn until(mut seen: impl FnMut() -> bool) {
    let mut ticks = 50_000;
    while !seen() {
        assert!(ticks > 0, "it does not happen");
        ticks -= 1;
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Waits until a count that has begun stands still.
fn settled(mut count: impl FnMut() -> u64) -> u64 {
    let mut last = 0;
    until(|| {
        std::thread::sleep(Duration::from_millis(100));
        let now = count();
        now > 0 && std::mem::replace(&mut last, now) == now
    });
    last
}

async fn every_shape(client: &FlowClient) {
    let request = Request::new(plan("", 2000, 300)).with_metadata("from", "a").expect("a key");
    let mut chunks = client.produce(request).await.expect("it begins");
    assert_eq!(chunks.head().await.expect("it goes on").get("to"), Some("a"));
    assert_eq!(drain(&mut chunks, 300).await, Ok(2000));
    assert_eq!(chunks.trailers().and_then(|trailers| trailers.get("end")), Some("a"));
    let mut upload = client.collect().with_metadata("from", "b").expect("a fine key");
    for number in 0..2000 {
        upload.send(chunk(number, 300)).await.expect("it is taken");
    }
    let sum = upload.finish().await.expect("it answers");
    assert_eq!((sum.chunks(), sum.bytes()), (2000, 600_000));
    assert_eq!((sum.metadata().get("to"), sum.trailers().get("end")), (Some("b"), Some("b")));
    let (mut out, mut back) = client.chat().await.expect("it begins");
    for (number, bytes) in (0..).zip([20, 0, 3000, 700_000, 1, 70_000, 5]) {
        out.send(chunk(number, bytes)).await.expect("it is taken");
        check(&back.message().await.expect("it goes on").expect("there is one"), number, bytes);
    }
    out.close();
    assert!(back.message().await.expect("it went well").is_none());
    let mut failing = client.produce(plan("fail", 50, 8)).await.expect("it begins");
    let mut count = 0;
    let status = loop {
        match failing.message().await {
            Ok(chunk) => count += u32::from(chunk.is_some()),
            Err(status) => break status,
        }
    };
    assert_eq!((count, status.code(), status.message()), (50, Code::NotFound, "no more chunks"));
    assert_eq!(status.metadata().get("why"), Some("planned"));
    let mut none = client.produce(plan("", 0, 0)).await.expect("it begins");
    assert_eq!(drain(&mut none, 0).await, Ok(0));
}

#[test]
fn calls_of_every_shape_run_on_the_servers_threads() {
    in_time(|| async {
        let (service, metrics) = (Noting::default(), Metrics::new());
        // With and without interceptors, which count all calls.
        for server in [builder(&service), builder(&service).intercept(metrics.clone())] {
            let server = server.start().expect("loopback has ports");
            for client in clients(&server).await {
                every_shape(&client).await;
            }
        }
        assert_eq!(service.strays.load(Ordering::Relaxed), 0);
        assert_eq!(service.inner.seen().running, 0);
        let counted = metrics.snapshot();
        let chats = counted.iter().find(|of| of.method == "Chat").expect("it was called");
        assert_eq!((chats.handled_with(Code::Ok), chats.received, chats.sent), (2, 14, 14));
    });
}

#[test]
fn calls_of_every_shape_run_on_a_runtime() {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(2).thread_name("tokio").enable_all().build();
    let runtime = runtime.expect("a runtime starts");
    runtime.block_on(async {
        let service = Noting::default();
        let server = serve(&service);
        for client in clients(&server).await {
            let test = tokio::time::timeout(PATIENCE, every_shape(&client));
            test.await.expect("it does not hang");
        }
        assert_eq!(service.strays.load(Ordering::Relaxed), 0);
    });
}

#[test]
fn a_handler_that_blocks_stops_nobody_else() {
    in_time(|| async {
        let (give, go) = mpsc::channel();
        let service = Noting { go: Arc::new(Mutex::new(Some(go))), ..Noting::default() };
        let server = serve(&service);
        for client in clients(&server).await {
            let (mut out, mut back) = client.chat().await.expect("it begins");
            out.send(asking(0, "block")).await.expect("it is taken");
            check(&client.echo(chunk(3, 5)).await.expect("the loop is free"), 3, 5);
            let mut chunks = client.produce(plan("", 50, 10)).await.expect("it begins");
            assert_eq!(drain(&mut chunks, 10).await, Ok(50), "the other thread is free");
            give.send(()).expect("the service lives");
            assert!(back.message().await.expect("it goes on").is_some());
        }
    });
}

#[test]
fn streams_that_wait_have_no_thread() {
    in_time(|| async {
        let service = Noting::default();
        let server = builder(&service).worker_threads(1).worker_calls_max(40);
        let server = server.start().expect("loopback has ports");
        let mut chats = Vec::new();
        for client in clients(&server).await {
            for _ in 0..20 {
                let (mut out, mut back) = client.chat().await.expect("it begins");
                out.send(chunk(0, 9)).await.expect("it is taken");
                assert!(back.message().await.expect("it goes on").is_some());
                chats.push((out, back));
            }
        }
        // All are there at once, and so many may be.
        for client in clients(&server).await {
            let mut refused = client.produce(plan("", 1, 1)).await.expect("it begins");
            let status = refused.message().await.expect_err("there are 40 already");
            assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
        }
        for (out, back) in &mut chats {
            out.send(chunk(1, 9)).await.expect("it is taken");
            assert!(back.message().await.expect("it goes on").is_some());
        }
        drop(chats);
        until(|| service.inner.seen().running == 0);
    });
}

#[test]
fn r17_a_client_that_does_not_read_stops_its_handler_and_loses_nothing() {
    in_time(|| async {
        let service = Noting::default();
        let server = serve(&service);
        let client = over_datagrams(&server).await;
        let mut chunks = client.produce(plan("", 20_000, 1000)).await.expect("it begins");
        let taken = settled(|| service.inner.seen().sent);
        // R17 at both ends, and mailboxes.
        assert!((100..7 * 131).contains(&taken), "{taken} chunks of 1000 bytes");
        check(&client.echo(chunk(3, 5)).await.expect("others are not harmed"), 3, 5);
        assert_eq!(drain(&mut chunks, 1000).await, Ok(20_000));
        // A handler that ends when all this is full: the end comes behind it.
        for less in [0, 30, 60, 90] {
            let chunks = u32::try_from(taken).expect("it is small") - less;
            service.inner.seen().sent = 0;
            let mut all = client.produce(plan("", chunks, 1000)).await.expect("it begins");
            settled(|| service.inner.seen().sent);
            assert_eq!(drain(&mut all, 1000).await, Ok(chunks));
        }
    });
}

/// Has another thread send, and waits for that.
struct Handing;

impl Flow for Handing {
    async fn echo(&self, request: Request<Chunk>) -> Result<Response<Chunk>, Status> {
        Ok(Response::new(request.into_message()))
    }

    async fn produce(&self, plan: Request<Plan>, mut out: Sender<Chunk>) -> Result<(), Status> {
        let sending = std::thread::spawn(move || {
            out.trailers_mut().append("end", "sent").expect("a fine key");
            let numbers = 0..plan.chunks();
            block_on(async {
                for number in numbers {
                    out.send(chunk(number, plan.bytes() as usize)).await?;
                }
                Ok(())
            })
        });
        sending.join().expect("it does not panic")
    }

    async fn collect(&self, _: Streaming<Chunk>) -> Result<Response<Sum>, Status> {
        Err(Status::unimplemented("not here"))
    }

    async fn chat(&self, _: Streaming<Chunk>, _: Sender<Chunk>) -> Result<(), Status> {
        Err(Status::unimplemented("not here"))
    }
}

#[test]
fn what_a_handler_in_the_loop_sends_from_another_thread_comes_before_its_end() {
    in_time(|| async {
        let server = Server::builder().add(FlowServer::new(Handing)).listen("127.0.0.1:0");
        let server = server.start().expect("loopback has ports");
        let client = over_datagrams(&server).await;
        let mut all = client.produce(plan("", 50, 100)).await.expect("it begins");
        assert_eq!(drain(&mut all, 100).await, Ok(50));
        assert_eq!(all.trailers().and_then(|trailers| trailers.get("end")), Some("sent"));
    });
}

#[test]
fn handlers_that_are_done_at_once_lose_nothing() {
    in_time(|| async {
        let service = Noting::default();
        let server = serve(&service);
        let client = over_datagrams(&server).await;
        for _ in 0..1000 {
            let mut three = client.produce(plan("", 3, 10)).await.expect("it begins");
            assert_eq!(drain(&mut three, 10).await, Ok(3));
        }
    });
}

#[test]
fn a_client_of_grpc_that_does_not_read_stops_its_handler() {
    in_time(|| async {
        let service = Noting::default();
        let server = serve(&service);
        let client = over_grpc(&server).await;
        let mut chunks = client.produce(plan("", 20_000, 1000)).await.expect("it begins");
        let taken = settled(|| service.inner.seen().sent);
        assert!(taken < 19_000, "{taken} chunks");
        assert_eq!(drain(&mut chunks, 1000).await, Ok(20_000));
    });
}

#[test]
fn r17_a_handler_that_does_not_read_stops_its_client() {
    in_time(|| async {
        let service = Noting::default();
        let server = serve(&service);
        let client = over_datagrams(&server).await;
        let sent = Arc::new(AtomicU64::new(0));
        let (uploading, count) = (client.clone(), sent.clone());
        let upload = std::thread::spawn(move || {
            block_on(async {
                let mut upload = uploading.collect();
                for number in 0..5000 {
                    let mut chunk = chunk(number, 1000);
                    if number == 0 {
                        chunk.edit().set_text("hold");
                    }
                    upload.send(chunk).await.expect("it is taken");
                    count.fetch_add(1, Ordering::Relaxed);
                }
                upload.finish().await.map(|sum| (sum.chunks(), sum.bytes()))
            })
        });
        let taken = settled(|| sent.load(Ordering::Relaxed));
        assert!((100..7 * 131).contains(&taken), "{taken} chunks of 1000 bytes");
        assert_eq!(service.inner.seen().taken, 1);
        check(&client.echo(chunk(3, 5)).await.expect("others are not harmed"), 3, 5);
        service.inner.release();
        assert_eq!(upload.join().expect("it does not fail"), Ok((5000, 5_000_000)));
    });
}

#[test]
fn r19_what_a_client_drops_is_dropped_at_the_worker() {
    in_time(|| async {
        let service = Noting::default();
        let server = serve(&service);
        let seen = || service.inner.seen();
        for (client, times) in clients(&server).await.iter().zip(1..) {
            // While the handler waits for something else, for room, and for a message.
            let mut held = client.produce(plan("hold", 1, 1)).await.expect("it begins");
            assert!(held.message().await.expect("it goes on").is_some());
            drop(held);
            until(|| seen().dropped == times);
            let sent = seen().sent;
            let full = client.produce(plan("", 1_000_000, 1000)).await.expect("it begins");
            until(|| seen().sent > sent + 100);
            drop(full);
            let (mut out, mut back) = client.chat().await.expect("it begins");
            for _ in 0..2 {
                out.send(chunk(0, 1)).await.expect("it is taken");
                assert!(back.message().await.expect("it goes on").is_some());
            }
            assert_eq!(seen().running, 1);
            drop((back, out));
            until(|| seen().running == 0);
        }
        let still = settled(|| seen().sent);
        assert!(still < 1_000_000, "{still} chunks for nobody");
    });
}

#[test]
fn r20_a_deadline_ends_the_call_and_its_handler() {
    in_time(|| async {
        let service = Noting::default();
        let server = serve(&service);
        for (client, times) in clients(&server).await.iter().zip(1..) {
            let late = Request::new(plan("hold", 2, 1)).with_timeout(Duration::from_millis(400));
            let mut late = client.produce(late).await.expect("it begins");
            let status = drain(&mut late, 1).await.expect_err("it is held");
            assert_eq!(status.code(), Code::DeadlineExceeded, "{status}");
            until(|| service.inner.seen().dropped == times);
        }
    });
}

#[test]
fn a_panic_is_an_internal_error_of_its_own_call() {
    in_time(|| async {
        let service = Noting::default();
        let server = serve(&service);
        for client in clients(&server).await {
            let (mut out, mut back) = client.chat().await.expect("it begins");
            out.send(chunk(0, 3)).await.expect("it is taken");
            assert!(back.message().await.expect("it goes on").is_some());
            for _ in 0..3 {
                let mut chunks = client.produce(plan("panic", 1, 1)).await.expect("it begins");
                let status = drain(&mut chunks, 1).await.expect_err("the handler panics");
                assert_eq!(status.code(), Code::Internal, "{status}");
            }
            out.send(chunk(1, 3)).await.expect("it is taken");
            check(&back.message().await.expect("it goes on").expect("one"), 1, 3);
        }
    });
}

#[test]
fn a_server_that_drains_lets_streams_end_and_one_that_ends_does_not() {
    in_time(|| async {
        for grace in [PATIENCE, Duration::ZERO] {
            let service = Noting::default();
            let server = serve(&service);
            let mut held = Vec::new();
            for client in clients(&server).await {
                let mut chunks = client.produce(plan("hold", 1, 1)).await.expect("it begins");
                assert!(chunks.message().await.expect("it goes on").is_some());
                held.push(chunks);
            }
            let draining = std::thread::spawn(move || block_on(server.drain(grace)));
            if grace == PATIENCE {
                std::thread::sleep(Duration::from_millis(20));
                assert!(!draining.is_finished());
                service.inner.release();
            }
            for chunks in &mut held {
                let end = chunks.message().await.map(|none| none.is_none());
                match grace == PATIENCE {
                    true => assert_eq!(end, Ok(true)),
                    false => assert_eq!(end.expect_err("it ends").code(), Code::Unavailable),
                }
            }
            assert_eq!(draining.join().expect("it does not panic").threads_failed, 0);
            until(|| service.inner.seen().dropped == if grace == PATIENCE { 0 } else { 2 });
        }
    });
}
