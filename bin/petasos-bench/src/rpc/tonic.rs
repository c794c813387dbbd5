//! The peer: tonic's client and server over one TCP connection, each on a current-thread Tokio
//! runtime, the fastest configuration with one thread.
//!
//! Payloads are `Bytes`, so that they are not copied before encoding.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use bytes::Bytes;
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Channel, Endpoint, Server as Transport};
use tonic::{Request, Response};

use super::args::RpcArgs;
use super::ends::{Client, Server};
use super::pace::{Count, Meter, Pace};
use super::phase::{Phase, Turn};
use super::stop::Stop;
use super::tonic_answers::{Answers, CALL, MESSAGE_BYTES_MAX};
use super::tonic_codec::{Fitting, Payload};
use super::tonic_routes::{Methods, Routes};
use super::tonic_streams::{Caller, GrpcClient, flood, ping};
use crate::error::BenchError;

/// HTTP/2's windows of a stream and of the connection. With the default of 64 KiB, large messages
/// would wait for window updates.
pub const STREAM_WINDOW_BYTES: u32 = 4 << 20;
pub const CONNECTION_WINDOW_BYTES: u32 = 16 << 20;

/// A runtime for the thread that drives it.
pub fn runtime(args: &RpcArgs) -> Result<Runtime, BenchError> {
    let mut builder = Builder::new_current_thread();
    if args.peer_awake {
        // It checks its sockets after each poll of the task that keeps it awake.
        builder.event_interval(1);
    }
    Ok(builder.enable_all().build()?)
}

/// Runs `future`. If `awake` is set, the runtime never sleeps.
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

/// The server's side.
pub struct TonicServer {
    runtime: Runtime,
    address: SocketAddr,
    awake: bool,
}

impl TonicServer {
    pub fn new(args: &RpcArgs) -> Result<TonicServer, BenchError> {
        let bytes = vec![2; args.response_bytes() as usize].into();
        TonicServer::of(args, Answers { bytes, codec: Fitting::new(args) })
    }

    /// A server of other methods.
    ///
    /// # Errors
    /// The system's, or what is wrong with certificates.
    pub fn of(args: &RpcArgs, methods: impl Methods + Sync) -> Result<TonicServer, BenchError> {
        let runtime = runtime(args)?;
        let entered = runtime.enter();
        let incoming = TcpIncoming::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
        let incoming = incoming.with_nodelay(Some(true));
        let address = incoming.local_addr()?;
        let mut server = Transport::builder()
            .initial_stream_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES);
        if let Some(certificates) = args.certificates()? {
            server = server.tls_config(certificates.tonic_server())?;
        }
        drop(runtime.spawn(server.serve_with_incoming(Routes(methods), incoming)));
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

/// A connection to a server, and what drives it.
pub struct Connection {
    runtime: Runtime,
    channel: Channel,
    awake: bool,
}

impl Connection {
    /// A connection to the server that is named, which is made when it is called.
    ///
    /// # Errors
    /// If no server is named, or certificates are wrong.
    pub fn new(args: &RpcArgs) -> Result<Connection, BenchError> {
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
        Ok(Connection { runtime, channel, awake: args.peer_awake })
    }

    /// A client of it.
    pub fn grpc(&self) -> GrpcClient<Channel> {
        GrpcClient::new(self.channel.clone())
    }

    /// Starts callers, and runs them until all have ended. Gives what each has counted.
    ///
    /// # Errors
    /// The first caller's that has failed.
    pub fn run(
        &self,
        phase: Phase,
        start: impl FnOnce() -> Vec<Calling>,
    ) -> Result<Vec<Count>, BenchError> {
        let awake = self.awake && phase == Phase::Spinning;
        run(&self.runtime, awake, async {
            let mut counts = Vec::new();
            for calling in start() {
                counts.push(calling.await??);
            }
            Ok(counts)
        })
    }
}

/// A caller that runs.
pub type Calling = JoinHandle<Result<Count, String>>;

/// The client's side.
pub struct TonicClient {
    connection: Connection,
    codec: Fitting,
    window: usize,
    bytes: Bytes,
    response_bytes: u32,
    streaming: bool,
}

impl TonicClient {
    pub fn new(args: &RpcArgs) -> Result<TonicClient, BenchError> {
        let connection = Connection::new(args)?;
        let bytes = vec![1; args.size as usize].into();
        let (window, response_bytes) = (args.window(), args.response_bytes());
        let (streaming, codec) = (args.streaming, Fitting::new(args));
        Ok(TonicClient { connection, codec, window, bytes, response_bytes, streaming })
    }

    fn caller(&self) -> Caller {
        Caller {
            client: self.connection.grpc().max_decoding_message_size(MESSAGE_BYTES_MAX),
            codec: self.codec,
            sent: self.shape(),
        }
    }

    /// The request.
    fn shape(&self) -> Payload {
        Payload { wanted_bytes: self.response_bytes, data: self.bytes.clone() }
    }
}

impl Client for TonicClient {
    fn turn(&mut self, phase: Phase, duration: Duration) -> Result<Turn, BenchError> {
        let callers = if phase == Phase::Window { self.window } else { 1 };
        let pace = Pace::new(duration, callers);
        let counts = self.connection.run(phase, || match (self.streaming, phase) {
            (false, _) => {
                let call = |_| tokio::spawn(call(self.caller(), pace.meter()));
                (0..callers).map(call).collect()
            }
            (true, Phase::Window) => {
                let meters = (pace.meter(), pace.meter());
                vec![tokio::spawn(flood(self.caller(), meters))]
            }
            (true, _) => vec![tokio::spawn(ping(self.caller(), pace.meter()))],
        })?;
        Ok(pace.turn(counts))
    }
}

/// The loop of each caller: one call after another.
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
