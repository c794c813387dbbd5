//! A response that takes long to decompress keeps no thread of calls, also if its call has a retry
//! policy or is hedged; and policies are asked about it as about any other.
#![cfg(feature = "grpc")]

mod flaky;
mod greeter;
mod servers;

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use flaky::{config, retries};
use greeter::generated::{Blob, Greeter, GreeterClient, GreeterServer, Greeting, Name};
use greeter::{blob, greeting};
use petasos::grpc::{ClientConfig, Compression, GrpcConfig};
use petasos::{
    Channel, Code, Codec, Loop, LoopConfig, Request, Response, Server, ServerBuilder, Status,
};
use petasos_base::sync::{AtomicU32, Ordering};
use petasos_call::compress::{compress, decompress};
use rustix::time::{ClockId, clock_gettime};
use servers::PATIENCE;

/// So long that it takes some milliseconds.
const LONG_BYTES: usize = 3 << 20;

/// Answers `echo` with the same long blob, and counts the requests.
#[derive(Clone)]
struct Service {
    long: Arc<Vec<u8>>,
    requests: Arc<AtomicU32>,
}

impl Greeter for Service {
    async fn greet(&self, request: Request<Name>) -> Result<Response<Greeting>, Status> {
        Ok(Response::new(greeting(request.name())))
    }

    async fn echo(&self, _: Request<Blob>) -> Result<Response<Blob>, Status> {
        self.requests.fetch_add(1, Ordering::Relaxed);
        Ok(Response::new(blob(&self.long)).compressed(true))
    }
}

impl Service {
    /// One byte has the value of four bits, so that there is something to do.
    fn new() -> Service {
        let mut state = 1_u32;
        let mut nibble = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 28) as u8
        };
        let long = (0..LONG_BYTES).map(|_| nibble()).collect();
        Service { long: Arc::new(long), requests: Arc::default() }
    }

    fn start(&self) -> Server {
        let builder: ServerBuilder = Server::builder().add(GreeterServer::new(self.clone()));
        let builder = builder.listen("127.0.0.1:0").grpc("127.0.0.1:0", GrpcConfig::default());
        builder.start().expect("loopback has ports")
    }

    /// How long a thread takes to decompress its response, at least.
    fn inflation(&self) -> Duration {
        let packed = compress(Codec::GZIP, &self.long, Vec::new());
        let took = || {
            let began = thread_time();
            assert!(decompress(Codec::GZIP, &packed, LONG_BYTES).is_ok());
            thread_time() - began
        };
        (0..5).map(|_| took()).min().expect("there are some")
    }
}

fn long_call() -> Request<Blob> {
    Request::new(blob(b"x")).with_codec(Codec::GZIP).with_timeout(PATIENCE)
}

/// Policies by which a call may be made again, or is made twice at once.
fn policies() -> [String; 3] {
    let hedged = |delay| {
        let named = r#"{"service": "hello.Greeter", "method": "Echo"}"#;
        let hedging = format!(r#""maxAttempts": 2, "hedgingDelay": "{delay}s""#);
        format!(r#"{{"methodConfig": [{{"name": [{named}], "hedgingPolicy": {{{hedging}}}}}]}}"#)
    };
    [config(&retries(3, "0.001", r#""UNAVAILABLE""#), ""), hedged("100"), hedged("0")]
}

/// The time that this thread has had a processor for.
fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// The longest that this thread has worked at a stretch for `slow`, while others waited.
async fn longest_stretch<T>(slow: impl Future<Output = T>) -> (Duration, T) {
    let mut slow = pin!(slow);
    let (mut longest, mut polled_at) = (Duration::ZERO, thread_time());
    let output = std::future::poll_fn(|cx| {
        longest = longest.max(thread_time() - polled_at);
        polled_at = thread_time();
        cx.waker().wake_by_ref();
        slow.as_mut().poll(cx)
    });
    let output = output.await;
    (longest, output)
}

/// Others need not wait for half as long as the decompression of a response takes.
async fn call_undisturbed(client: &GreeterClient, service: &Service) {
    let inflation = service.inflation();
    let (longest, response) = longest_stretch(client.echo(long_call())).await;
    assert!(response.expect("the handler answers").bytes() == *service.long);
    assert!(longest < inflation / 2, "the thread was kept for {longest:?} of {inflation:?}");
}

fn with_runtime(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime starts");
    runtime.block_on(async { tokio::time::timeout(PATIENCE, test).await.expect("it hangs") });
}

#[test]
fn issue_10_a_response_that_may_be_retried_is_decompressed_beside_the_loop() {
    let service = Service::new();
    let server = service.start();
    let event_loop = Loop::new(LoopConfig::default()).expect("a loop starts");
    for policy in policies() {
        let channel = Channel::builder(&servers::target(&server)).service_config(&policy);
        event_loop.block_on(async {
            let client = GreeterClient::new(channel.connect().await.expect("the server is up"));
            call_undisturbed(&client, &service).await;
        });
    }
}

/// A client of the server's gRPC port, which takes responses of so many bytes.
async fn grpc_client(server: &Server, bytes_max: usize, policy: &str) -> GreeterClient {
    let mut config = ClientConfig::default();
    config.receive_bytes_max = bytes_max;
    config.compression = Compression::Gzip;
    let target = format!("grpc://{}", server.grpc_address().expect("it has a gRPC port"));
    let channel = Channel::builder(&target).service_config(policy).grpc(config).connect().await;
    GreeterClient::new(channel.expect("the server is up"))
}

#[test]
fn issue_10_over_grpc_such_a_response_is_decompressed_beside_the_connections_thread() {
    let service = Service::new();
    let server = service.start();
    for policy in policies() {
        with_runtime(async {
            let client = grpc_client(&server, LONG_BYTES + 100, &policy).await;
            call_undisturbed(&client, &service).await;
        });
    }
}

/// A response that becomes longer than the client takes has failed with a code that policies may
/// name.
#[test]
fn what_becomes_too_long_is_tried_again_if_the_policy_says_so() {
    const TAKEN_BYTES: usize = 2 << 20;
    let service = Service::new();
    let server = service.start();
    let mut loop_config = LoopConfig::default();
    loop_config.endpoint.session.message_bytes_max = TAKEN_BYTES as u32;
    let event_loop = Loop::new(loop_config).expect("a loop starts");
    for (codes, attempts) in [(r#""RESOURCE_EXHAUSTED""#, 3), (r#""UNAVAILABLE""#, 1)] {
        let policy = config(&retries(3, "0.001", codes), "");
        let channel = Channel::builder(&servers::target(&server)).service_config(&policy);
        let outcome = event_loop.block_on(async {
            let client = GreeterClient::new(channel.connect().await.expect("the server is up"));
            client.echo(long_call()).await
        });
        check_refused(outcome, &service, attempts);
        with_runtime(async {
            let client = grpc_client(&server, TAKEN_BYTES, &policy).await;
            check_refused(client.echo(long_call()).await, &service, attempts);
        });
    }
}

fn check_refused(outcome: Result<Response<Blob>, Status>, service: &Service, attempts: u32) {
    let status = outcome.expect_err("it is too long");
    assert_eq!(status.code(), Code::ResourceExhausted, "{status:?}");
    assert_eq!(service.requests.swap(0, Ordering::Relaxed), attempts, "{status:?}");
}
