//! Building servers.

use core::time::Duration;
use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, mpsc};

use petasos_endpoint::{Node, ServeConfig};
use petasos_rpc::intercept::{Chain, Interceptor};
use petasos_rpc::settings::Routers;
use petasos_runtime::shared::{Command, Shared};
use petasos_runtime::workers::Workers;
use petasos_runtime::{LoopConfig, LoopError, Security, ServeError, ServiceChoice, ServiceConfig};

use super::Server;
use super::ended::{Ending, ThreadGuard};
#[cfg(feature = "grpc")]
use super::grpc::GrpcService;
use crate::event_loop::Loop;
use crate::handler::{Placed, Prepared, Service};
use crate::joining::{Join, Named, Names, StartError, find};

/// The default grace period for handlers when a signal ends the server.
const GRACE: Duration = Duration::from_secs(30);
/// The default for the most calls that wait for workers or run there.
const WORKER_CALLS_MAX: usize = 1024;
const WORKER_THREADS: usize = 4;

/// Where the handlers of a method run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Placement {
    /// In the loop that received the request. For handlers that never block, and compute for less
    /// than a few microseconds between awaits.
    #[default]
    Dispatch,
    /// On the Tokio runtime in which the server was started, otherwise on threads of the server:
    /// for handlers that block or compute. A handler that waits, for example for a message of its
    /// stream, occupies no thread meanwhile. Calls above [`ServerBuilder::worker_calls_max`] fail
    /// with `RESOURCE_EXHAUSTED`.
    Worker,
}

/// Builds a [`Server`].
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
    join: Vec<Join>,
    config: LoopConfig,
    #[cfg(feature = "grpc")]
    grpc: Option<super::grpc::Asked>,
    #[cfg(feature = "grpc")]
    grpc_threads: usize,
    #[cfg(feature = "grpc")]
    grpc_services: Vec<GrpcService>,
    /// The first error that a setter found.
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
            join: Vec::new(),
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
    /// Adds a service, in addition to those that were added before.
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

    /// Listens at an address in the form `HOST:PORT`. With port 0, the system chooses a port.
    pub fn listen(mut self, address: impl fmt::Display) -> ServerBuilder {
        self.listen = Some(address.to_string());
        self
    }

    /// Serves the same services to gRPC clients over HTTP/2, at an address in the form `HOST:PORT`.
    /// Handlers run on the Tokio runtime in which the server is started, otherwise on threads of
    /// the gRPC port.
    ///
    /// Beyond loopback, the port needs TLS. Plaintext must be allowed explicitly, in this
    /// configuration or for the whole server with [`ServerBuilder::security`].
    #[cfg(feature = "grpc")]
    pub fn grpc(
        mut self,
        address: impl fmt::Display,
        config: petasos_grpc::GrpcConfig,
    ) -> ServerBuilder {
        self.grpc = Some(super::grpc::Asked { address: address.to_string(), config });
        self
    }

    /// Sets the threads for [`ServerBuilder::grpc`] without a Tokio runtime; the default is 1.
    #[cfg(feature = "grpc")]
    pub fn grpc_threads(mut self, threads: usize) -> ServerBuilder {
        self.grpc_threads = threads;
        self
    }

    /// Serves a service on the gRPC port only. Its messages are bytes, as they arrive over HTTP/2.
    /// The service's name has the form `package.Service`, and `routes` gets all paths below that.
    ///
    /// This is for services that other libraries generate (`petasos-tonic`). Interceptors see only
    /// known methods and messages, and therefore not these: a server with such a service and an
    /// interceptor does not start.
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

    /// Joins a group of workers (`router://HOST:PORT[,HOST:PORT…]`, or [`Join`] with settings): its
    /// clients' calls come to the handlers as well. The server needs to
    /// [listen](ServerBuilder::listen). It keeps asking routers that cannot be reached or refuse,
    /// whose reasons are logged. A router that has a table of services refuses a server without
    /// these, or with an incompatible version of one.
    pub fn join(mut self, group: impl Into<Join>) -> ServerBuilder {
        self.join.push(group.into());
        self
    }

    /// Sets the number of loops, each on its own thread; the default is 1.
    pub fn loops(mut self, loops: usize) -> ServerBuilder {
        self.loops = loops.max(1);
        self
    }

    /// Sets where the handlers of a method run. The method's name has the form
    /// `pkg.Service/Method`.
    pub fn place(mut self, method: &str, placement: Placement) -> ServerBuilder {
        self.on_workers.retain(|placed| placed != method);
        if placement == Placement::Worker {
            self.on_workers.push(method.to_owned());
        }
        self
    }

    /// Adds an interceptor for all calls, inside those that were added before.
    pub fn intercept(mut self, interceptor: impl Interceptor) -> ServerBuilder {
        self.chain.push(interceptor);
        self
    }

    /// Sets the threads for [`Placement::Worker`] without a Tokio runtime; the default is 4.
    pub fn worker_threads(mut self, threads: usize) -> ServerBuilder {
        self.worker_threads = threads;
        self
    }

    /// Sets the most calls of [`Placement::Worker`], including streams, that may wait or run at
    /// once; the default is 1024.
    pub fn worker_calls_max(mut self, calls: usize) -> ServerBuilder {
        self.worker_calls_max = calls;
        self
    }

    /// Sets the grace period for running calls when a signal ends the server; the default is 30 s.
    pub fn grace(mut self, grace: Duration) -> ServerBuilder {
        self.grace = grace;
        self
    }

    /// Sets how clients are secured over datagrams. By default only clients on loopback are served.
    /// [`Security::Plaintext`] also allows plaintext on the gRPC port, whose TLS is configured
    /// separately.
    pub fn security(mut self, security: Security) -> ServerBuilder {
        self.config.security = security;
        self
    }

    /// Sets whether the server serves through the managed service of this host. The default is what
    /// the environment says (`PETASOS_SERVICE=unix:PATH`). The address of [`ServerBuilder::listen`]
    /// is then the name by which others call the server there, and the server has one loop. The
    /// gRPC port is the server's own in any case.
    pub fn service(mut self, service: ServiceChoice) -> ServerBuilder {
        self.config.service = service;
        self
    }

    /// Sets the configuration of each loop, except for its address.
    pub fn loop_config(mut self, config: LoopConfig) -> ServerBuilder {
        self.config = config;
        self
    }

    /// Starts the server. When this returns, the server accepts calls.
    ///
    /// # Errors
    /// See [`StartError`].
    pub fn start(mut self) -> Result<Server, StartError> {
        if let Some(error) = self.error {
            return Err(error.into());
        }
        self.check_placed()?;
        #[cfg(feature = "grpc")]
        self.check_grpc_services()?;
        let listen = self.listen.as_deref().map(find).transpose()?;
        let routers = self.join.iter_mut().map(Join::look_up).collect::<Result<Vec<_>, _>>()?;
        let config = LoopConfig { listen, ..self.config };
        let service = config.service.resolve().map_err(LoopError::from)?;
        if !routers.is_empty() && (service.is_some() || config.listen.is_none()) {
            return Err(StartError::JoinWithoutListening);
        }
        // The service has one lane for the name under which the server serves.
        let loops = if service.is_some() { 1 } else { self.loops };
        #[cfg(feature = "grpc")]
        let consents = matches!(config.security, Security::Plaintext);
        let node = match &service {
            // The service listens.
            Some(_) => Node::start(LoopConfig { listen: None, ..config.clone() }.node())?,
            None => Node::start(config.node())?,
        };
        let workers = match self.on_workers.is_empty() {
            true => None,
            false => Some(Arc::new(Workers::start(self.worker_threads, self.worker_calls_max)?)),
        };
        let placed = Placed { workers, on_workers: self.on_workers, chain: self.chain };
        let services = self.services;
        let groups = self.join.iter().zip(&routers);
        let groups = groups.map(|(join, (_, found))| join.config(found.clone(), &node)).collect();
        let setup = Setup { node: node.clone(), service, services, placed, groups, config };
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
        let (setup, ending) = (Arc::new(setup), Arc::new(Ending::new(loops + ports)));
        let started = start_threads(&setup, &ending, loops);
        let server = Server {
            node,
            address: started.0.address,
            loops: started.0.loops,
            #[cfg(feature = "grpc")]
            grpc: None,
            ending,
            grace: self.grace,
            names: None,
        };
        // On an error the server is dropped, which ends the running threads.
        started.1?;
        let server = server.with_names(routers)?;
        #[cfg(feature = "grpc")]
        let server = match port {
            None => server,
            Some(port) => server.with_grpc(port, &setup, self.grpc_services)?,
        };
        Ok(server)
    }

    /// Checks the services that only the gRPC port serves: there is a port, no other service has
    /// the same name, and no interceptors are set, which would not see their calls.
    #[cfg(feature = "grpc")]
    fn check_grpc_services(&self) -> Result<(), StartError> {
        for (at, GrpcService { name, .. }) in self.grpc_services.iter().enumerate() {
            let earlier = self.grpc_services[..at].iter().map(|service| &*service.name);
            let mut others = self.services.iter().map(|service| service.info.name()).chain(earlier);
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
                let mut names = service.info.methods().map(|method| method.name);
                names.any(|name| path.split_once('/') == Some((service.info.name(), name)))
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
        let names: Vec<&str> = self.services.iter().map(|service| service.info.name()).collect();
        let mut debug = f.debug_struct("ServerBuilder");
        debug.field("services", &names).field("listen", &self.listen).finish_non_exhaustive()
    }
}

#[cfg(feature = "grpc")]
impl Server {
    /// Adds the gRPC port.
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

impl Server {
    /// Has routers found, and their names looked up again, from now on.
    fn with_names(mut self, routers: Vec<(Routers, Vec<SocketAddr>)>) -> std::io::Result<Server> {
        let named = |(group, (routers, mut found)): (usize, (Routers, Vec<SocketAddr>))| {
            found.sort_unstable();
            Named { group, routers, found }
        };
        let loops = self.loops.clone();
        let tell = move |group, routers: Vec<SocketAddr>| {
            for runtime in &loops {
                runtime.send(Command::Rename { group, routers: routers.clone() });
            }
        };
        self.names = Names::start(routers.into_iter().enumerate().map(named).collect(), tell)?;
        Ok(self)
    }
}

/// The data that each thread needs.
struct Setup {
    node: Node,
    service: Option<ServiceConfig>,
    services: Vec<Prepared>,
    placed: Placed,
    groups: Vec<ServeConfig>,
    config: LoopConfig,
}

type Started = Result<(Arc<Shared>, Option<SocketAddr>), StartError>;

/// The threads that run.
#[derive(Default)]
struct Threads {
    loops: Vec<Arc<Shared>>,
    /// Where the managed service has them called.
    address: Option<SocketAddr>,
}

/// Starts the threads, and waits until all accept calls. Returns the threads that run, and the
/// first error.
fn start_threads(
    setup: &Arc<Setup>,
    ending: &Arc<Ending>,
    count: usize,
) -> (Threads, Result<(), StartError>) {
    let (tell, starts) = mpsc::channel();
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
    let mut threads = Threads::default();
    // Each thread drops its sender after it has reported its start, or when it panics.
    for started in starts {
        match started {
            Ok((runtime, address)) => {
                threads.loops.push(runtime);
                threads.address = threads.address.or(address);
            }
            Err(error) => outcome = outcome.and(Err(error)),
        }
    }
    if outcome.is_ok() && threads.loops.len() < count {
        outcome = Err(LoopError::Panicked.into());
    }
    (threads, outcome)
}

/// The main function of a thread.
fn live(setup: Arc<Setup>, ending: &Ending, tell: mpsc::Sender<Started>) {
    let mut guard = ThreadGuard { ending, calls: None };
    // Dropped before the guard, so that the node is free when the end is reported.
    let setup = setup;
    let Setup { node, service, services, placed, groups, config } = &*setup;
    let made = match service {
        Some(service) => Loop::of_service(config, service.clone(), services, placed),
        None => Loop::of_node(config, node, services, placed).and_then(|made| {
            groups.iter().try_for_each(|group| made.join_as(group.clone()))?;
            Ok(made)
        }),
    };
    let runtime = match made {
        Ok(runtime) => runtime,
        // The thread that starts the server waits for this.
        Err(error) => return drop(tell.send(Err(error))),
    };
    let _ = tell.send(Ok((runtime.shared().clone(), runtime.local_address())));
    drop(tell);
    let grace = runtime.block_on(runtime.stopped());
    guard.calls = Some(runtime.end(grace));
}
