//! Handlers on workers are polled within their calls' spans, too.
#![cfg(feature = "grpc")]

mod flow;

use std::cell::Cell;

use flow::generated::{Chunk, Flow, FlowClient, FlowServer, Plan, Sum};
use flow::{chunk, plan};
use petasos::grpc::GrpcConfig;
use petasos::{
    Channel, Placement, Request, Response, Sender, Server, Status, Streaming, Tracing, block_on,
};
use petasos_base::sync::{AtomicU64, Ordering};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

thread_local! {
    /// Spans that this thread is in.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// Knows which threads are in spans.
#[derive(Default)]
struct Depths(AtomicU64);

impl Subscriber for Depths {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(self.0.fetch_add(1, Ordering::Relaxed) + 1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, _: &Event<'_>) {}

    fn enter(&self, _: &Id) {
        DEPTH.set(DEPTH.get() + 1);
    }

    fn exit(&self, _: &Id) {
        DEPTH.set(DEPTH.get() - 1);
    }
}

/// Fails outside of spans, before and after it has waited.
async fn check() -> Result<(), Status> {
    let is_in_one = || match DEPTH.get() {
        0 => Err(Status::internal("a handler outside of its span")),
        _ => Ok(()),
    };
    is_in_one()?;
    flow::yield_once().await;
    is_in_one()
}

struct Checking;

impl Flow for Checking {
    async fn echo(&self, request: Request<Chunk>) -> Result<Response<Chunk>, Status> {
        check().await?;
        Ok(Response::new(request.into_message()))
    }

    async fn produce(&self, _: Request<Plan>, mut out: Sender<Chunk>) -> Result<(), Status> {
        check().await?;
        out.send(chunk(0, 1)).await
    }

    async fn collect(&self, _: Streaming<Chunk>) -> Result<Response<Sum>, Status> {
        Err(Status::unimplemented("not here"))
    }

    async fn chat(&self, _: Streaming<Chunk>, _: Sender<Chunk>) -> Result<(), Status> {
        Err(Status::unimplemented("not here"))
    }
}

#[test]
fn handlers_on_workers_are_in_their_spans() {
    tracing::subscriber::set_global_default(Depths::default()).expect("it is the only test here");
    let server = Server::builder().add(FlowServer::new(Checking)).intercept(Tracing::new());
    let server = server.listen("127.0.0.1:0").grpc("127.0.0.1:0", GrpcConfig::default());
    let server = server.place("flow.Flow/Echo", Placement::Worker);
    let server = server.place("flow.Flow/Produce", Placement::Worker);
    let server = server.start().expect("loopback has ports");
    let datagrams = format!("petasos://{}", server.local_address().expect("it listens"));
    let grpc = format!("grpc://{}", server.grpc_address().expect("it has a gRPC port"));
    for target in [datagrams, grpc] {
        block_on(async {
            let channel = Channel::connect(&target).await.expect("the server listens");
            let client = FlowClient::new(channel);
            client.echo(chunk(0, 1)).await.expect("it is in a span");
            let mut chunks = client.produce(plan("", 1, 1)).await.expect("it begins");
            assert!(chunks.message().await.expect("it is in a span").is_some());
        });
    }
}
