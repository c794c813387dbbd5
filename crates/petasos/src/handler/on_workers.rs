//! Handlers on workers. In the loop, each is a future that awaits its job. If this future is
//! dropped, the request is marked as cancelled, so that a handler that reaches no await can notice.

use core::future::Future;
use std::sync::Arc;

use petasos_call::Status;
use petasos_message::Message;
use petasos_rpc::intercept::CallSpan;
use petasos_rpc::origin::CancelGuard;
use petasos_rpc::request::{Request, RequestParts as _};
use petasos_runtime::workers::{Full, Running, Workers};

use crate::stream::{Sender, Streaming};

/// A handler that was started, and the guard that reports cancellation to it.
type Started<F> = Result<(Running<F>, CancelGuard), Full>;

/// Starts the handler of a unary call. The handler gets a reference to the service.
pub(super) fn run_unary<T, Q: Message, F>(
    workers: &Workers,
    call: impl Fn(Arc<T>, Request<Q>) -> F,
    service: &Arc<T>,
    mut request: Request<Q>,
) -> Started<F>
where
    F: Future<Output: Send> + Send + 'static,
{
    let (timeout, ends) = (request.timeout(), request.watch());
    let span = CallSpan::of(request.extensions());
    let running = workers.run(timeout, span, || call(service.clone(), request));
    running.map(|running| (running, ends))
}

/// Starts the handler of a stream in the same way. The stream's ends detect that they are used
/// outside of their loop's thread.
pub(super) fn run_streams<T, Q: Message, P: Message, F>(
    workers: &Workers,
    call: impl Fn(Arc<T>, Streaming<Q>, Sender<P>) -> F,
    service: &Arc<T>,
    mut requests: Streaming<Q>,
    responses: Sender<P>,
) -> Started<F>
where
    F: Future<Output: Send> + Send + 'static,
{
    let (timeout, ends) = (requests.timeout(), requests.watch());
    let span = CallSpan::of(requests.extensions());
    let running = workers.run(timeout, span, || call(service.clone(), requests, responses));
    running.map(|running| (running, ends))
}

/// The result of a handler on workers.
pub(super) async fn finish<T, R, F>(
    service: Arc<T>,
    started: Started<F>,
) -> (Arc<T>, Result<R, Status>)
where
    F: Future<Output = (Arc<T>, Result<R, Status>)>,
{
    match started {
        Ok((running, _ends)) => running.await,
        Err(full) => (service, Err(full.into())),
    }
}
