//! What generated services need, with the signatures of `petasos::rt` (ADR 11) and no calls: a
//! request is answered where it is made.

use std::future::Future;
use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::Arc;

use petasos_message::{Message, Module, Msg};

/// What is known of a service.
pub struct ServiceInfo {
    /// The schema.
    pub module: &'static Module,
    /// Its place among the schema's services.
    pub index: u32,
    /// The full name.
    pub name: &'static str,
    /// The hash.
    pub hash: [u8; 16],
    /// The methods, by name.
    pub methods: &'static [MethodInfo],
}

/// What is known of a service, as it is kept.
#[derive(Clone, Copy)]
pub struct ServiceRef(&'static ServiceInfo);

impl ServiceRef {
    /// A service of generated code.
    pub const fn of(info: &'static ServiceInfo) -> ServiceRef {
        ServiceRef(info)
    }
}

impl Deref for ServiceRef {
    type Target = ServiceInfo;

    fn deref(&self) -> &ServiceInfo {
        self.0
    }
}

impl From<&'static ServiceInfo> for ServiceRef {
    fn from(info: &'static ServiceInfo) -> ServiceRef {
        ServiceRef(info)
    }
}

/// What is known of a method.
#[derive(Debug, PartialEq)]
#[allow(missing_docs, reason = "named as in the schema")]
pub struct MethodInfo {
    pub name: &'static str,
    pub index: u16,
    pub kind: MethodKind,
    pub idempotency: Idempotency,
}

/// Which sides are streams.
#[derive(Debug, PartialEq)]
#[allow(missing_docs, reason = "named as in the schema")]
pub enum MethodKind {
    Unary,
    ClientStreaming,
    ServerStreaming,
    Bidirectional,
}

/// What a second execution does.
#[derive(Debug, PartialEq)]
#[allow(missing_docs, reason = "named as in the schema")]
pub enum Idempotency {
    Unknown,
    NoSideEffects,
    Idempotent,
}

/// Why a call failed.
#[derive(Debug, PartialEq)]
pub struct Status(pub String);

/// A message on its way to a handler.
pub struct Request<T: Message>(pub Msg<T>);

impl<T: Message> From<Msg<T>> for Request<T> {
    fn from(message: Msg<T>) -> Request<T> {
        Request(message)
    }
}

impl<T: Message> Deref for Request<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.0
    }
}

/// A message on its way back.
pub struct Response<T: Message>(pub Msg<T>);

/// Messages that arrive: here, those that were put in.
pub struct Streaming<T: Message>(pub Vec<Msg<T>>);

impl<T: Message> Streaming<T> {
    /// The next message.
    pub async fn message(&mut self) -> Result<Option<Msg<T>>, Status> {
        Ok((!self.0.is_empty()).then(|| self.0.remove(0)))
    }
}

/// Where messages go: here, nowhere.
pub struct Sender<T: Message>(pub PhantomData<T>);

impl<T: Message> Sender<T> {
    /// Sends a message.
    pub async fn send(&mut self, _: Msg<T>) -> Result<(), Status> {
        Ok(())
    }
}

/// What is served.
pub trait Service {
    /// The service.
    fn info(&self) -> ServiceRef;
    /// Adds the methods.
    fn methods(self, methods: &mut Methods);
}

/// The methods that were added: their numbers.
#[derive(Default)]
pub struct Methods(pub Vec<(u16, MethodKind)>);

/// What a handler's closure gives.
pub type Served<T, P> = (Arc<T>, Result<P, Status>);

impl Methods {
    /// Adds a method.
    pub fn unary<T, Q, P, F>(
        &mut self,
        index: u16,
        _: &Arc<T>,
        _: impl Fn(Arc<T>, Request<Q>) -> F + Clone + Send + Sync + 'static,
    ) where
        Q: Message,
        P: Message,
        F: Future<Output = Served<T, Response<P>>> + Send + 'static,
    {
        self.0.push((index, MethodKind::Unary));
    }

    /// Adds a method.
    pub fn client_streaming<T, Q, P, F>(
        &mut self,
        index: u16,
        _: &Arc<T>,
        _: impl Fn(Arc<T>, Streaming<Q>) -> F + Clone + Send + Sync + 'static,
    ) where
        Q: Message,
        P: Message,
        F: Future<Output = Served<T, Response<P>>> + Send + 'static,
    {
        self.0.push((index, MethodKind::ClientStreaming));
    }

    /// Adds a method.
    pub fn server_streaming<T, Q, P, F>(
        &mut self,
        index: u16,
        _: &Arc<T>,
        _: impl Fn(Arc<T>, Request<Q>, Sender<P>) -> F + Clone + Send + Sync + 'static,
    ) where
        Q: Message,
        P: Message,
        F: Future<Output = Served<T, ()>> + Send + 'static,
    {
        self.0.push((index, MethodKind::ServerStreaming));
    }

    /// Adds a method.
    pub fn bidirectional<T, Q, P, F>(
        &mut self,
        index: u16,
        _: &Arc<T>,
        _: impl Fn(Arc<T>, Streaming<Q>, Sender<P>) -> F + Clone + Send + Sync + 'static,
    ) where
        Q: Message,
        P: Message,
        F: Future<Output = Served<T, ()>> + Send + 'static,
    {
        self.0.push((index, MethodKind::Bidirectional));
    }
}

/// A way to a server.
#[derive(Clone, Default)]
pub struct Channel;

impl Channel {
    /// Binds a service.
    pub fn bind(&self, service: impl Into<ServiceRef>) -> ServiceClient {
        ServiceClient(service.into())
    }
}

/// A service that was bound.
#[derive(Clone)]
pub struct ServiceClient(ServiceRef);

/// A call: here, no more than the name of what was called.
pub struct Call<T>(pub String, pub PhantomData<T>);
/// A call with one response.
pub type Unary<P> = Call<Response<P>>;
/// A call whose requests are a stream.
pub type Upload<Q, P> = Call<(Sender<Q>, P)>;
/// A call whose responses are a stream.
pub type Opening<T> = Call<T>;

impl<T> Call<T> {
    fn of(service: &ServiceInfo, index: u16) -> Call<T> {
        let method = &service.methods[usize::from(index)];
        assert_eq!(method.index, index);
        Call(format!("{}/{}", service.name, method.name), PhantomData)
    }
}

impl ServiceClient {
    /// Calls a method.
    pub fn unary<Q: Message, P: Message>(&self, index: u16, _: Request<Q>) -> Unary<P> {
        Call::of(&self.0, index)
    }

    /// Calls a method.
    pub fn server_streaming<Q: Message, P: Message>(
        &self,
        index: u16,
        _: Request<Q>,
    ) -> Opening<Streaming<P>> {
        Call::of(&self.0, index)
    }

    /// Calls a method.
    pub fn client_streaming<Q: Message, P: Message>(&self, index: u16) -> Upload<Q, P> {
        Call::of(&self.0, index)
    }

    /// Calls a method.
    pub fn bidirectional<Q: Message, P: Message>(
        &self,
        index: u16,
    ) -> Opening<(Sender<Q>, Streaming<P>)> {
        Call::of(&self.0, index)
    }
}
