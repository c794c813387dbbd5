//! The common trait of tonic's services.

use std::convert::Infallible;

use http::{Request, Response};
use tonic::body::Body;
use tonic::codegen::Service;
use tonic::server::NamedService;

/// A service that tonic generates, with or without tonic's interceptors around it. This is
/// implemented for all such types.
pub trait TonicService:
    Service<Request<Body>, Response = Response<Body>, Error = Infallible, Future = Self::Handler>
    + NamedService
    + Clone
    + Send
    + Sync
    + 'static
{
    /// Handles a call.
    type Handler: Future<Output = Result<Response<Body>, Infallible>> + Send + 'static;
}

impl<S, F> TonicService for S
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible, Future = F>,
    S: NamedService + Clone + Send + Sync + 'static,
    F: Future<Output = Result<Response<Body>, Infallible>> + Send + 'static,
{
    type Handler = F;
}
