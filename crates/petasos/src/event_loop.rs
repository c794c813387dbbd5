//! Loops, as programs have them.

use core::cell::RefCell;
use core::fmt;
use core::future::Future;
use core::time::Duration;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use petasos_base::Clock;
use petasos_call::balance::Balance;
use petasos_endpoint::{Backend, EndpointConfig, Node};
use petasos_rpc::intercept::{Chain, Interceptor};
use petasos_rpc::settings::{ChannelInfo, Servers};
use petasos_runtime::shared::Shared;
use petasos_runtime::{JoinHandle, LoopConfig, LoopError, Runtime, ServeError, SlowTurns};

use crate::channel::Channel;
use crate::handler::{Placed, Prepared, Service};

/// A thread's event loop. It belongs to the thread that made it, and so do the futures that it
/// polls; there is one per thread at a time.
///
/// It turns while [`Loop::block_on`] runs, or by a task of another executor ([`Loop::drive`]).
pub struct Loop {
    runtime: Rc<Runtime>,
    /// Around services that are served from now on.
    chain: RefCell<Chain>,
}

impl Loop {
    fn with(runtime: Runtime) -> Loop {
        Loop { runtime: Rc::new(runtime), chain: RefCell::default() }
    }

    /// A loop on this thread, over UDP and, to processes of the same host, shared memory.
    ///
    /// # Errors
    /// See [`LoopError`].
    pub fn new(config: LoopConfig) -> Result<Loop, LoopError> {
        Runtime::start(config).map(Loop::with)
    }

    /// A loop that serves from its first session on, as one of those of a node.
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

    /// A loop over any packet I/O, without a node and so without sessions to other processes: for
    /// measurements and simulation. See [`Loop::channel_to_itself`].
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

    /// Where other processes reach this one; `None` if the loop does not listen.
    pub fn local_address(&self) -> Option<SocketAddr> {
        self.runtime.local_address()
    }

    /// Serves all methods of a service, beside those served already.
    ///
    /// # Errors
    /// See [`ServeError`].
    pub fn serve(&self, service: impl Service) -> Result<(), ServeError> {
        let placed = Placed { chain: self.chain.borrow().clone(), ..Placed::default() };
        Prepared::new(service)?.serve_in(&self.runtime, &placed)
    }

    /// Has calls go through an interceptor, within those that were added before: calls of services
    /// that are served from now on.
    pub fn intercept(&self, interceptor: impl Interceptor) {
        self.chain.borrow_mut().push(interceptor);
    }

    /// A channel to the process whose node is at `server`, in this loop. Its first session is
    /// opened when a call needs it. [`Channel::builder`] makes others.
    pub fn channel(&self, server: SocketAddr) -> Channel {
        let info = ChannelInfo::new(Servers::Addresses(vec![server]), Balance::default(), None);
        Channel::over_datagrams(self.runtime.add_channel(info))
    }

    /// A channel to the services of this very loop, through its packet I/O.
    ///
    /// # Panics
    /// In a handler or a spawned future, and if the packet I/O does not reach itself.
    pub fn channel_to_itself(&self) -> Channel {
        let server = self.runtime.endpoint_address();
        let info = ChannelInfo::new(Servers::Addresses(vec![server]), Balance::default(), None);
        let shared = self.runtime.add_channel(info);
        self.runtime.connect_to_itself(&shared);
        Channel::over_datagrams(shared)
    }

    /// Runs a future on this loop whenever it turns, on whatever thread its wakers are used. If
    /// the loop is dropped, so is the future.
    pub fn spawn<F: Future + 'static>(&self, future: F) -> JoinHandle<F::Output> {
        self.runtime.spawn(future)
    }

    /// Turns the loop until `future` is ready. The future may borrow, and is polled between turns;
    /// what should be polled within them is spawned.
    ///
    /// # Panics
    /// If the loop turns already: within `block_on`, or in a task beside [`Loop::drive`]'s.
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.runtime.block_on(future)
    }

    /// Turns the loop `turns` times without waiting: for those who drive it by hand, on a virtual
    /// clock.
    pub fn run_turns(&self, turns: u32) {
        self.runtime.run_turns(turns)
    }

    /// What the loop runs on: for simulation, which turns several loops by hand.
    #[doc(hidden)]
    pub fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    /// Handlers that have panicked, and messages that broke a rule of the calls' (R13).
    pub fn failures(&self) -> (u64, u64) {
        self.runtime.failures()
    }

    /// Turns in which tasks took more than a millisecond.
    pub fn slow_turns(&self) -> SlowTurns {
        self.runtime.slow_turns()
    }

    /// A future that turns the loop for as long as it lives: for a task of a current-thread Tokio
    /// runtime with I/O and time enabled (`tokio::task::spawn_local(event_loop.drive())`). It waits
    /// for the loop's descriptor and ends only with an error.
    ///
    /// # Errors
    /// The future's: the system's, if it gives no descriptor or the runtime does not take it.
    #[cfg(feature = "tokio")]
    pub fn drive(&self) -> impl Future<Output = std::io::Error> + use<> {
        Runtime::drive(self.runtime.clone())
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        self.runtime.shared()
    }

    /// Waits until somebody asks the loop to end; gives the time that handlers have for it.
    pub(crate) fn stopped(&self) -> impl Future<Output = Duration> + use<> {
        self.runtime.stopped()
    }

    /// Ends; see [`Runtime::end`].
    pub(crate) fn end(&self, grace: Duration) -> usize {
        self.runtime.end(grace)
    }
}

impl fmt::Debug for Loop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Loop").field("address", &self.local_address()).finish_non_exhaustive()
    }
}
