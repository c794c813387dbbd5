//! Reservations over tonic.

use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use tonic::body::Body;
use tonic::client::Grpc as GrpcClient;
use tonic::codec::{BufferSettings, Codec};
use tonic::codegen::BoxFuture;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::codegen::http::{Request as HttpRequest, Response as HttpResponse};
use tonic::server::{Grpc as GrpcServer, UnaryService};
use tonic::transport::Channel;
use tonic::{Code, Request, Response, Status};
use tonic_prost::ProstCodec;

use super::{FROM, Guests, HOTELS, TO};
use crate::error::BenchError;
use crate::rpc::args::RpcArgs;
use crate::rpc::ends::Client;
use crate::rpc::pace::{Count, Meter, Pace};
use crate::rpc::phase::{Phase, Turn};
use crate::rpc::tonic::{Connection, TonicServer};
use crate::rpc::tonic_routes::Methods;

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

impl Methods for Recommends {
    async fn run(self, request: HttpRequest<Body>) -> Option<HttpResponse<Body>> {
        match request.uri().path() {
            RESERVE => Some(GrpcServer::new(Short(PhantomData)).unary(self, request).await),
            _ => None,
        }
    }
}

/// A server that recommends hotels, at an address of this host.
///
/// # Errors
/// The system's.
pub fn server(args: &RpcArgs) -> Result<TonicServer, BenchError> {
    TonicServer::of(args, Recommends)
}

/// Asks for hotels.
pub struct GrpcHotelClient {
    connection: Connection,
    callers: usize,
}

impl GrpcHotelClient {
    /// A client of a server, which it looks for when it calls.
    ///
    /// # Errors
    /// If no server is named.
    pub fn new(args: &RpcArgs, callers: usize) -> Result<GrpcHotelClient, BenchError> {
        Ok(GrpcHotelClient { connection: Connection::new(args)?, callers })
    }
}

impl Client for GrpcHotelClient {
    fn turn(&mut self, phase: Phase, duration: Duration) -> Result<Turn, BenchError> {
        let callers = if phase == Phase::Window { self.callers } else { 1 };
        let (pace, guests) = (Pace::new(duration, callers), Arc::new(Guests::default()));
        let counts = self.connection.run(phase, || {
            let caller = |_| {
                let client = self.connection.grpc();
                tokio::spawn(call(client, pace.meter(), Arc::clone(&guests)))
            };
            (0..callers).map(caller).collect()
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
