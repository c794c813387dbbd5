//! Typed calls: a loop at each end, on the only busy thread of the process.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use bytes::Bytes;
use petasos::message::GATHER_BYTES_MIN;
use petasos::{
    Channel, LoopConfig, Msg, Request, Response, Security, Sender, ServiceChoice, ServiceConfig,
    Status, Streaming,
};
use petasos_endpoint::{LocalPolicy, Polling};

use super::args::{Carrier, RpcArgs};
use super::ends::Client;
use super::looped::{LoopClient, LoopServer};
use super::pace::{Count, Meter, Pace};
use super::phase::{Phase, Turn};
use super::typed_messages::generated::{Bench, BenchClient, BenchServer, Payload};
use super::typed_messages::payload;
use super::typed_streams::{Shape, flood, ping};
use crate::error::BenchError;

pub const LOOPBACK: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// How loops wait: by spinning, or by sleeping at once.
pub fn polling(sleeping: bool) -> Polling {
    if sleeping { Polling::Adaptive { spin: Duration::ZERO } } else { Polling::Spin }
}

fn config(
    args: &RpcArgs,
    sleeping: bool,
    listen: Option<SocketAddr>,
) -> Result<LoopConfig, BenchError> {
    let local = match args.transport {
        Carrier::Udp => LocalPolicy::Never,
        Carrier::Auto => LocalPolicy::Auto,
    };
    let mut config = LoopConfig { listen, ..LoopConfig::default() };
    config.endpoint.polling = polling(sleeping);
    config.io.local = local;
    if let Some(certificates) = args.certificates()? {
        config.security = Security::Tls(certificates.datagrams());
    }
    Ok(config)
}

/// The configuration of a loop behind the managed service at `unix:PATH`.
pub fn behind(service: Option<&str>, listen: Option<SocketAddr>) -> Result<LoopConfig, BenchError> {
    let service = ServiceConfig::new(service.ok_or("--service names no service")?)?;
    let service = ServiceChoice::Managed(service);
    Ok(LoopConfig { service, listen, ..LoopConfig::default() })
}

/// A server that answers from a buffer.
struct Answers {
    bytes: Bytes,
}

impl Bench for Answers {
    async fn call(&self, request: Request<Payload>) -> Result<Response<Payload>, Status> {
        Ok(Response::new(self.answer(&request)?))
    }

    async fn flow(
        &self,
        mut requests: Streaming<Payload>,
        mut responses: Sender<Payload>,
    ) -> Result<(), Status> {
        while let Some(request) = requests.message().await? {
            responses.send(self.answer(&request)?).await?;
        }
        Ok(())
    }
}

impl Answers {
    #[inline]
    fn answer(&self, request: &Payload) -> Result<Msg<Payload>, Status> {
        let wanted = request.wanted_bytes() as usize;
        if wanted > self.bytes.len() {
            return Err(Status::invalid_argument("more bytes than the measurement announced"));
        }
        Ok(payload(0, &self.bytes, wanted))
    }
}

/// The service for all ports.
pub fn service(args: &RpcArgs) -> BenchServer<impl Bench> {
    BenchServer::new(Answers { bytes: vec![2; args.response_bytes() as usize].into() })
}

/// The server's side.
///
/// # Errors
/// If it cannot serve.
pub fn server(args: &RpcArgs, sleeping: bool) -> Result<LoopServer, BenchError> {
    LoopServer::start(config(args, sleeping, Some(LOOPBACK))?, service(args))
}

/// A server behind the managed service.
///
/// # Errors
/// If that does not let it serve.
pub fn managed_server(args: &RpcArgs, path: Option<&str>) -> Result<LoopServer, BenchError> {
    LoopServer::start(behind(path, Some(LOOPBACK))?, service(args))
}

fn server_of(args: &RpcArgs) -> Result<SocketAddr, BenchError> {
    Ok(*args.server.first().ok_or("--server names no server")?)
}

/// The client's side.
pub struct TypedClient {
    ends: LoopClient,
    /// The number of callers in the window phase.
    callers: usize,
    streaming: bool,
    shape: Shape,
    /// Long requests lie where the managed service reads them.
    in_heap: bool,
}

impl TypedClient {
    pub fn new(args: &RpcArgs, sleeping: bool) -> Result<TypedClient, BenchError> {
        Ok(TypedClient::of(args, LoopClient::new(config(args, sleeping, None)?, server_of(args)?)?))
    }

    /// A client behind the managed service.
    pub fn managed(args: &RpcArgs, path: Option<&str>) -> Result<TypedClient, BenchError> {
        let ends = LoopClient::new(behind(path, None)?, server_of(args)?)?;
        Ok(TypedClient { in_heap: true, ..TypedClient::of(args, ends) })
    }

    /// The same, of a gRPC server.
    pub fn managed_grpc(args: &RpcArgs, path: Option<&str>) -> Result<TypedClient, BenchError> {
        Ok(TypedClient::of(args, LoopClient::of_grpc(behind(path, None)?, server_of(args)?)?))
    }

    fn of(args: &RpcArgs, ends: LoopClient) -> TypedClient {
        let bytes = vec![1; args.size as usize].into();
        let shape = Shape { bytes, wanted_bytes: args.response_bytes() };
        let (callers, streaming) = (args.window(), args.streaming);
        TypedClient { ends, callers, streaming, shape, in_heap: false }
    }
}

impl Client for TypedClient {
    fn turn(&mut self, phase: Phase, duration: Duration) -> Result<Turn, BenchError> {
        let callers = if phase == Phase::Window { self.callers } else { 1 };
        let pace = Pace::new(duration, callers);
        let (ends, client) = (&self.ends, BenchClient::new(self.ends.channel.clone()));
        let counts = match (self.streaming, phase) {
            (false, _) => ends.run(callers, &client, |client| {
                let requests = Requests::new(self.in_heap.then(|| ends.channel.clone()));
                call(client, pace.meter(), self.shape.clone(), requests)
            })?,
            (true, Phase::Window) => vec![flood(&ends.event_loop, &client, &pace, &self.shape)?],
            (true, _) => {
                ends.run(1, &client, |client| ping(client, pace.meter(), self.shape.clone()))?
            }
        };
        Ok(pace.turn(counts))
    }
}

/// What a caller sends: the same bytes each time, which nobody writes anew.
struct Requests {
    /// Whose buffers they lie in.
    heap: Option<Channel>,
    in_heap: Vec<Bytes>,
    calls: usize,
}

impl Requests {
    /// One is being sent, and the service may still read another.
    const BUFFERS: usize = 3;

    fn new(heap: Option<Channel>) -> Requests {
        Requests { heap, in_heap: Vec::new(), calls: 0 }
    }

    #[inline]
    fn next(&mut self, bytes: &Bytes) -> Bytes {
        match &self.heap {
            Some(channel) if bytes.len() >= GATHER_BYTES_MIN => {
                if self.in_heap.len() < Requests::BUFFERS {
                    let mut buffer = channel.buffer(bytes.len());
                    if !buffer.is_shared() {
                        return bytes.clone();
                    }
                    buffer.copy_from_slice(bytes);
                    self.in_heap.push(buffer.freeze());
                }
                self.calls += 1;
                self.in_heap[self.calls % self.in_heap.len()].clone()
            }
            _ => bytes.clone(),
        }
    }
}

/// The loop of each caller: one call after another.
async fn call(
    client: BenchClient,
    mut meter: Meter,
    shape: Shape,
    mut requests: Requests,
) -> Result<Count, String> {
    while meter.goes_on() {
        let bytes = requests.next(&shape.bytes);
        let request = payload(shape.wanted_bytes, &bytes, bytes.len());
        let response = client.call(request).await.map_err(|status| status.to_string())?;
        meter.ended(response.data().len(), shape.wanted_bytes)?;
    }
    Ok(meter.count())
}
