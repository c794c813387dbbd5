//! Methods in a loop.

mod around;
mod exchange;
#[cfg(feature = "grpc")]
pub(crate) mod grpc;
mod long;
mod on_workers;
mod reading;
mod streams;
mod streams_in_loop;
pub(crate) mod unary;

use core::future::Future;
use std::sync::Arc;

use petasos_call::Status;
use petasos_message::Message;
use petasos_rpc::descriptors::ServiceRef;
use petasos_rpc::intercept::{Chain, Hooks};
use petasos_rpc::request::{Request, Response};

use petasos_runtime::dispatcher::LocalMethod;
use petasos_runtime::shared::Shared;
use petasos_runtime::workers::Workers;
use petasos_runtime::{Runtime, ServeError};

/// A service that can be served. Generated code implements this for each service.
pub trait Service {
    /// The description of the service.
    fn info(&self) -> ServiceRef;
    /// Adds all methods of the service.
    fn methods(self, methods: &mut Methods);
}

/// A method, independent of any loop.
pub(crate) trait AnyMethod: Send + Sync {
    /// Makes the method's handler for one loop.
    fn local(&self, serving: Serving<'_>) -> Box<dyn LocalMethod>;
    /// Handles a call that arrived over gRPC.
    #[cfg(feature = "grpc")]
    fn serve(
        &self,
        call: petasos_grpc::ServerCall,
        caller: grpc::Caller,
        hooks: Option<Hooks>,
    ) -> petasos_grpc::BoxFuture<'static, ()>;
}

/// How a loop serves a method.
pub(crate) struct Serving<'a> {
    pub(crate) shared: &'a Arc<Shared>,
    /// The method's index in the loop.
    pub(crate) kind: u32,
    /// The workers that run the method's handlers, if they do not run in the loop.
    pub(crate) workers: Option<&'a Arc<Workers>>,
    pub(crate) hooks: Option<Hooks>,
}

/// A service, independent of any loop.
pub(crate) struct Prepared {
    pub(crate) info: ServiceRef,
    /// By index.
    pub(crate) methods: Vec<Arc<dyn AnyMethod>>,
}

impl Prepared {
    pub(crate) fn new(service: impl Service) -> Result<Prepared, ServeError> {
        let info = service.info();
        let mut methods = Methods::default();
        service.methods(&mut methods);
        let methods = methods.into_ordered(info.methods().len()).ok_or(ServeError::Methods)?;
        Ok(Prepared { info, methods })
    }

    /// Serves all methods in a loop.
    pub(crate) fn serve_in(&self, runtime: &Runtime, placed: &Placed) -> Result<(), ServeError> {
        let around = placed.chain.around(&self.info);
        runtime.serve(&self.info, |at, shared, kind| {
            let of = self.info.method(at as u16);
            let workers = placed.workers(self.info.name(), of.name);
            let hooks = around.clone().map(|around| (around, of.index));
            self.methods[at].local(Serving { shared, kind, workers, hooks })
        })
    }
}

/// Which methods run their handlers on workers, and the interceptors of all methods.
#[derive(Default)]
pub(crate) struct Placed {
    pub(crate) workers: Option<Arc<Workers>>,
    /// Method names in the form `pkg.Service/Method`.
    pub(crate) on_workers: Vec<String>,
    pub(crate) chain: Chain,
}

impl Placed {
    /// The workers of a method, if it runs on workers.
    pub(crate) fn workers(&self, service: &str, method: &str) -> Option<&Arc<Workers>> {
        let is_it = |path: &String| path.split_once('/') == Some((service, method));
        self.workers.as_ref().filter(|_| self.on_workers.iter().any(is_it))
    }
}

/// The methods of a service. Generated code adds them.
#[derive(Default)]
pub struct Methods {
    list: Vec<(u16, Box<dyn AnyMethod>)>,
}

impl Methods {
    /// Adds the unary method with this index. `call` runs its handler, and returns the service.
    pub fn unary<T, Q, P, F>(
        &mut self,
        index: u16,
        service: &Arc<T>,
        call: impl Fn(Arc<T>, Request<Q>) -> F + Clone + Send + Sync + 'static,
    ) where
        T: Send + Sync + 'static,
        Q: Message,
        P: Message,
        F: Future<Output = (Arc<T>, Result<Response<P>, Status>)> + Send + 'static,
    {
        self.add(index, Box::new(unary::Unary::new(service.clone(), call)));
    }

    /// Adds the method with this index.
    pub(crate) fn add(&mut self, index: u16, method: Box<dyn AnyMethod>) {
        self.list.push((index, method));
    }

    /// Returns the methods in the order of their indices, if there is one for each index below
    /// `count`.
    pub(crate) fn into_ordered(mut self, count: usize) -> Option<Vec<Arc<dyn AnyMethod>>> {
        self.list.sort_by_key(|(index, _)| *index);
        let each_once =
            self.list.iter().enumerate().all(|(at, (index, _))| at == usize::from(*index));
        (each_once && self.list.len() == count)
            .then(|| self.list.into_iter().map(|(_, method)| method.into()).collect())
    }
}

impl core::fmt::Debug for Methods {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Methods").field("count", &self.list.len()).finish()
    }
}
