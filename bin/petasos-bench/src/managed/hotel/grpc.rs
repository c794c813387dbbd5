//! Reservations over tonic, written in the form of its generated code.

use std::convert::Infallible;
use std::marker::PhantomData;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::runtime::Runtime;
use tonic::body::Body;
use tonic::client::Grpc as GrpcClient;
use tonic::codec::{BufferSettings, Codec};
use tonic::codegen::http::uri::PathAndQuery;
use tonic::codegen::http::{Request as HttpRequest, Response as HttpResponse};
use tonic::codegen::{BoxFuture, Service};
use tonic::server::{Grpc as GrpcServer, UnaryService};
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Channel, Endpoint, Server as Transport};
use tonic::{Code, Request, Response, Status};
use tonic_prost::ProstCodec;

use super::{FROM, Guests, HOTELS, TO};
use crate::error::BenchError;
use crate::rpc::args::RpcArgs;
use crate::rpc::ends::{Client, Server};
use crate::rpc::pace::{Count, Meter, Pace};
use crate::rpc::phase::{Phase, Turn};
use crate::rpc::stop::Stop;
use crate::rpc::tonic::{CONNECTION_WINDOW_BYTES, STREAM_WINDOW_BYTES, run, runtime};

const RESERVE: &str = "/petasos.bench.policies.Hotel/Reserve";
/// What messages are encoded into: more than each needs.
const BUFFER_BYTES: usize = 128;
/// tonic's value.
const SENT_TOGETHER_BYTES: usize = 32 << 10;

/// `petasos.bench.policies.Reservation` of `protos/policies.proto`.
#[derive(Clone, PartialEq, prost::Message)]
struct Reservation {
    #[prost(string, tag = "1")]
    customer_name: String,
    #[prost(string, tag = "2")]
    from: String,
    #[prost(string, tag = "3")]
    to: String,
    #[prost(uint32, tag = "4")]
    rooms: u32,
}

/// `petasos.bench.policies.Hotels`.
#[derive(Clone, PartialEq, prost::Message)]
struct Hotels {
    #[prost(string, repeated, tag = "1")]
    names: Vec<String>,
}

/// A codec for short messages, for which tonic's would allocate 8 KiB each.
struct Short<E, D>(PhantomData<(E, D)>);

impl<E, D> Codec for Short<E, D>
where
    E: prost::Message + Send + 'static,
    D: prost::Message + Default + Send + 'static,
{
    type Encode = E;
    type Decode = D;
    type Encoder = <ProstCodec<E, D> as Codec>::Encoder;
    type Decoder = <ProstCodec<E, D> as Codec>::Decoder;

    fn encoder(&mut self) -> Self::Encoder {
        ProstCodec::<E, D>::raw_encoder(BufferSettings::new(BUFFER_BYTES, SENT_TOGETHER_BYTES))
    }

    fn decoder(&mut self) -> Self::Decoder {
        ProstCodec::<E, D>::raw_decoder(BufferSettings::new(BUFFER_BYTES, SENT_TOGETHER_BYTES))
    }
}

#[derive(Clone, Copy)]
struct Recommends;

impl UnaryService<Reservation> for Recommends {
    type Response = Hotels;
    type Future = BoxFuture<Response<Hotels>, Status>;

    fn call(&mut self, _: Request<Reservation>) -> Self::Future {
        let names = HOTELS.map(str::to_owned).to_vec();
        Box::pin(async { Ok(Response::new(Hotels { names })) })
    }
}

impl Service<HttpRequest<Body>> for Recommends {
    type Response = HttpResponse<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Self::Response, Self::Error>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: HttpRequest<Body>) -> Self::Future {
        let method = *self;
        Box::pin(async move {
            match request.uri().path() {
                RESERVE => Ok(GrpcServer::new(Short(PhantomData)).unary(method, request).await),
                _ => Ok(Status::unimplemented("no such method is served").into_http()),
            }
        })
    }
}

/// Recommends hotels.
pub struct GrpcHotelServer {
    runtime: Runtime,
    address: SocketAddr,
}

impl GrpcHotelServer {
    /// A server at an address of this host.
    ///
    /// # Errors
    /// The system's.
    pub fn new(args: &RpcArgs) -> Result<GrpcHotelServer, BenchError> {
        let runtime = runtime(args)?;
        let entered = runtime.enter();
        let incoming = TcpIncoming::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
        let incoming = incoming.with_nodelay(Some(true));
        let address = incoming.local_addr()?;
        let server = Transport::builder()
            .initial_stream_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES);
        drop(runtime.spawn(server.serve_with_incoming(Recommends, incoming)));
        drop(entered);
        Ok(GrpcHotelServer { runtime, address })
    }
}

impl Server for GrpcHotelServer {
    fn addresses(&self) -> Vec<SocketAddr> {
        vec![self.address]
    }

    fn serve(&mut self, _: Phase, stop: &Stop) -> Result<Turn, BenchError> {
        run(&self.runtime, false, stop.raised());
        Ok(Turn::default())
    }
}

/// Asks for hotels.
pub struct GrpcHotelClient {
    runtime: Runtime,
    channel: Channel,
    callers: usize,
}

impl GrpcHotelClient {
    /// A client of a server, which it looks for when it calls.
    ///
    /// # Errors
    /// If no server is named.
    pub fn new(args: &RpcArgs, callers: usize) -> Result<GrpcHotelClient, BenchError> {
        let server = args.server.first().ok_or("--server names no server")?;
        let runtime = runtime(args)?;
        let entered = runtime.enter();
        let endpoint = Endpoint::from_shared(format!("http://{server}"))?
            .tcp_nodelay(true)
            .initial_stream_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES);
        let channel = endpoint.connect_lazy();
        drop(entered);
        Ok(GrpcHotelClient { runtime, channel, callers })
    }
}

impl Client for GrpcHotelClient {
    fn turn(&mut self, phase: Phase, duration: Duration) -> Result<Turn, BenchError> {
        let callers = if phase == Phase::Window { self.callers } else { 1 };
        let (pace, guests) = (Pace::new(duration, callers), Arc::new(Guests::default()));
        let counts = run(&self.runtime, false, async {
            let calls: Vec<_> = (0..callers)
                .map(|_| {
                    let client = GrpcClient::new(self.channel.clone());
                    tokio::spawn(call(client, pace.meter(), Arc::clone(&guests)))
                })
                .collect();
            let mut counts = Vec::new();
            for call in calls {
                counts.push(call.await??);
            }
            Ok::<_, BenchError>(counts)
        })?;
        let [refused, forbidden] = guests.counts();
        Ok(Turn { refused, forbidden, ..pace.turn(counts) })
    }
}

async fn call(
    mut client: GrpcClient<Channel>,
    mut meter: Meter,
    guests: Arc<Guests>,
) -> Result<Count, String> {
    while meter.goes_on() {
        client.ready().await.map_err(|error| error.to_string())?;
        let name = guests.next();
        let request = Request::new(Reservation {
            customer_name: name.to_owned(),
            from: FROM.to_owned(),
            to: TO.to_owned(),
            rooms: 1,
        });
        let path = PathAndQuery::from_static(RESERVE);
        let answer = client.unary(request, path, Short::<_, Hotels>(PhantomData)).await;
        match answer {
            Ok(hotels) => meter.ended(hotels.get_ref().names.len(), HOTELS.len() as u32)?,
            Err(status) if status.code() == Code::PermissionDenied => {
                guests.refused(name)?;
                meter.refused();
            }
            Err(status) => return Err(status.to_string()),
        }
    }
    Ok(meter.count())
}
