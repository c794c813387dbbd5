//! Methods on the gRPC port: passes calls from HTTP/2 to the same handlers.
//!
//! A handler's future is boxed. The connection that received the call polls it first; once it
//! waits, its own task does. `petasos-grpc` drops the future at the call's deadline, when the
//! client cancels the call, or when the connection ends. It also answers the call if the handler
//! panics.

use core::future::Future;
use std::collections::HashMap;
use std::sync::Arc;

use petasos_call::{Code, HEAD_BYTES, Metadata, Status};
use petasos_grpc::{BoxFuture, CallEnd, Compression, Routes, ServerCall};
use petasos_message::{Message, Msg};
use petasos_rpc::codec::{decode_protobuf, unencodable};
use petasos_rpc::compression::CameCompressed;
use petasos_rpc::intercept::{CallSpan, Hooks, around_handler};
use petasos_rpc::origin::{CancelGuard, Origin};
use petasos_rpc::request::{
    CallParts, More, Request, RequestParts as _, Response, ResponseParts as _, read_traceparent,
};
use petasos_runtime::ServeError;
use petasos_runtime::workers::{self, Workers};

use super::around::around_streams;
use super::{AnyMethod, Placed, Prepared, Service};
use crate::stream::grpc::{GrpcSink, GrpcSource};
use crate::stream::{Sender, Sink, Source, Streaming};

/// The methods of a port, by path.
pub(crate) struct Router {
    methods: HashMap<String, Route>,
    /// Services whose messages are bytes, by name.
    others: HashMap<String, Arc<dyn Routes>>,
}

/// The routes of one service, for a listener of the program's own
/// ([`serve_unix`](petasos_grpc::Server::serve_unix)): no loops, no datagrams, no interceptors.
///
/// # Errors
/// See [`ServeError`].
pub fn grpc_routes(service: impl Service) -> Result<Arc<dyn Routes>, ServeError> {
    Ok(Arc::new(Router::new(&[Prepared::new(service)?], &Placed::default())))
}

struct Route {
    method: Arc<dyn AnyMethod>,
    workers: Option<Arc<Workers>>,
    hooks: Option<Hooks>,
}

impl Router {
    /// A router for all methods of these services.
    pub(crate) fn new(services: &[Prepared], placed: &Placed) -> Router {
        let mut methods = HashMap::new();
        for Prepared { info, methods: calls } in services {
            let around = placed.chain.around(info);
            for (of, method) in info.methods().zip(calls) {
                let workers = placed.workers(info.name(), of.name).cloned();
                let hooks = around.clone().map(|around| (around, of.index));
                let route = Route { method: method.clone(), workers, hooks };
                methods.insert(format!("/{}/{}", info.name(), of.name), route);
            }
        }
        Router { methods, others: HashMap::new() }
    }

    /// Adds a service whose messages are bytes, with all its paths.
    pub(crate) fn add(&mut self, name: String, routes: Arc<dyn Routes>) {
        self.others.insert(name, routes);
    }

    /// The bytes-only service that a path names.
    fn other(&self, path: &str) -> Option<&Arc<dyn Routes>> {
        let (name, _) = path.strip_prefix('/')?.split_once('/')?;
        self.others.get(name)
    }
}

/// The caller, and the guard that reports cancellation to the handler, if there is one.
pub(crate) struct Caller {
    origin: Origin,
    ends: Option<CancelGuard>,
}

impl Routes for Router {
    fn serve(&self, path: &str, call: ServerCall) -> BoxFuture<'static, ()> {
        let Some(Route { method, workers, hooks }) = self.methods.get(path) else {
            if let Some(other) = self.other(path) {
                return other.serve(path, call);
            }
            let status = Status::unimplemented("no such method is served here");
            call.responses.end(status, Metadata::new());
            return Box::pin(core::future::ready(()));
        };
        let timeout = call.timeout;
        let (origin, ends) = CancelGuard::of(Origin::Grpc(call.peer.clone()));
        let Some(workers) = workers else {
            let caller = Caller { origin, ends: Some(ends) };
            let handler = method.serve(call, caller, hooks.clone());
            return match timeout {
                None => handler,
                Some(timeout) => Box::pin(workers::with_time_left(timeout, handler)),
            };
        };
        let mut call = call;
        let end = call.responses.split();
        let caller = Caller { origin, ends: None };
        match workers
            .run(timeout, CallSpan::default(), || method.serve(call, caller, hooks.clone()))
        {
            Ok(running) => Box::pin(async move {
                running.await;
                drop((end, ends));
            }),
            Err(full) => {
                end.end(&full.into());
                Box::pin(core::future::ready(()))
            }
        }
    }
}

/// Handles a call of a unary method.
pub(super) async fn unary<T, Q, P, F>(
    call: ServerCall,
    Caller { origin, ends: _ends }: Caller,
    service: Arc<T>,
    run: impl Fn(Arc<T>, Request<Q>) -> F,
    hooks: Option<Hooks>,
) where
    Q: Message,
    P: Message,
    F: Future<Output = (Arc<T>, Result<Response<P>, Status>)>,
{
    let ServerCall { metadata, timeout, mut requests, mut responses, .. } = call;
    let message = requests.single().await.and_then(decode_protobuf);
    let served = match message {
        Ok(message) => {
            let mut extensions = read_traceparent(&metadata);
            if requests.compression() != Compression::Identity {
                extensions.insert(CameCompressed);
            }
            let parts = CallParts { metadata, timeout, extensions, origin };
            let request = Request::with(message, parts);
            match hooks {
                None => run(service, request).await.1,
                Some(hooks) => around_handler(hooks, service, request, run).await.1,
            }
        }
        Err(status) => Err(status),
    };
    let answer = served.and_then(|response| {
        let (message, more) = response.into_parts();
        let image = Msg::to_protobuf(&message, HEAD_BYTES).map_err(unencodable)?;
        Ok((image.into_buf(), more.map(|more| *more).unwrap_or_default()))
    });
    match answer {
        Ok((message, More { metadata, trailers, compressed })) => {
            if let Some(compressed) = compressed {
                responses.compress(compressed);
            }
            responses.finish(&metadata, message, &trailers);
        }
        Err(status) => responses.end(failure(status), Metadata::new()),
    }
}

/// Handles a call of a method with streams.
pub(super) fn streams<T, Q, P, F>(
    call: ServerCall,
    Caller { origin, ends }: Caller,
    service: Arc<T>,
    run: impl Fn(Arc<T>, Streaming<Q>, Sender<P>) -> F + Send + Sync + 'static,
    hooks: Option<Hooks>,
) -> BoxFuture<'static, ()>
where
    T: Send + Sync + 'static,
    Q: Message,
    P: Message,
    F: Future<Output = (Arc<T>, Result<(), Status>)> + Send + 'static,
{
    let ServerCall { metadata, timeout, requests, mut responses, .. } = call;
    let end = responses.split();
    let source = Source::Grpc(Box::new(GrpcSource::of_handler(requests)));
    let extensions = read_traceparent(&metadata);
    let parts = CallParts { metadata, timeout, extensions, origin };
    let requests = Streaming::of_handler(source, parts);
    let responses = Sender::new(Sink::Grpc(GrpcSink::of_handler(responses)));
    match hooks {
        None => Box::pin(end_with(run(service, requests, responses), end, ends)),
        Some(hooks) => {
            let handler = around_streams(hooks, service, requests, responses, run);
            Box::pin(end_with(handler, end, ends))
        }
    }
}

/// Ends the call, and drops its [`CancelGuard`], when its handler is done.
async fn end_with<T>(
    handler: impl Future<Output = (Arc<T>, Result<(), Status>)>,
    end: CallEnd,
    _ends: Option<CancelGuard>,
) {
    let (_, served) = handler.await;
    end.end(&served.map_or_else(failure, |()| Status::ok()));
}

/// A handler that fails with OK is wrong; its error must not look like a response.
fn failure(status: Status) -> Status {
    match status.code() {
        Code::Ok => Status::unknown("the handler failed with OK"),
        _ => status,
    }
}
