//! Interceptors around handlers of streams.

use core::future::Future;
use std::sync::Arc;

use petasos_call::Status;
use petasos_message::Message;
use petasos_rpc::intercept::{HandlerScope, Hooks};

use crate::stream::{Sender, Streaming};

/// The result of a handler, together with the service.
pub(super) type Served<T, R> = (Arc<T>, Result<R, Status>);

/// Runs the interceptors around a server's handler of streams.
pub(super) async fn around_streams<T, Q, P, F>(
    hooks: Hooks,
    service: Arc<T>,
    mut requests: Streaming<Q>,
    mut responses: Sender<P>,
    handle: impl FnOnce(Arc<T>, Streaming<Q>, Sender<P>) -> F,
) -> Served<T, ()>
where
    Q: Message,
    P: Message,
    F: Future<Output = Served<T, ()>>,
{
    let mut scope = HandlerScope::new(hooks, requests.take_parts());
    let (service, result) = match scope.enter().await {
        Ok((parts, [of_requests, of_responses])) => {
            requests.put_parts(parts);
            requests.tap(of_requests);
            responses.tap(of_responses);
            scope.within(handle(service, requests, responses)).await
        }
        Err(refused) => {
            drop((requests, responses));
            (service, Err(refused))
        }
    };
    (service, scope.handled(result))
}
