//! Methods with streams. Whatever the kind of method, one handler gets both directions.

use core::future::Future;
use core::marker::PhantomData;
use std::sync::Arc;

use petasos_call::Status;
use petasos_message::Message;
use petasos_rpc::compression::CameCompressed;
#[cfg(feature = "grpc")]
use petasos_rpc::intercept::Hooks;
use petasos_rpc::request::{Request, RequestParts as _, Response, ResponseParts as _};
use petasos_runtime::dispatcher::LocalMethod;

use super::around::{Served, around_streams};
use super::on_workers::{finish, run_streams};
use super::streams_in_loop::InLoop;
use super::{AnyMethod, Methods, Serving};
use crate::stream::{Sender, Streaming};

impl Methods {
    /// Adds a client-streaming method with this index. `call` runs its handler, and returns the
    /// service.
    pub fn client_streaming<T, Q, P, F>(
        &mut self,
        index: u16,
        service: &Arc<T>,
        call: impl Fn(Arc<T>, Streaming<Q>) -> F + Clone + Send + Sync + 'static,
    ) where
        T: Send + Sync + 'static,
        Q: Message,
        P: Message,
        F: Future<Output = Served<T, Response<P>>> + Send + 'static,
    {
        let call = move |service, requests, responses| {
            let served = call(service, requests);
            async move {
                match served.await {
                    (service, Ok(response)) => (service, respond(response, responses).await),
                    (service, Err(status)) => (service, Err(status)),
                }
            }
        };
        self.bidirectional(index, service, call);
    }

    /// Adds a server-streaming method with this index.
    pub fn server_streaming<T, Q, P, F>(
        &mut self,
        index: u16,
        service: &Arc<T>,
        call: impl Fn(Arc<T>, Request<Q>, Sender<P>) -> F + Clone + Send + Sync + 'static,
    ) where
        T: Send + Sync + 'static,
        Q: Message,
        P: Message,
        F: Future<Output = Served<T, ()>> + Send + 'static,
    {
        let call = move |service, mut requests: Streaming<Q>, responses| {
            let call = call.clone();
            async move {
                let message = match requests.single().await {
                    Ok(message) => message,
                    Err(status) => return (service, Err(status)),
                };
                let mut parts = requests.take_parts();
                if requests.was_compressed() {
                    parts.extensions.insert(CameCompressed);
                }
                call(service, Request::with(message, parts), responses).await
            }
        };
        self.bidirectional(index, service, call);
    }

    /// Adds a bidirectional method with this index.
    pub fn bidirectional<T, Q, P, F>(
        &mut self,
        index: u16,
        service: &Arc<T>,
        call: impl Fn(Arc<T>, Streaming<Q>, Sender<P>) -> F + Clone + Send + Sync + 'static,
    ) where
        T: Send + Sync + 'static,
        Q: Message,
        P: Message,
        F: Future<Output = Served<T, ()>> + Send + 'static,
    {
        let service = service.clone();
        self.list.push((index, Box::new(Streams { service, call, types: PhantomData })));
    }
}

/// Sends the only response of a client-streaming method.
async fn respond<P: Message>(response: Response<P>, mut to: Sender<P>) -> Result<(), Status> {
    let (message, more) = response.into_parts();
    if let Some(more) = more {
        *to.metadata_mut() = more.metadata;
        *to.trailers_mut() = more.trailers;
        more.compressed.into_iter().for_each(|compressed| to.compress(compressed));
    }
    to.send(message).await
}

/// A method with streams, independent of any loop.
struct Streams<T, Q, P, F, C> {
    service: Arc<T>,
    call: C,
    types: PhantomData<fn(Q) -> (P, F)>,
}

impl<T, Q, P, F, C> AnyMethod for Streams<T, Q, P, F, C>
where
    T: Send + Sync + 'static,
    Q: Message,
    P: Message,
    F: Future<Output = Served<T, ()>> + Send + 'static,
    C: Fn(Arc<T>, Streaming<Q>, Sender<P>) -> F + Clone + Send + Sync + 'static,
{
    fn local(&self, serving: Serving<'_>) -> Box<dyn LocalMethod> {
        let Serving { shared, kind, workers, hooks } = serving;
        let (service, call, shared) = (self.service.clone(), self.call.clone(), shared.clone());
        let workers = workers.cloned();
        // Each case is a separate type, so that none pays for the others.
        match (hooks, workers) {
            (None, None) => Box::new(InLoop::<T, Q, P, F, C>::new(service, call, shared, kind)),
            (None, Some(workers)) => {
                let call = move |service, requests, responses| {
                    let job = run_streams(&workers, &call, &service, requests, responses);
                    finish(service, job)
                };
                Box::new(InLoop::<T, Q, P, _, _>::new(service, call, shared, kind))
            }
            (Some(hooks), workers) => {
                let call = move |service, requests, responses| {
                    let (workers, call) = (workers.clone(), call.clone());
                    around_streams(
                        hooks.clone(),
                        service,
                        requests,
                        responses,
                        async move |service, requests, responses| {
                            let Some(workers) = &workers else {
                                return call(service, requests, responses).await;
                            };
                            let job = run_streams(workers, &call, &service, requests, responses);
                            finish(service, job).await
                        },
                    )
                };
                Box::new(InLoop::<T, Q, P, _, _>::new(service, call, shared, kind))
            }
        }
    }

    #[cfg(feature = "grpc")]
    fn serve(
        &self,
        call: petasos_grpc::ServerCall,
        caller: super::grpc::Caller,
        hooks: Option<Hooks>,
    ) -> petasos_grpc::BoxFuture<'static, ()> {
        super::grpc::streams(call, caller, self.service.clone(), self.call.clone(), hooks)
    }
}
