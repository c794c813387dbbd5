//! Services in the form of tonic's generated code, without the generator.

use std::convert::Infallible;
use std::task::{Context, Poll};

use tonic::Status;
use tonic::body::Body;
use tonic::codegen::http::{Request, Response};
use tonic::codegen::{BoxFuture, Service};

/// What a service has.
pub trait Methods: Clone + Send + 'static {
    /// Runs the method that the request's path names; none if there is no such method.
    fn run(
        self,
        request: Request<Body>,
    ) -> impl Future<Output = Option<Response<Body>>> + Send + 'static;
}

/// The methods as a service of tonic's server.
#[derive(Clone)]
pub struct Routes<M>(pub M);

impl<M: Methods> Service<Request<Body>> for Routes<M> {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Response<Body>, Infallible>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let running = self.0.clone().run(request);
        Box::pin(async move {
            let none = || Status::unimplemented("no such method is served").into_http();
            Ok(running.await.unwrap_or_else(none))
        })
    }
}
