//! Handlers that run on workers: in the loop each is a future that awaits its job.

use core::future::Future;
use std::sync::Arc;

use petasos_call::Status;
use petasos_message::Message;

use crate::request::Request;
use crate::server::workers::{Full, Running, Workers};
use crate::stream::{Sender, Streaming};

/// Starts the handler of a unary call, with a reference of its own to the service.
pub(super) fn run_unary<T, Q: Message, F>(
    workers: &Workers,
    call: impl Fn(Arc<T>, Request<Q>) -> F,
    service: &Arc<T>,
    request: Request<Q>,
) -> Result<Running<F>, Full>
where
    F: Future<Output: Send> + Send + 'static,
{
    let timeout = request.timeout();
    workers.run(timeout, || call(service.clone(), request))
}

/// Starts the handler of a stream, likewise. Its ends find out by themselves that they are used on
/// another thread than their loop's.
pub(super) fn run_streams<T, Q: Message, P: Message, F>(
    workers: &Workers,
    call: impl Fn(Arc<T>, Streaming<Q>, Sender<P>) -> F,
    service: &Arc<T>,
    requests: Streaming<Q>,
    responses: Sender<P>,
) -> Result<Running<F>, Full>
where
    F: Future<Output: Send> + Send + 'static,
{
    let timeout = requests.timeout();
    workers.run(timeout, || call(service.clone(), requests, responses))
}

/// What a handler on workers comes to.
pub(super) async fn finish<T, R, F>(
    service: Arc<T>,
    running: Result<Running<F>, Full>,
) -> (Arc<T>, Result<R, Status>)
where
    F: Future<Output = (Arc<T>, Result<R, Status>)>,
{
    match running {
        Ok(running) => running.await,
        Err(full) => (service, Err(full.into())),
    }
}
