//! Interceptors around unary calls.

use core::future::Future;
use core::task::{Context, Poll, Waker};
use std::sync::Arc;

use petasos_call::{Metadata, Status};
use petasos_message::{Message, Msg};

use super::scope::{Scope, within};
use super::{Around, BoxFuture, Direction, Outcome, Side};
use crate::request::{Request, RequestParts as _, Response, ResponseParts as _};

/// A client's call: runs the interceptors, then `begin`.
pub async fn around_call<Q, P, F>(
    mut scope: Scope,
    message: Msg<Q>,
    begin: impl FnOnce(Request<Q>) -> F,
) -> Result<Response<P>, Status>
where
    Q: Message,
    P: Message,
    F: Future<Output = Result<Response<P>, Status>>,
{
    let outcome = async {
        let parts = scope.enter().await?;
        scope.watch.message(Direction::Request, &message)?;
        let response = begin(Request::with(message, parts)).await?;
        scope.watch.message(Direction::Response, response.message())?;
        Ok(response)
    };
    let outcome = outcome.await;
    tell(&scope, &outcome);
    outcome
}

/// A client's call with interceptors.
pub struct Intercepted<P> {
    call: BoxFuture<'static, Result<Response<P>, Status>>,
    /// The outcome, if it was known at once.
    outcome: Option<Result<Response<P>, Status>>,
}

impl<P: Message> Intercepted<P> {
    /// Runs the call as far as possible without waiting.
    pub fn begin(mut call: BoxFuture<'static, Result<Response<P>, Status>>) -> Intercepted<P> {
        let outcome = match call.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(outcome) => Some(outcome),
            Poll::Pending => None,
        };
        Intercepted { call, outcome }
    }

    /// Polls the call for its outcome.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Response<P>, Status>> {
        match self.outcome.take() {
            Some(outcome) => Poll::Ready(outcome),
            None => self.call.as_mut().poll(cx),
        }
    }
}

/// A server's handler with interceptors.
pub async fn around_handler<T, Q, P, F>(
    (around, method): (Arc<Around>, u16),
    service: Arc<T>,
    request: Request<Q>,
    handle: impl FnOnce(Arc<T>, Request<Q>) -> F,
) -> (Arc<T>, Result<Response<P>, Status>)
where
    Q: Message,
    P: Message,
    F: Future<Output = (Arc<T>, Result<Response<P>, Status>)>,
{
    let (message, parts) = request.into_parts();
    let mut scope = Scope::new(&around, method, Side::Server, parts);
    let entered = match scope.enter().await {
        Ok(parts) => scope.watch.message(Direction::Request, &message).map(|()| parts),
        refused => refused,
    };
    let (service, outcome) = match entered {
        Ok(parts) => {
            let handler = handle(service, Request::with(message, parts));
            within(&scope.watch, handler).await
        }
        Err(refused) => (service, Err(refused)),
    };
    let outcome = outcome.and_then(|response| {
        scope.watch.message(Direction::Response, response.message())?;
        Ok(response)
    });
    tell(&scope, &outcome);
    (service, outcome)
}

fn tell<P: Message>(scope: &Scope, outcome: &Result<Response<P>, Status>) {
    match outcome {
        Ok(response) => {
            let (metadata, trailers) = (response.metadata(), response.trailers());
            scope.ended(&Outcome { result: Ok(()), metadata, trailers });
        }
        Err(status) => scope.watch.failed(status, &Metadata::new()),
    }
}
