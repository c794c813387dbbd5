//! The services over Petasos.

use std::cell::Cell;
use std::future::pending;
use std::io;
use std::net::SocketAddr;

use petasos::rt::Service as Served;
use petasos::{Code, Loop, LoopConfig, Request, Response, Security, Status};
use tokio::task::JoinHandle;

use super::convert::Carried;
use super::{CALL_LIMIT, Rpc, generated};
use crate::calls::{self, every_service};
use crate::error::{Error, Kind};
use crate::messages;
use crate::service::Service;
use crate::timing::{KEY, Watch};

/// Calls a service.
pub struct Caller<C>(C);

/// Serves a service.
pub struct Handler<L>(L);

/// A loop in a task of this thread's runtime.
pub struct OverPetasos {
    event_loop: Loop,
    /// Until somebody awaits its end.
    driver: Cell<Option<JoinHandle<io::Error>>>,
}

impl OverPetasos {
    /// A loop that serves at `listen`. With `is_plaintext`, it calls and serves beyond loopback,
    /// without encryption. It has to be made in a local set.
    ///
    /// # Errors
    /// The address cannot be had, or the managed service does not answer.
    pub fn new(listen: Option<SocketAddr>, is_plaintext: bool) -> Result<OverPetasos, Error> {
        let security = if is_plaintext { Security::Plaintext } else { Security::Loopback };
        let config = LoopConfig { listen, security, ..LoopConfig::default() };
        let event_loop = Loop::new(config).map_err(|error| Error::away(error.to_string()))?;
        let driver = Cell::new(Some(tokio::task::spawn_local(event_loop.drive())));
        Ok(OverPetasos { event_loop, driver })
    }

    async fn serve(&self, service: impl Served) -> Result<(), Error> {
        self.event_loop.serve(service).map_err(|error| Error::internal(error.to_string()))?;
        let served = self.event_loop.served().await;
        served.map_err(|error| Error::away(error.to_string()))
    }
}

fn of_status(service: Service, status: Status) -> Error {
    let kind = match status.code() {
        Code::InvalidArgument => Kind::Invalid,
        Code::Unavailable => Kind::Away,
        Code::DeadlineExceeded => Kind::Late,
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

fn timed<M: petasos::message::Message>(message: petasos::Msg<M>, watch: &Watch) -> Response<M> {
    let mut response = Response::new(message);
    let added = response.metadata_mut().append(KEY, &watch.timing().text());
    added.expect("a timing's text is allowed in metadata");
    response
}

macro_rules! adapted {
    ($service:ident $module:ident $client:ident $server:ident $in_client:ident $in_server:ident {
        $($method:ident($request:ident) -> $reply:ident;)+
    }) => {
        impl calls::$service for Caller<generated::$module::$client> {
            $(async fn $method(
                &self,
                request: messages::$module::$request,
                watch: &mut Watch,
            ) -> Result<messages::$module::$reply, Error> {
                let begun = watch.now();
                let request = Request::new(request.message()).with_timeout(CALL_LIMIT);
                let response = self.0.$method(request).await;
                let response = response.map_err(|status| of_status(Service::$service, status))?;
                let reply = messages::$module::$reply::of(&response);
                watch.called(Service::$service, begun, response.metadata().get(KEY));
                Ok(reply)
            })+
        }

        impl<L: calls::$service> generated::$module::$service for Handler<L> {
            $(async fn $method(
                &self,
                request: Request<generated::$module::$request>,
            ) -> Result<Response<generated::$module::$reply>, Status> {
                let mut watch = Watch::start();
                let request = messages::$module::$request::of(&request);
                let reply = self.0.$method(request, &mut watch).await.map_err(to_status)?;
                Ok(timed(reply.message(), &watch))
            })+
        }
    };
}

every_service!(adapted);

macro_rules! made {
    ($service:ident $module:ident $client:ident $server:ident $in_client:ident $in_server:ident
        $methods:tt) => {
        type $service = Caller<generated::$module::$client>;

        fn $in_client(&self, server: SocketAddr) -> Self::$service {
            Caller(generated::$module::$client::new(self.event_loop.channel(server)))
        }

        async fn $in_server(&self, logic: impl calls::$service) -> Result<(), Error> {
            self.serve(generated::$module::$server::new(Handler(logic))).await
        }
    };
}

impl Rpc for OverPetasos {
    every_service!(made);

    fn address(&self) -> Option<SocketAddr> {
        self.event_loop.local_address()
    }

    async fn ended(&self) -> Error {
        let Some(driver) = self.driver.take() else { return pending().await };
        match driver.await {
            Ok(error) => Error::internal(format!("the loop has ended: {error}")),
            Err(error) => Error::internal(format!("the loop has ended: {error}")),
        }
    }
}
