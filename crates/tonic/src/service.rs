//! What tonic's services have in common.

use std::convert::Infallible;

use http::{Request, Response};
use tonic::body::Body;
use tonic::codegen::Service;
use tonic::server::NamedService;

/// What tonic's generator makes of a service, with or without interceptors of tonic's around it.
/// Implemented for all that is so.
pub trait TonicService:
    Service<Request<Body>, Response = Response<Body>, Error = Infallible, Future = Self::Handler>
    + NamedService
    + Clone
    + Send
    + Sync
    + 'static
{
    /// What handles a call.
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
