//! The services over tonic.

use std::cell::Cell;
use std::convert::Infallible;
use std::future::pending;
use std::net::SocketAddr;

use tokio::task::JoinHandle;
use tonic::body::Body;
use tonic::codegen::Service as Served;
use tonic::codegen::http::{Request as HttpRequest, Response as HttpResponse};
use tonic::metadata::{MetadataMap, MetadataValue};
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Code, Request, Response, Status};

use super::{CALL_LIMIT, Rpc};
use crate::calls::{self, every_service};
use crate::error::{Error, Kind};
use crate::messages;
use crate::service::Service;
use crate::timing::{KEY, Watch};

/// The most calls of a connection at a time.
const CALLS_MAX: usize = 1024;

/// Calls a service.
pub struct Caller<C>(C);

/// Serves a service.
pub struct Handler<L>(L);

/// Clients and a server in tasks of this thread's runtime.
pub struct OverTonic {
    listen: Option<SocketAddr>,
    address: Cell<Option<SocketAddr>>,
    /// Until somebody awaits its end.
    serving: Cell<Option<Serving>>,
}

type Serving = JoinHandle<Result<(), tonic::transport::Error>>;

impl OverTonic {
    /// A server that will listen at `listen`.
    pub fn new(listen: Option<SocketAddr>) -> OverTonic {
        OverTonic { listen, address: Cell::default(), serving: Cell::default() }
    }

    fn channel(&self, server: SocketAddr) -> Channel {
        let endpoint = Endpoint::from_shared(format!("http://{server}"));
        let endpoint = endpoint.expect("an address with a port makes a URL");
        // A second more than the call has, so that the server's word on a late call comes first.
        endpoint.connect_timeout(CALL_LIMIT).timeout(2 * CALL_LIMIT).connect_lazy()
    }

    fn serve<S>(&self, service: S) -> Result<(), Error>
    where
        S: Served<HttpRequest<Body>, Response = HttpResponse<Body>, Error = Infallible>,
        S: Clone + Send + Sync + 'static,
        S::Future: Send + 'static,
    {
        let listen = self.listen.ok_or_else(|| Error::internal("no address to listen at"))?;
        let incoming = TcpIncoming::bind(listen);
        let incoming = incoming.map_err(|error| Error::away(format!("{listen}: {error}")))?;
        let address = incoming.local_addr().map_err(|error| Error::away(error.to_string()))?;
        let incoming = incoming.with_nodelay(Some(true));
        let server = Server::builder().concurrency_limit_per_connection(CALLS_MAX);
        let server = server.serve_with_incoming(service, incoming);
        self.address.set(Some(address));
        self.serving.set(Some(tokio::spawn(server)));
        Ok(())
    }
}

fn of_status(service: Service, status: &Status) -> Error {
    let kind = match status.code() {
        Code::InvalidArgument => Kind::Invalid,
        Code::Unavailable => Kind::Away,
        // The endpoint's own limit cancels calls.
        Code::DeadlineExceeded | Code::Cancelled => Kind::Late,
        _ => Kind::Internal,
    };
    Error { kind, what: status.message().to_owned() }.of(service.name())
}

fn to_status(error: Error) -> Status {
    let code = match error.kind {
        Kind::Invalid => Code::InvalidArgument,
        Kind::Away => Code::Unavailable,
        Kind::Late => Code::DeadlineExceeded,
        Kind::Internal => Code::Internal,
    };
    Status::new(code, error.what)
}

fn timed<M>(message: M, watch: &Watch) -> Response<M> {
    let mut response = Response::new(message);
    let value = MetadataValue::try_from(watch.timing().text());
    let value = value.expect("a timing's text is allowed in metadata");
    response.metadata_mut().insert(KEY, value);
    response
}

fn told(metadata: &MetadataMap) -> Option<&str> {
    metadata.get(KEY)?.to_str().ok()
}

macro_rules! adapted {
    ($service:ident $module:ident $client:ident $server:ident $in_client:ident $in_server:ident {
        $($method:ident($request:ident) -> $reply:ident;)+
    }) => {
        impl calls::$service for Caller<messages::$module::$in_client::$client<Channel>> {
            $(async fn $method(
                &self,
                request: messages::$module::$request,
                watch: &mut Watch,
            ) -> Result<messages::$module::$reply, Error> {
                let begun = watch.now();
                let mut request = Request::new(request);
                request.set_timeout(CALL_LIMIT);
                let response = self.0.clone().$method(request).await;
                let response = response.map_err(|status| of_status(Service::$service, &status))?;
                watch.called(Service::$service, begun, told(response.metadata()));
                Ok(response.into_inner())
            })+
        }

        #[tonic::async_trait]
        impl<L: calls::$service> messages::$module::$in_server::$service for Handler<L> {
            $(async fn $method(
                &self,
                request: Request<messages::$module::$request>,
            ) -> Result<Response<messages::$module::$reply>, Status> {
                let mut watch = Watch::start();
                let reply = self.0.$method(request.into_inner(), &mut watch).await;
                Ok(timed(reply.map_err(to_status)?, &watch))
            })+
        }
    };
}

every_service!(adapted);

macro_rules! made {
    ($service:ident $module:ident $client:ident $server:ident $in_client:ident $in_server:ident
        $methods:tt) => {
        type $service = Caller<messages::$module::$in_client::$client<Channel>>;

        fn $in_client(&self, server: SocketAddr) -> Self::$service {
            Caller(messages::$module::$in_client::$client::new(self.channel(server)))
        }

        async fn $in_server(&self, logic: impl calls::$service) -> Result<(), Error> {
            self.serve(messages::$module::$in_server::$server::new(Handler(logic)))
        }
    };
}

impl Rpc for OverTonic {
    every_service!(made);

    fn address(&self) -> Option<SocketAddr> {
        self.address.get()
    }

    async fn ended(&self) -> Error {
        let Some(serving) = self.serving.take() else { return pending().await };
        match serving.await {
            Ok(Ok(())) => Error::internal("the server has ended"),
            Ok(Err(error)) => Error::internal(format!("the server has ended: {error}")),
            Err(error) => Error::internal(format!("the server has ended: {error}")),
        }
    }
}
