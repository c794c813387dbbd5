//! A response that takes long to decompress keeps no thread of calls, also if its call has a retry
//! policy or is hedged; and policies are asked about it as about any other.
#![cfg(feature = "grpc")]

mod flaky;
mod greeter;
mod servers;
mod unpackers;

use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, mpsc};

use flaky::{config, retries};
use greeter::generated::{Blob, Greeter, GreeterClient, GreeterServer, Greeting, Name};
use greeter::{blob, greeting, name};
use petasos::grpc::{ClientConfig, Compression, GrpcConfig};
use petasos::{
    Channel, Code, Codec, Loop, LoopConfig, Request, Response, Server, ServerBuilder, Status,
};
use petasos_base::sync::{AtomicU32, Ordering};
use servers::PATIENCE;
use unpackers::Unpackers;

/// So long that it takes some milliseconds.
const LONG_BYTES: usize = 3 << 20;
/// Calls that have to be answered meanwhile: many more than while such a response is on its way.
const CALLS: u32 = 300;

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

/// No thread is free to decompress the response until `release`: others are answered meanwhile.
async fn call_undisturbed(client: &GreeterClient, service: &Service, release: impl FnOnce()) {
    let mut slow = pin!(client.echo(long_call()));
    let mut others = pin!(async {
        let (mut answered, mut requests) = (0, 0);
        while answered < CALLS || requests == 0 {
            client.greet(name("other")).await.expect("the handler answers");
            requests += service.requests.swap(0, Ordering::Relaxed);
            answered += 1;
        }
    });
    std::future::poll_fn(|cx| {
        assert!(slow.as_mut().poll(cx).is_pending(), "it was decompressed by the calls' thread");
        others.as_mut().poll(cx)
    })
    .await;
    release();
    let response = slow.await.expect("the handler answers");
    assert!(response.bytes() == *service.long);
}

/// A runtime with one thread for what blocks.
fn with_runtime(test: impl Future<Output = ()>) {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().max_blocking_threads(1).build().expect("it starts");
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
            let held = Unpackers::hold();
            call_undisturbed(&client, &service, || drop(held)).await;
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
            let (release, released) = mpsc::channel::<()>();
            tokio::task::spawn_blocking(move || released.recv_timeout(PATIENCE));
            call_undisturbed(&client, &service, || drop(release)).await;
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
