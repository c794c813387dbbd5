//! Typed calls: a loop at each end, on the only busy thread of the process.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use bytes::Bytes;
use petasos::{
    LoopConfig, Msg, Request, Response, Security, Sender, ServiceChoice, ServiceConfig, Status,
    Streaming,
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
}

impl TypedClient {
    pub fn new(args: &RpcArgs, sleeping: bool) -> Result<TypedClient, BenchError> {
        Ok(TypedClient::of(args, LoopClient::new(config(args, sleeping, None)?, server_of(args)?)?))
    }

    /// A client behind the managed service.
    pub fn managed(args: &RpcArgs, path: Option<&str>) -> Result<TypedClient, BenchError> {
        Ok(TypedClient::of(args, LoopClient::new(behind(path, None)?, server_of(args)?)?))
    }

    /// The same, of a gRPC server.
    pub fn managed_grpc(args: &RpcArgs, path: Option<&str>) -> Result<TypedClient, BenchError> {
        Ok(TypedClient::of(args, LoopClient::of_grpc(behind(path, None)?, server_of(args)?)?))
    }

    fn of(args: &RpcArgs, ends: LoopClient) -> TypedClient {
        let bytes = vec![1; args.size as usize].into();
        let shape = Shape { bytes, wanted_bytes: args.response_bytes() };
        let (callers, streaming) = (args.window(), args.streaming);
        TypedClient { ends, callers, streaming, shape }
    }
}

impl Client for TypedClient {
    fn turn(&mut self, phase: Phase, duration: Duration) -> Result<Turn, BenchError> {
        let callers = if phase == Phase::Window { self.callers } else { 1 };
        let pace = Pace::new(duration, callers);
        let (ends, client) = (&self.ends, BenchClient::new(self.ends.channel.clone()));
        let counts = match (self.streaming, phase) {
            (false, _) => {
                ends.run(callers, &client, |client| call(client, pace.meter(), self.shape.clone()))?
            }
            (true, Phase::Window) => vec![flood(&ends.event_loop, &client, &pace, &self.shape)?],
            (true, _) => {
                ends.run(1, &client, |client| ping(client, pace.meter(), self.shape.clone()))?
            }
        };
        Ok(pace.turn(counts))
    }
}

/// The loop of each caller: one call after another.
async fn call(client: BenchClient, mut meter: Meter, shape: Shape) -> Result<Count, String> {
    while meter.goes_on() {
        let request = payload(shape.wanted_bytes, &shape.bytes, shape.bytes.len());
        let response = client.call(request).await.map_err(|status| status.to_string())?;
        meter.ended(response.data().len(), shape.wanted_bytes)?;
    }
    Ok(meter.count())
}
