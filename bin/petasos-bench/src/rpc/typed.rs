//! Typed calls: a loop at each end, on the only busy thread of the process.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use bytes::Bytes;
use petasos::{
    Channel, Loop, LoopConfig, Msg, Request, Response, Security, Sender, ServiceChoice,
    ServiceConfig, Status, Streaming,
};
use petasos_endpoint::{LocalPolicy, Polling};

use super::args::{Carrier, RpcArgs};
use super::ends::{Client, Server};
use super::pace::{Count, Meter, Pace};
use super::phase::{Phase, Turn};
use super::stop::Stop;
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
pub struct TypedServer {
    event_loop: Loop,
    address: SocketAddr,
}

impl TypedServer {
    pub fn new(args: &RpcArgs, sleeping: bool) -> Result<TypedServer, BenchError> {
        TypedServer::over(args, config(args, sleeping, Some(LOOPBACK))?)
    }

    /// A server behind the managed service.
    pub fn managed(args: &RpcArgs, path: Option<&str>) -> Result<TypedServer, BenchError> {
        TypedServer::over(args, behind(path, Some(LOOPBACK))?)
    }

    fn over(args: &RpcArgs, config: LoopConfig) -> Result<TypedServer, BenchError> {
        let event_loop = Loop::new(config)?;
        event_loop.serve(service(args))?;
        let address = event_loop.local_address().ok_or("the loop does not listen")?;
        event_loop.block_on(event_loop.served())?;
        Ok(TypedServer { event_loop, address })
    }
}

impl Server for TypedServer {
    fn addresses(&self) -> Vec<SocketAddr> {
        vec![self.address]
    }

    fn serve(&mut self, _: Phase, stop: &Stop) -> Result<Turn, BenchError> {
        self.event_loop.block_on(stop.raised());
        Ok(Turn::default())
    }
}

/// The client's side.
pub struct TypedClient {
    event_loop: Loop,
    channel: Channel,
    /// The number of callers in the window phase.
    callers: usize,
    streaming: bool,
    shape: Shape,
}

impl TypedClient {
    pub fn new(args: &RpcArgs, sleeping: bool) -> Result<TypedClient, BenchError> {
        TypedClient::over(args, config(args, sleeping, None)?)
    }

    /// A client behind the managed service.
    pub fn managed(args: &RpcArgs, path: Option<&str>) -> Result<TypedClient, BenchError> {
        TypedClient::over(args, behind(path, None)?)
    }

    fn over(args: &RpcArgs, config: LoopConfig) -> Result<TypedClient, BenchError> {
        let event_loop = Loop::new(config)?;
        let server = *args.server.first().ok_or("--server names no server")?;
        let channel = event_loop.channel(server);
        let bytes = vec![1; args.size as usize].into();
        let shape = Shape { bytes, wanted_bytes: args.response_bytes() };
        let (callers, streaming) = (args.window(), args.streaming);
        Ok(TypedClient { event_loop, channel, callers, streaming, shape })
    }

    /// Runs `callers` callers, each with one call after another or a stream, and returns the total.
    fn spawn<F>(
        &self,
        callers: usize,
        caller: impl Fn(BenchClient) -> F,
    ) -> Result<Vec<Count>, BenchError>
    where
        F: Future<Output = Result<Count, String>> + 'static,
    {
        let client = BenchClient::new(self.channel.clone());
        let calls = (0..callers).map(|_| self.event_loop.spawn(caller(client.clone())));
        let calls: Vec<_> = calls.collect();
        self.event_loop.block_on(async {
            let mut counts = Vec::new();
            for call in calls {
                counts.push(call.await.ok_or("a caller has panicked")??);
            }
            Ok(counts)
        })
    }
}

impl Client for TypedClient {
    fn turn(&mut self, phase: Phase, duration: Duration) -> Result<Turn, BenchError> {
        let callers = if phase == Phase::Window { self.callers } else { 1 };
        let pace = Pace::new(duration, callers);
        let counts = match (self.streaming, phase) {
            (false, _) => {
                self.spawn(callers, |client| call(client, pace.meter(), self.shape.clone()))?
            }
            (true, Phase::Window) => {
                let client = BenchClient::new(self.channel.clone());
                vec![flood(&self.event_loop, &client, &pace, &self.shape)?]
            }
            (true, _) => self.spawn(1, |client| ping(client, pace.meter(), self.shape.clone()))?,
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
