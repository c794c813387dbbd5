//! Compression by call and by message, over datagrams and gRPC alike.
#![cfg(feature = "grpc")]

use crate::flow;

use std::time::Duration;

use crate::flow::generated::{Chunk, Flow, FlowClient, FlowServer, Plan, Sum};
use crate::greeter::blob;
use crate::greeter::generated::{Blob, Greeter, GreeterClient, GreeterServer, Greeting, Name};
use petasos::grpc::{ClientConfig, Compression, GrpcConfig};
use petasos::{
    Channel, ChannelBuilder, Codec, Request, Response, Sender, Server, Status, Streaming,
};

/// Long enough to be compressed, and so short that it is not.
const LONG: usize = 5000;
const SHORT: usize = 500;

/// Answers with the bytes that came, behind a byte that says whether they were compressed. A first
/// byte of 1 or 2 has the answer compressed, or not.
#[derive(Clone, Default)]
struct Telling;

impl Greeter for Telling {
    async fn greet(&self, _: Request<Name>) -> Result<Response<Greeting>, Status> {
        Err(Status::unimplemented("nobody asks for it"))
    }

    async fn echo(&self, request: Request<Blob>) -> Result<Response<Blob>, Status> {
        let told = [&[request.was_compressed().into()], request.bytes()].concat();
        let response = Response::new(blob(&told));
        Ok(match request.bytes().first() {
            Some(1) => response.compressed(true),
            Some(2) => response.compressed(false),
            _ => response,
        })
    }
}

/// Chunks whose number says whether what it answers was compressed.
impl Flow for Telling {
    async fn echo(&self, _: Request<Chunk>) -> Result<Response<Chunk>, Status> {
        Err(Status::unimplemented("nobody asks for it"))
    }

    /// Chunks, every second of which is compressed.
    async fn produce(&self, plan: Request<Plan>, mut out: Sender<Chunk>) -> Result<(), Status> {
        let was_compressed = plan.was_compressed();
        out.compress(true);
        for number in 0..plan.chunks() {
            out.compress(number % 2 == 1);
            let number = number | if was_compressed { 1 << 16 } else { 0 };
            out.send(flow::chunk(number, LONG)).await?;
        }
        Ok(())
    }

    async fn collect(&self, mut chunks: Streaming<Chunk>) -> Result<Response<Sum>, Status> {
        let (mut sum, mut compressed) = (0, 0);
        while let Some(chunk) = chunks.message().await? {
            sum += chunk.bytes().len() as u64;
            compressed += u32::from(chunks.was_compressed());
        }
        let mut told = Sum::new();
        told.edit().set_chunks(compressed).set_bytes(sum);
        Ok(Response::new(told))
    }

    async fn chat(
        &self,
        mut chunks: Streaming<Chunk>,
        mut out: Sender<Chunk>,
    ) -> Result<(), Status> {
        while let Some(chunk) = chunks.message().await? {
            let was_compressed = u32::from(chunks.was_compressed());
            out.compress(was_compressed == 0);
            out.send(flow::chunk(was_compressed, chunk.bytes().len())).await?;
        }
        Ok(())
    }
}

/// Runs a test over either way, which fails rather than hangs.
fn both(test: impl AsyncFn(ChannelBuilder, &str)) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime starts").block_on(async {
        let server =
            Server::builder().add(GreeterServer::new(Telling)).add(FlowServer::new(Telling));
        let server = server.listen("127.0.0.1:0").grpc("127.0.0.1:0", GrpcConfig::default());
        let server = server.start().expect("loopback has ports");
        let targets = [
            format!("petasos://{}", server.local_address().expect("it listens")),
            format!("grpc://{}", server.grpc_address().expect("it listens")),
        ];
        for target in &targets {
            let tried = test(Channel::builder(target), target);
            tokio::time::timeout(Duration::from_secs(50), tried).await.expect("it hangs");
        }
    });
}

async fn greeter(channel: ChannelBuilder) -> GreeterClient {
    GreeterClient::new(channel.connect().await.expect("the server listens"))
}

async fn flow_of(channel: ChannelBuilder) -> FlowClient {
    FlowClient::new(channel.connect().await.expect("the server listens"))
}

/// A request of so many bytes, the first of which says how to answer.
fn asking(how: u8, bytes: usize) -> Request<Blob> {
    Request::new(blob(&[&[how][..], &vec![7; bytes - 1]].concat()))
}

/// Whether the request came compressed, and whether the response did.
async fn ask(client: &GreeterClient, request: Request<Blob>) -> (bool, bool) {
    let bytes = request.bytes().to_vec();
    let response = client.echo(request).await.expect("the handler answers");
    assert_eq!(response.bytes()[1..], bytes);
    (response.bytes()[0] == 1, response.was_compressed())
}

#[test]
fn a_call_chooses_its_codec() {
    both(async |channel, target| {
        let client = greeter(channel).await;
        assert_eq!(ask(&client, asking(0, LONG)).await, (false, false), "{target}");
        let gzip = |request: Request<Blob>| request.with_codec(Codec::GZIP);
        assert_eq!(ask(&client, gzip(asking(0, LONG))).await, (true, true), "{target}");
        assert_eq!(ask(&client, gzip(asking(0, SHORT))).await, (false, false), "{target}: short");
        // Nothing of it stays with the channel.
        assert_eq!(ask(&client, asking(0, LONG)).await, (false, false), "{target}");
        let lz4 = asking(0, LONG).with_codec(Codec::LZ4);
        let has_lz4 = target.starts_with("petasos");
        assert_eq!(ask(&client, lz4).await, (has_lz4, has_lz4), "{target}: LZ4");
    });
}

#[test]
fn a_call_goes_without_what_its_channel_has() {
    both(async |channel, target| {
        let mut config = ClientConfig::default();
        config.compression = Compression::Gzip;
        let client = greeter(channel.compress(Codec::GZIP).grpc(config)).await;
        assert_eq!(ask(&client, asking(0, LONG)).await, (true, true), "{target}");
        let plain = asking(0, LONG).with_codec(Codec::IDENTITY);
        assert_eq!(ask(&client, plain).await, (false, false), "{target}");
    });
}

#[test]
fn a_handler_says_whether_its_response_is_compressed() {
    both(async |channel, target| {
        let client = greeter(channel).await;
        let gzip = |how, bytes| asking(how, bytes).with_codec(Codec::GZIP);
        assert_eq!(ask(&client, gzip(1, LONG)).await, (true, true), "{target}");
        assert_eq!(ask(&client, gzip(2, LONG)).await, (true, false), "{target}");
        assert_eq!(ask(&client, gzip(1, SHORT)).await, (false, false), "{target}: short");
        // All clients of gRPC take gzip; over datagrams it is the call that says so.
        let is_grpc = target.starts_with("grpc");
        assert_eq!(ask(&client, asking(1, LONG)).await, (false, is_grpc), "{target}");
    });
}

#[test]
fn requests_of_a_stream_are_compressed_one_by_one() {
    both(async |channel, target| {
        let client = flow_of(channel).await;
        let mut upload = client.collect().with_codec(Codec::GZIP);
        upload.send(flow::chunk(0, LONG)).await.expect("it is taken");
        upload.compress(false).await.expect("it is open");
        upload.send(flow::chunk(1, LONG)).await.expect("it is taken");
        upload.compress(true).await.expect("it is open");
        for bytes in [LONG, SHORT] {
            upload.send(flow::chunk(2, bytes)).await.expect("it is taken");
        }
        let sum = upload.finish().await.expect("it answers");
        assert_eq!((sum.chunks(), sum.bytes()), (2, (3 * LONG + SHORT) as u64), "{target}");
        // A call without a codec has nothing that could be turned on.
        let mut upload = client.collect();
        upload.compress(true).await.expect("it is open");
        upload.send(flow::chunk(0, LONG)).await.expect("it is taken");
        assert_eq!(upload.finish().await.expect("it answers").chunks(), 0, "{target}");
    });
}

#[test]
fn responses_of_a_stream_are_compressed_one_by_one() {
    both(async |channel, target| {
        let client = flow_of(channel).await;
        let plan = Request::new(flow::plan("", 4, LONG as u32)).with_codec(Codec::GZIP);
        let mut chunks = client.produce(plan).await.expect("it begins");
        for number in 0..4 {
            let chunk = chunks.message().await.expect("it goes on").expect("there is one");
            assert_eq!(chunk.number(), number, "{target}: a short plan is not compressed");
            assert_eq!(chunks.was_compressed(), number % 2 == 1, "{target}");
        }
        // All clients of gRPC take gzip; over datagrams it is the call that says so.
        let is_grpc = target.starts_with("grpc");
        let mut chunks = client.produce(flow::plan("", 4, LONG as u32)).await.expect("it begins");
        for number in 0..4 {
            chunks.message().await.expect("it goes on").expect("there is one");
            assert_eq!(chunks.was_compressed(), is_grpc && number % 2 == 1, "{target}");
        }
        let plan = flow::plan(&"x".repeat(LONG), 1, LONG as u32);
        let plan = Request::new(plan).with_codec(Codec::GZIP);
        let mut chunks = client.produce(plan).await.expect("it begins");
        let chunk = chunks.message().await.expect("it goes on").expect("there is one");
        assert_eq!(chunk.number(), 1 << 16, "{target}: a long plan is");
    });
}

#[test]
fn both_directions_of_a_stream_are_each_their_own() {
    both(async |channel, target| {
        let client = flow_of(channel).await;
        let (mut out, mut back) = client.chat().with_codec(Codec::GZIP).await.expect("it begins");
        for compress in [true, false, true, true] {
            out.compress(compress);
            out.send(flow::chunk(0, LONG)).await.expect("it is taken");
            let chunk = back.message().await.expect("it goes on").expect("there is one");
            assert_eq!(chunk.number() == 1, compress, "{target}");
            assert_eq!(back.was_compressed(), !compress, "{target}");
        }
    });
}
