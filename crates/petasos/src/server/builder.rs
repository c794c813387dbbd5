//! How servers are made.

use core::time::Duration;
use std::fmt;
use std::sync::{Arc, mpsc};

use petasos_endpoint::Node;
use petasos_rpc::intercept::{Chain, Interceptor};
use petasos_runtime::shared::Shared;
use petasos_runtime::workers::Workers;
use petasos_runtime::{LoopConfig, LoopError, Security, ServeError};

use super::Server;
use super::ended::{Ending, ThreadGuard};
use super::error::{StartError, find};
#[cfg(feature = "grpc")]
use super::grpc::GrpcService;
use crate::event_loop::Loop;
use crate::handler::{Placed, Prepared, Service};

/// Time for handlers when a signal ends the server, unless told otherwise.
const GRACE: Duration = Duration::from_secs(30);
/// Calls that wait for workers or run there, unless told otherwise.
const WORKER_CALLS_MAX: usize = 1024;
const WORKER_THREADS: usize = 4;

/// Where the handlers of a method run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Placement {
    /// In the loop that received the request. For all that computes for less than some
    /// microseconds between awaits, and never blocks.
    #[default]
    Dispatch,
    /// On the Tokio runtime that the server was started in, otherwise on threads of the server's:
    /// for what blocks or computes. A handler that waits, for a message of its stream for instance,
    /// has no thread meanwhile. Calls beyond [`ServerBuilder::worker_calls_max`] are
    /// `RESOURCE_EXHAUSTED`.
    Worker,
}

/// Makes a [`Server`].
#[must_use = "a builder starts nothing by itself"]
pub struct ServerBuilder {
    services: Vec<Prepared>,
    listen: Option<String>,
    loops: usize,
    on_workers: Vec<String>,
    chain: Chain,
    worker_threads: usize,
    worker_calls_max: usize,
    grace: Duration,
    config: LoopConfig,
    #[cfg(feature = "grpc")]
    grpc: Option<super::grpc::Asked>,
    #[cfg(feature = "grpc")]
    grpc_threads: usize,
    #[cfg(feature = "grpc")]
    grpc_services: Vec<GrpcService>,
    /// The first thing that was wrong.
    error: Option<ServeError>,
}

impl Default for ServerBuilder {
    fn default() -> ServerBuilder {
        ServerBuilder {
            services: Vec::new(),
            listen: None,
            loops: 1,
            on_workers: Vec::new(),
            chain: Chain::default(),
            worker_threads: WORKER_THREADS,
            worker_calls_max: WORKER_CALLS_MAX,
            grace: GRACE,
            config: LoopConfig::default(),
            #[cfg(feature = "grpc")]
            grpc: None,
            #[cfg(feature = "grpc")]
            grpc_threads: 1,
            #[cfg(feature = "grpc")]
            grpc_services: Vec::new(),
            error: None,
        }
    }
}

impl ServerBuilder {
    /// Serves a service, beside those added already.
    #[allow(clippy::should_implement_trait, reason = "a builder takes a service, not a number")]
    pub fn add(mut self, service: impl Service) -> ServerBuilder {
        match Prepared::new(service) {
            Ok(service) => self.services.push(service),
            Err(error) => {
                self.error.get_or_insert(error);
            }
        }
        self
    }

    /// Listens at an address, as `HOST:PORT`; port 0 lets the system choose one.
    pub fn listen(mut self, address: impl fmt::Display) -> ServerBuilder {
        self.listen = Some(address.to_string());
        self
    }

    /// Answers gRPC clients at an address, as `HOST:PORT`: the same services, over HTTP/2. Handlers
    /// run on the Tokio runtime that the server is started in, otherwise on threads of the port's.
    ///
    /// Beyond loopback the port needs TLS, or consent to plaintext: in its configuration, or for
    /// the whole server with [`ServerBuilder::security`].
    #[cfg(feature = "grpc")]
    pub fn grpc(
        mut self,
        address: impl fmt::Display,
        config: petasos_grpc::GrpcConfig,
    ) -> ServerBuilder {
        self.grpc = Some(super::grpc::Asked { address: address.to_string(), config });
        self
    }

    /// Threads for [`ServerBuilder::grpc`], if there is no Tokio runtime; 1 unless told otherwise.
    #[cfg(feature = "grpc")]
    pub fn grpc_threads(mut self, threads: usize) -> ServerBuilder {
        self.grpc_threads = threads;
        self
    }

    /// Serves a service on the gRPC port only, as HTTP/2 brings its calls: messages are bytes. The
    /// service is named as `package.Service`, and `routes` is given all paths below that.
    ///
    /// This is for services that other libraries generate (`petasos-tonic`). Interceptors see
    /// messages and methods that are known, which these are not: a server that has both does not
    /// start.
    #[cfg(feature = "grpc")]
    pub fn grpc_service(
        mut self,
        name: impl Into<String>,
        routes: impl petasos_grpc::Routes,
    ) -> ServerBuilder {
        let service = GrpcService { name: name.into(), routes: Arc::new(routes) };
        self.grpc_services.push(service);
        self
    }

    /// Runs so many loops, each on a thread of its own; one unless told otherwise.
    pub fn loops(mut self, loops: usize) -> ServerBuilder {
        self.loops = loops.max(1);
        self
    }

    /// Says where the handlers of a method run, which is named as `pkg.Service/Method`.
    pub fn place(mut self, method: &str, placement: Placement) -> ServerBuilder {
        self.on_workers.retain(|placed| placed != method);
        if placement == Placement::Worker {
            self.on_workers.push(method.to_owned());
        }
        self
    }

    /// Has all calls go through an interceptor, within those that were added before.
    pub fn intercept(mut self, interceptor: impl Interceptor) -> ServerBuilder {
        self.chain.push(interceptor);
        self
    }

    /// Threads for [`Placement::Worker`], if there is no Tokio runtime; 4 unless told otherwise.
    pub fn worker_threads(mut self, threads: usize) -> ServerBuilder {
        self.worker_threads = threads;
        self
    }

    /// Calls of [`Placement::Worker`], streams among them, that may wait or run at once; 1024
    /// unless told otherwise.
    pub fn worker_calls_max(mut self, calls: usize) -> ServerBuilder {
        self.worker_calls_max = calls;
        self
    }

    /// Time that running calls have when a signal ends the server; 30 s unless told otherwise.
    pub fn grace(mut self, grace: Duration) -> ServerBuilder {
        self.grace = grace;
        self
    }

    /// How clients over datagrams are spoken with; on loopback only unless told otherwise.
    /// [`Security::Plaintext`] is consent for the gRPC port as well, whose TLS is its own.
    pub fn security(mut self, security: Security) -> ServerBuilder {
        self.config.security = security;
        self
    }

    /// Settings of each loop, but for where it listens.
    pub fn loop_config(mut self, config: LoopConfig) -> ServerBuilder {
        self.config = config;
        self
    }

    /// Starts the server: when this returns, calls are taken.
    ///
    /// # Errors
    /// See [`StartError`].
    pub fn start(self) -> Result<Server, StartError> {
        if let Some(error) = self.error {
            return Err(error.into());
        }
        self.check_placed()?;
        #[cfg(feature = "grpc")]
        self.check_grpc_services()?;
        let listen = self.listen.as_deref().map(find).transpose()?;
        let config = LoopConfig { listen, ..self.config };
        #[cfg(feature = "grpc")]
        let consents = matches!(config.security, Security::Plaintext);
        let node = Node::start(config.node())?;
        let workers = match self.on_workers.is_empty() {
            true => None,
            false => Some(Arc::new(Workers::start(self.worker_threads, self.worker_calls_max)?)),
        };
        let placed = Placed { workers, on_workers: self.on_workers, chain: self.chain };
        let setup = Setup { node: node.clone(), services: self.services, placed, config };
        #[cfg(feature = "grpc")]
        let port = self.grpc.map(|mut asked| {
            asked.config.plaintext |= consents;
            super::grpc::BoundPort::new(asked, self.grpc_threads)
        });
        #[cfg(feature = "grpc")]
        let port = port.transpose()?;
        #[cfg(feature = "grpc")]
        let ports = port.as_ref().map_or(0, super::grpc::BoundPort::count);
        #[cfg(not(feature = "grpc"))]
        let ports = 0;
        let (setup, ending) = (Arc::new(setup), Arc::new(Ending::new(self.loops + ports)));
        let started = start_threads(&setup, &ending, self.loops);
        let server = Server {
            node,
            loops: started.0,
            #[cfg(feature = "grpc")]
            grpc: None,
            ending,
            grace: self.grace,
        };
        // On an error the server is dropped, which ends the threads that run.
        started.1?;
        #[cfg(feature = "grpc")]
        let server = match port {
            None => server,
            Some(port) => server.with_grpc(port, &setup, self.grpc_services)?,
        };
        Ok(server)
    }

    /// Services of the gRPC port only can be reached, are not hidden by others, and are not taken
    /// for ones that interceptors guard.
    #[cfg(feature = "grpc")]
    fn check_grpc_services(&self) -> Result<(), StartError> {
        for (at, GrpcService { name, .. }) in self.grpc_services.iter().enumerate() {
            let earlier = self.grpc_services[..at].iter().map(|service| &*service.name);
            let mut others = self.services.iter().map(|service| service.info.name).chain(earlier);
            if others.any(|other| other == name) {
                return Err(StartError::GrpcServiceTwice(name.clone()));
            }
            if self.grpc.is_none() {
                return Err(StartError::NoGrpcPort(name.clone()));
            }
            if !self.chain.list().is_empty() {
                return Err(StartError::NotIntercepted(name.clone()));
            }
        }
        Ok(())
    }

    fn check_placed(&self) -> Result<(), StartError> {
        for path in &self.on_workers {
            let is_served = self.services.iter().any(|service| {
                let mut names = service.info.methods.iter().map(|method| method.name);
                names.any(|name| path.split_once('/') == Some((service.info.name, name)))
            });
            if !is_served {
                return Err(StartError::NoSuchMethod(path.clone()));
            }
        }
        Ok(())
    }
}

impl fmt::Debug for ServerBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.services.iter().map(|service| service.info.name).collect();
        let mut debug = f.debug_struct("ServerBuilder");
        debug.field("services", &names).field("listen", &self.listen).finish_non_exhaustive()
    }
}

#[cfg(feature = "grpc")]
impl Server {
    /// Also serves a port.
    fn with_grpc(
        mut self,
        port: super::grpc::BoundPort,
        setup: &Setup,
        others: Vec<GrpcService>,
    ) -> Result<Server, StartError> {
        let mut router = crate::handler::grpc::Router::new(&setup.services, &setup.placed);
        for GrpcService { name, routes } in others {
            router.add(name, routes);
        }
        self.grpc = Some(port.serve(router, &self.ending)?);
        Ok(self)
    }
}

/// What each of the threads needs.
struct Setup {
    node: Node,
    services: Vec<Prepared>,
    placed: Placed,
    config: LoopConfig,
}

type Started = Result<Arc<Shared>, StartError>;

/// Starts the threads and waits until all take calls. Those that do, and what went wrong.
fn start_threads(
    setup: &Arc<Setup>,
    ending: &Arc<Ending>,
    count: usize,
) -> (Vec<Arc<Shared>>, Result<(), StartError>) {
    let (tell, told) = mpsc::channel();
    let mut outcome = Ok(());
    for number in 0..count {
        let (setup, ending, tell) = (setup.clone(), ending.clone(), tell.clone());
        #[cfg(feature = "tokio")]
        let runtime = tokio::runtime::Handle::try_current().ok();
        let run = move || {
            #[cfg(feature = "tokio")]
            let _entered = runtime.as_ref().map(tokio::runtime::Handle::enter);
            live(setup, &ending, tell);
        };
        let thread = std::thread::Builder::new().name(format!("petasos-{number}"));
        if let Err(error) = thread.spawn(run) {
            outcome = Err(error.into());
            break;
        }
    }
    drop(tell);
    let mut loops = Vec::new();
    // Each thread drops its sender once it has said how it begins, or panics.
    for started in told {
        match started {
            Ok(runtime) => loops.push(runtime),
            Err(error) => outcome = outcome.and(Err(error)),
        }
    }
    if outcome.is_ok() && loops.len() < count {
        outcome = Err(LoopError::Panicked.into());
    }
    (loops, outcome)
}

/// A thread's life.
fn live(setup: Arc<Setup>, ending: &Ending, tell: mpsc::Sender<Started>) {
    let mut guard = ThreadGuard { ending, calls: None };
    // Dropped before the guard: who is told of the end finds the node free.
    let setup = setup;
    let made = Loop::of_node(&setup.config, &setup.node, &setup.services, &setup.placed);
    let runtime = match made {
        Ok(runtime) => runtime,
        // Whoever starts the server waits for this.
        Err(error) => return drop(tell.send(Err(error))),
    };
    let _ = tell.send(Ok(runtime.shared().clone()));
    drop(tell);
    let grace = runtime.block_on(runtime.stopped());
    guard.calls = Some(runtime.end(grace));
}
