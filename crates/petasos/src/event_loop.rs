//! Event loops in the public API.

use core::cell::RefCell;
use core::fmt;
use core::future::Future;
use core::time::Duration;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use petasos_base::Clock;
use petasos_call::balance::Balance;
use petasos_endpoint::{AtRouter, Backend, EndpointConfig, Node, ServeConfig};
use petasos_rpc::descriptors::ServiceRef;
use petasos_rpc::intercept::{Chain, Interceptor};
use petasos_rpc::settings::{ChannelInfo, Servers};
use petasos_runtime::shared::{Command, Shared};
use petasos_runtime::{
    JoinHandle, LoopConfig, LoopError, Runtime, ServeError, ServiceConfig, SlowTurns,
};

use crate::channel::Channel;
use crate::handler::{Placed, Prepared, Service};
use crate::joining::{Join, Names, StartError};

/// A thread's event loop. It belongs to the thread that made it, and so do the futures that it
/// polls. A thread has at most one at a time.
///
/// The loop runs its turns in [`Loop::block_on`], or in a task of another executor
/// ([`Loop::drive`]).
pub struct Loop {
    runtime: Rc<Runtime>,
    /// Interceptors for services that are added from now on.
    chain: RefCell<Chain>,
    /// The groups that were joined by [`Loop::join`]: what looks the names of their routers up.
    joined: RefCell<Vec<Option<Names>>>,
}

impl Loop {
    pub(crate) fn with(runtime: Runtime) -> Loop {
        let joined = RefCell::default();
        Loop { runtime: Rc::new(runtime), chain: RefCell::default(), joined }
    }

    /// Makes a loop on this thread. It uses UDP and, for processes of the same host, shared memory,
    /// or TCP ([`LoopConfig::transport`]); or the managed service of this host, if
    /// [`LoopConfig::service`] says so.
    ///
    /// # Errors
    /// See [`LoopError`].
    pub fn new(config: LoopConfig) -> Result<Loop, LoopError> {
        Runtime::start(config).map(Loop::with)
    }

    /// Makes one of a node's loops, which serves from its first session on.
    pub(crate) fn of_node<E: From<LoopError> + From<ServeError>>(
        config: &LoopConfig,
        node: &Node,
        services: &[Prepared],
        placed: &Placed,
    ) -> Result<Loop, E> {
        let runtime = Runtime::new(config.endpoint.clone(), config.open()?, Clock::system())?;
        for service in services {
            service.serve_in(&runtime, placed)?;
        }
        runtime.attach(node)?;
        Ok(Loop::with(runtime))
    }

    /// Joins a group of workers, for a server with several loops.
    pub(crate) fn join_as(&self, config: ServeConfig) -> Result<(), LoopError> {
        self.runtime.join(config)
    }

    /// Makes a loop that serves through the managed service of this host, which lets others call it
    /// when this returns.
    pub(crate) fn of_service<E: From<LoopError> + From<ServeError>>(
        config: &LoopConfig,
        service: ServiceConfig,
        services: &[Prepared],
        placed: &Placed,
    ) -> Result<Loop, E> {
        let runtime = Runtime::managed(config.endpoint.clone(), config.listen, service)?;
        for service in services {
            service.serve_in(&runtime, placed)?;
        }
        runtime.block_on(runtime.served())?;
        Ok(Loop::with(runtime))
    }

    /// Makes a loop over any packet I/O, for measurements and simulation. It has no node, and
    /// therefore no sessions to other processes. See [`Loop::channel_to_itself`].
    ///
    /// # Errors
    /// See [`LoopError`].
    pub fn over(
        config: EndpointConfig,
        io: impl Into<Backend>,
        clock: Clock,
    ) -> Result<Loop, LoopError> {
        Runtime::new(config, io, clock).map(Loop::with)
    }

    /// The address where other processes reach this one; `None` if the loop does not listen.
    pub fn local_address(&self) -> Option<SocketAddr> {
        self.runtime.local_address()
    }

    /// Waits until the managed service lets others call this loop; at once if there is none.
    ///
    /// # Errors
    /// [`LoopError::NotServed`].
    pub async fn served(&self) -> Result<(), LoopError> {
        self.runtime.served().await
    }

    /// Serves all methods of a service, in addition to those served already. The loop may have
    /// sessions by then: their callers can bind the service from now on.
    ///
    /// # Errors
    /// See [`ServeError`].
    pub fn serve(&self, service: impl Service) -> Result<(), ServeError> {
        let placed = Placed { chain: self.chain.borrow().clone(), ..Placed::default() };
        Prepared::new(service)?.serve_in(&self.runtime, &placed)
    }

    /// Accepts sessions from now on, even if nothing is served yet: for a program whose services
    /// come later. Without this, sessions are refused until there is a service.
    ///
    /// # Errors
    /// [`ServeError::Turning`].
    pub fn accept_sessions(&self) -> Result<(), ServeError> {
        self.runtime.accept_sessions()
    }

    /// Serves a service, by its full name, no more. Calls of it that come from now on end with
    /// `UNAVAILABLE` and have not run; what runs goes on. A service of the same name, of this
    /// schema or another, may be served later: callers learn of it at their next call. Returns
    /// whether the service was served.
    ///
    /// Numbers of methods are not given again as long as the loop lives, so all services that it
    /// ever serves have at most 65,534 methods together.
    ///
    /// # Errors
    /// [`ServeError::Turning`].
    pub fn withdraw(&self, service: &str) -> Result<bool, ServeError> {
        self.runtime.withdraw(service)
    }

    /// Pauses a service, by its full name: its schema is freed, and callers that have not bound it
    /// get `UNAVAILABLE`, until [`Loop::resume`]. Others still reach its handlers. Unlike
    /// [`Loop::withdraw`], this takes no new method numbers, however often it happens: for services
    /// whose server comes and goes. Returns whether the service was served until now. Of a loop
    /// behind the managed service of its host, the service does not learn of it.
    ///
    /// # Errors
    /// [`ServeError::Turning`].
    pub fn pause(&self, service: &str) -> Result<bool, ServeError> {
        self.runtime.pause(service)
    }

    /// Lets a service be bound again that was [paused](Loop::pause). Returns false if none of this
    /// name and hash is paused.
    ///
    /// # Errors
    /// [`ServeError::Turning`].
    pub fn resume(&self, service: &ServiceRef) -> Result<bool, ServeError> {
        self.runtime.resume(service)
    }

    /// Joins a group of workers (`router://HOST:PORT[,HOST:PORT…]`, or [`Join`] with settings) with
    /// the services that this loop serves by now: its clients' calls come to their handlers as
    /// well. The loop stays a member until it is dropped. It needs to listen
    /// ([`LoopConfig::listen`]), so that routers can dial it. Otherwise as
    /// [`ServerBuilder::join`](crate::ServerBuilder::join).
    ///
    /// # Errors
    /// The group is not one, its routers' names cannot be looked up, or the loop does not listen.
    ///
    /// # Panics
    /// While the loop turns.
    pub fn join(&self, group: impl Into<Join>) -> Result<(), StartError> {
        let mut join = group.into();
        let (routers, found) = join.look_up()?;
        let Some(node) = self.runtime.node() else { return Err(StartError::JoinWithoutListening) };
        if node.local_address().is_none() {
            return Err(StartError::JoinWithoutListening);
        }
        self.runtime.join(join.config(found.clone(), node))?;
        let shared = self.shared().clone();
        let tell = move |group, routers| shared.send(Command::Rename { group, routers });
        let mut joined = self.joined.borrow_mut();
        let names = Names::of_group(joined.len(), routers, found, tell)?;
        joined.push(names);
        Ok(())
    }

    /// What the loop has at the routers of the groups that it joins: an entry for each router.
    ///
    /// # Panics
    /// While the loop turns.
    pub fn routers(&self) -> Vec<AtRouter> {
        self.runtime.routers()
    }

    /// Adds an interceptor, inside those that were added before. It applies to services that are
    /// served from now on.
    pub fn intercept(&self, interceptor: impl Interceptor) {
        self.chain.borrow_mut().push(interceptor);
    }

    /// Makes a channel in this loop to the process whose node is at `server`. The channel opens its
    /// first session when a call needs it. [`Channel::builder`] offers more settings.
    pub fn channel(&self, server: SocketAddr) -> Channel {
        let info = ChannelInfo::new(Servers::Addresses(vec![server]), Balance::default(), None);
        Channel::over_datagrams(self.runtime.add_channel(info))
    }

    /// Makes a channel to the services of this loop itself, through its packet I/O.
    ///
    /// # Panics
    /// In a handler or a spawned future, or if the packet I/O cannot send to itself.
    pub fn channel_to_itself(&self) -> Channel {
        let server = self.runtime.endpoint_address();
        let info = ChannelInfo::new(Servers::Addresses(vec![server]), Balance::default(), None);
        let shared = self.runtime.add_channel(info);
        self.runtime.connect_to_itself(&shared);
        Channel::over_datagrams(shared)
    }

    /// Spawns a future, which the loop polls in its turns. Its wakers work on any thread. Dropping
    /// the loop drops the future.
    pub fn spawn<F: Future + 'static>(&self, future: F) -> JoinHandle<F::Output> {
        self.runtime.spawn(future)
    }

    /// Runs the loop until `future` is ready. The future may borrow, and is polled between turns.
    /// To have a future polled within turns, spawn it.
    ///
    /// # Panics
    /// If the loop is running already: within `block_on`, or in a task besides that of
    /// [`Loop::drive`].
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.runtime.block_on(future)
    }

    /// Runs `turns` turns of the loop without waiting: for programs that drive it by hand, on a
    /// virtual clock.
    pub fn run_turns(&self, turns: u32) {
        self.runtime.run_turns(turns)
    }

    /// A descriptor that becomes readable when the loop has something to do: for a program that
    /// waits for other descriptors as well. Each time before it waits, it calls
    /// [`Loop::turn_ready`].
    ///
    /// # Errors
    /// The system has no descriptor left, or the packet I/O cannot be waited for.
    pub fn descriptor(&self) -> std::io::Result<std::os::fd::OwnedFd> {
        self.runtime.descriptor()
    }

    /// Turns the loop until nothing is left to do, but at most `turns_max` times. Returns how long
    /// it may rest unless its [descriptor](Loop::descriptor) becomes readable; `None` without
    /// limit.
    pub fn turn_ready(&self, turns_max: u32) -> Option<Duration> {
        self.runtime.turn_ready(turns_max)
    }

    /// The loop's runtime: for simulations, which run several loops by hand.
    #[doc(hidden)]
    pub fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    /// The number of handlers that panicked, and of messages that broke a rule for calls (R13).
    pub fn failures(&self) -> (u64, u64) {
        self.runtime.failures()
    }

    /// The turns in which tasks took more than a millisecond.
    pub fn slow_turns(&self) -> SlowTurns {
        self.runtime.slow_turns()
    }

    /// A future that runs the loop as long as it lives: for a task of a current-thread Tokio
    /// runtime with I/O and time enabled (`tokio::task::spawn_local(event_loop.drive())`). It waits
    /// for the loop's file descriptor, and completes only with an error.
    ///
    /// # Errors
    /// The future returns the system's error if the system provides no descriptor or the runtime
    /// does not accept it.
    #[cfg(feature = "tokio")]
    pub fn drive(&self) -> impl Future<Output = std::io::Error> + use<> {
        Runtime::drive(self.runtime.clone())
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        self.runtime.shared()
    }

    /// Waits until the loop is asked to end, and returns the grace period for handlers.
    pub(crate) fn stopped(&self) -> impl Future<Output = Duration> + use<> {
        self.runtime.stopped()
    }

    /// Ends the loop; see [`Runtime::end`].
    pub(crate) fn end(&self, grace: Duration) -> usize {
        self.runtime.end(grace)
    }
}

impl fmt::Debug for Loop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Loop").field("address", &self.local_address()).finish_non_exhaustive()
    }
}
