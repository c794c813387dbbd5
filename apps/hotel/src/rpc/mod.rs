//! What carries calls between services: Petasos (by itself or through the managed service, which
//! the environment says), or tonic. The services' logic knows neither.
//!
//! Everything in a process runs on one thread: a current-thread Tokio runtime.

mod convert;
mod generated;
mod over_petasos;
mod over_tonic;

use std::future::Future;
use std::net::SocketAddr;
use std::time::Duration;

use clap::ValueEnum;

use crate::calls::{self, every_service};
use crate::error::Error;

pub use over_petasos::OverPetasos;
pub use over_tonic::OverTonic;

/// What a call may take.
const CALL_LIMIT: Duration = Duration::from_secs(1);

/// What carries calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RpcName {
    /// Petasos, or the managed service of `PETASOS_SERVICE`
    Petasos,
    /// gRPC by tonic
    Tonic,
}

macro_rules! declared {
    ($service:ident $module:ident $client:ident $server:ident $in_client:ident $in_server:ident
        $methods:tt) => {
        /// Calls the service.
        type $service: calls::$service;

        /// A client of the service, which connects when it is called.
        fn $in_client(&self, server: SocketAddr) -> Self::$service;

        /// Serves the service; ready when others can call it.
        ///
        /// # Errors
        /// The address is taken, or the managed service refuses.
        fn $in_server(
            &self,
            logic: impl calls::$service,
        ) -> impl Future<Output = Result<(), Error>>;
    };
}

/// Makes clients and servers of all services.
pub trait Rpc {
    every_service!(declared);

    /// The address at which others call what is served.
    fn address(&self) -> Option<SocketAddr>;

    /// Ready when nothing is served or called any more, with the reason.
    fn ended(&self) -> impl Future<Output = Error>;
}
