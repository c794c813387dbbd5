//! Handling of a gRPC port's call by a tonic service.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use petasos::grpc::{BoxFuture, FrameWriter, Routes, ServerCall};
use petasos::{Metadata, Status};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tonic::body::Body;

use crate::service::TonicService;
use crate::{requests, responses};

/// A service, and the runtime for its handlers if it is not the port's.
pub(crate) struct Adapter<S> {
    pub(crate) service: S,
    pub(crate) runtime: Option<Handle>,
}

impl<S: TonicService> Routes for Adapter<S> {
    fn serve(&self, path: &str, call: ServerCall) -> BoxFuture<'static, ()> {
        let service = self.service.clone();
        let (request, responses) = match requests::request(path, call) {
            Ok(both) => both,
            Err(responses) => {
                let status = Status::unimplemented("no such method is served here");
                responses.end(status, Metadata::new());
                return Box::pin(std::future::ready(()));
            }
        };
        let handler = handle(service, request, responses);
        match &self.runtime {
            None => Box::pin(handler),
            Some(runtime) => Box::pin(Elsewhere(runtime.spawn(handler))),
        }
    }
}

async fn handle<S: TonicService>(
    mut service: S,
    request: http::Request<Body>,
    responses: FrameWriter,
) {
    let Ok(()) = std::future::poll_fn(|cx| service.poll_ready(cx)).await;
    let Ok(response) = service.call(request).await;
    responses::send(response, responses).await;
}

/// A handler on another runtime. Dropping this aborts it.
struct Elsewhere(JoinHandle<()>);

impl Future for Elsewhere {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        // The port answers for a handler that panics, whichever runtime it runs on.
        if let Err(error) = ready!(Pin::new(&mut self.0).poll(cx))
            && let Ok(panic) = error.try_into_panic()
        {
            std::panic::resume_unwind(panic);
        }
        Poll::Ready(())
    }
}

impl Drop for Elsewhere {
    fn drop(&mut self) {
        self.0.abort();
    }
}
