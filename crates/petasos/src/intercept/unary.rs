//! Interceptors around unary calls.

use core::future::Future;
use std::sync::Arc;

use petasos_call::{Metadata, Status};
use petasos_message::{Message, Msg};

use super::scope::{Scope, within};
use super::{Around, Outcome, Side, Way};
use crate::request::{Request, Response};

/// A client's call: `begin` begins what is around nothing.
pub(crate) async fn around_call<Q, P, F>(
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
        let beside = scope.enter().await?;
        scope.watch.message(Way::Request, &message)?;
        let response = begin(Request::with(message, beside)).await?;
        scope.watch.message(Way::Response, response.message())?;
        Ok(response)
    };
    let outcome = outcome.await;
    tell(&scope, &outcome);
    outcome
}

/// A server's handler.
pub(crate) async fn around_handler<T, Q, P, F>(
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
    let (message, beside) = request.apart();
    let mut scope = Scope::new(&around, method, Side::Server, beside);
    let entered = match scope.enter().await {
        Ok(beside) => scope.watch.message(Way::Request, &message).map(|()| beside),
        refused => refused,
    };
    let (service, outcome) = match entered {
        Ok(beside) => {
            let handler = handle(service, Request::with(message, beside));
            within(&scope.watch, handler).await
        }
        Err(refused) => (service, Err(refused)),
    };
    let outcome = outcome.and_then(|response| {
        scope.watch.message(Way::Response, response.message())?;
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
