//! The peer: tonic's client and server over one TCP connection, each on a current-thread Tokio
//! runtime, which is its fastest way with one thread.
//!
//! The service is written as tonic's own generator writes it, without that generator. Payloads are
//! `Bytes`, so that neither side copies them before they are encoded.

use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use tokio::runtime::{Builder, Runtime};
use tonic::body::Body;
pub use tonic::client::Grpc as GrpcClient;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::codegen::http::{Request as HttpRequest, Response as HttpResponse};
use tonic::codegen::{BoxFuture, Service};
use tonic::server::{Grpc as GrpcServer, UnaryService};
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Channel, Endpoint, Server as Transport};
use tonic::{Request, Response, Status};

use super::args::RpcArgs;
use super::ends::{Client, Server};
use super::pace::{Count, Meter, Pace};
use super::phase::{Phase, Turn};
use super::stop::Stop;
use super::tonic_codec::{Fitting, Payload};
use super::tonic_streams::{FLOW, flood, ping};
use crate::error::BenchError;

const CALL: &str = "/petasos.bench.Bench/Call";

/// tonic's default of 4 MiB would refuse what is measured.
pub const MESSAGE_BYTES_MAX: usize = 1 << 30;

/// HTTP/2's windows, of a stream and of the connection: with its default of 64 KiB large messages
/// would wait for updates.
pub const STREAM_WINDOW_BYTES: u32 = 4 << 20;
pub const CONNECTION_WINDOW_BYTES: u32 = 16 << 20;

/// A runtime on the thread that drives it.
pub fn runtime(args: &RpcArgs) -> Result<Runtime, BenchError> {
    let mut builder = Builder::new_current_thread();
    if args.peer_awake {
        // Between any two polls of the task that keeps it awake, it looks at its sockets.
        builder.event_interval(1);
    }
    Ok(builder.enable_all().build()?)
}

/// Runs `future`, without ever sleeping if `awake`.
pub fn run<F: Future>(runtime: &Runtime, awake: bool, future: F) -> F::Output {
    let spinning = awake.then(|| {
        runtime.spawn(async {
            loop {
                tokio::task::yield_now().await;
            }
        })
    });
    let output = runtime.block_on(future);
    if let Some(spinning) = spinning {
        spinning.abort();
    }
    output
}

/// Answers with bytes of its own.
#[derive(Clone)]
pub struct Answers {
    bytes: Bytes,
    codec: Fitting,
}

impl Answers {
    /// As many bytes as the request asks for.
    pub fn answer(&self, request: &Payload) -> Result<Payload, Status> {
        let wanted = request.wanted_bytes as usize;
        if wanted > self.bytes.len() {
            return Err(Status::invalid_argument("more bytes than the measurement announced"));
        }
        Ok(Payload { wanted_bytes: 0, data: self.bytes.slice(..wanted) })
    }
}

impl UnaryService<Payload> for Answers {
    type Response = Payload;
    type Future = BoxFuture<Response<Payload>, Status>;

    fn call(&mut self, request: Request<Payload>) -> Self::Future {
        let answers = self.clone();
        Box::pin(async move { Ok(Response::new(answers.answer(request.get_ref())?)) })
    }
}

impl Service<HttpRequest<Body>> for Answers {
    type Response = HttpResponse<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Self::Response, Self::Error>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: HttpRequest<Body>) -> Self::Future {
        let method = self.clone();
        Box::pin(async move {
            let mut grpc =
                GrpcServer::new(method.codec).max_decoding_message_size(MESSAGE_BYTES_MAX);
            match request.uri().path() {
                CALL => Ok(grpc.unary(method, request).await),
                FLOW => Ok(grpc.streaming(method, request).await),
                _ => Ok(Status::unimplemented("no such method is served").into_http()),
            }
        })
    }
}

/// The server's side.
pub struct TonicServer {
    runtime: Runtime,
    address: SocketAddr,
    awake: bool,
}

impl TonicServer {
    pub fn new(args: &RpcArgs) -> Result<TonicServer, BenchError> {
        let runtime = runtime(args)?;
        let entered = runtime.enter();
        let incoming = TcpIncoming::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
        let incoming = incoming.with_nodelay(Some(true));
        let address = incoming.local_addr()?;
        let bytes = vec![2; args.response_bytes() as usize].into();
        let mut server = Transport::builder()
            .initial_stream_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES);
        if let Some(certificates) = args.certificates()? {
            server = server.tls_config(certificates.tonic_server())?;
        }
        let server =
            server.serve_with_incoming(Answers { bytes, codec: Fitting::new(args) }, incoming);
        drop(runtime.spawn(server));
        drop(entered);
        Ok(TonicServer { runtime, address, awake: args.peer_awake })
    }
}

impl Server for TonicServer {
    fn addresses(&self) -> Vec<SocketAddr> {
        vec![self.address]
    }

    fn serve(&mut self, phase: Phase, stop: &Stop) -> Result<Turn, BenchError> {
        run(&self.runtime, self.awake && phase == Phase::Spinning, stop.raised());
        Ok(Turn::default())
    }
}

/// What one caller calls with.
pub struct Caller {
    pub client: GrpcClient<Channel>,
    pub codec: Fitting,
    pub sent: Payload,
}

/// The client's side.
pub struct TonicClient {
    runtime: Runtime,
    channel: Channel,
    codec: Fitting,
    window: usize,
    bytes: Bytes,
    response_bytes: u32,
    streaming: bool,
    awake: bool,
}

impl TonicClient {
    pub fn new(args: &RpcArgs) -> Result<TonicClient, BenchError> {
        let server = args.server.first().ok_or("--server names no server")?;
        let runtime = runtime(args)?;
        let entered = runtime.enter();
        let scheme = if args.tls { "https" } else { "http" };
        let mut endpoint = Endpoint::from_shared(format!("{scheme}://{server}"))?
            .tcp_nodelay(true)
            .initial_stream_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES);
        if let Some(certificates) = args.certificates()? {
            endpoint = endpoint.tls_config(certificates.tonic_client())?;
        }
        let channel = endpoint.connect_lazy();
        drop(entered);
        let bytes = vec![1; args.size as usize].into();
        let (window, response_bytes) = (args.window(), args.response_bytes());
        let (streaming, awake, codec) = (args.streaming, args.peer_awake, Fitting::new(args));
        Ok(TonicClient { runtime, channel, codec, window, bytes, response_bytes, streaming, awake })
    }

    fn caller(&self) -> Caller {
        let client = GrpcClient::new(self.channel.clone());
        Caller {
            client: client.max_decoding_message_size(MESSAGE_BYTES_MAX),
            codec: self.codec,
            sent: self.shape(),
        }
    }

    /// What is sent.
    fn shape(&self) -> Payload {
        Payload { wanted_bytes: self.response_bytes, data: self.bytes.clone() }
    }
}

impl Client for TonicClient {
    fn turn(&mut self, phase: Phase, duration: Duration) -> Result<Turn, BenchError> {
        let callers = if phase == Phase::Window { self.window } else { 1 };
        let pace = Pace::new(duration, callers);
        let awake = self.awake && phase == Phase::Spinning;
        let counts = run(&self.runtime, awake, async {
            let calls: Vec<_> = match (self.streaming, phase) {
                (false, _) => {
                    let call = |_| tokio::spawn(call(self.caller(), pace.meter()));
                    (0..callers).map(call).collect()
                }
                (true, Phase::Window) => {
                    let meters = (pace.meter(), pace.meter());
                    vec![tokio::spawn(flood(self.caller(), meters))]
                }
                (true, _) => vec![tokio::spawn(ping(self.caller(), pace.meter()))],
            };
            let mut counts = Vec::new();
            for call in calls {
                counts.push(call.await??);
            }
            Ok::<_, BenchError>(counts)
        })?;
        Ok(pace.turn(counts))
    }
}

/// What each caller does: one call after the other.
async fn call(mut caller: Caller, mut meter: Meter) -> Result<Count, String> {
    let Caller { client, codec, sent } = &mut caller;
    while meter.goes_on() {
        client.ready().await.map_err(|error| error.to_string())?;
        let path = PathAndQuery::from_static(CALL);
        let response = client.unary(Request::new(sent.clone()), path, *codec).await;
        let response: Response<Payload> = response.map_err(|status| status.to_string())?;
        meter.ended(response.get_ref().data.len(), sent.wanted_bytes)?;
    }
    Ok(meter.count())
}
