//! Loops: a thread's endpoint, its timers and its tasks.

mod agree;
pub(crate) mod away;
pub(crate) mod calls;
pub(crate) mod channels;
mod config;
#[cfg(feature = "tokio")]
mod drive;
mod ending;
mod hedges;
pub(crate) mod hub;
pub(crate) mod local;
mod registry;
pub(crate) mod shared;
pub(crate) mod slow;
pub(crate) mod streams;
mod tasks;
pub(crate) mod thread;
pub(crate) mod timers;
pub(crate) mod tries;
mod turn;
mod watches;

use core::cell::RefCell;
use core::fmt;
use core::future::Future;
use core::pin::pin;
use core::task::{Context as TaskContext, Poll, Waker};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use petasos_base::{Clock, Time};
use petasos_call::balance::Balance;
use petasos_endpoint::{Backend, Endpoint, EndpointConfig, Node};

use crate::channel::{Channel, ChannelInfo, Servers, Transport};
use crate::intercept::{Chain, Interceptor};
use crate::rt::Service;
use crate::serve::{Placed, Prepared, Serving};
use crate::server::StartError;
use crate::untyped::is_untyped;
pub use config::{LoopConfig, LoopError, Security, ServeError};
use hub::Hub;
use local::{Local, Task};
pub(crate) use registry::{post, shared_of};
use shared::{Shared, TaskWaker};
use slow::SlowCounts;
pub use slow::{SlowMethod, SlowTurns};
pub use tasks::JoinHandle;

/// Bind's method number (R1).
const BIND: u16 = 0;

/// A thread's event loop. It belongs to the thread that made it, and so do the futures that it
/// polls; there is one per thread at a time.
///
/// It turns while [`Loop::block_on`] runs, or by a task of another executor ([`Loop::drive`]).
pub struct Loop {
    home: Rc<Home>,
}

/// What a loop and its drivers share.
struct Home {
    endpoint: RefCell<Endpoint<Hub>>,
    local: &'static Local,
    node: Option<Node>,
    /// Around services that are served from now on.
    chain: RefCell<Chain>,
}

impl Loop {
    /// A loop on this thread, over UDP and, to processes of the same host, shared memory.
    ///
    /// # Errors
    /// See [`LoopError`].
    pub fn new(config: LoopConfig) -> Result<Loop, LoopError> {
        let io = config.open()?;
        let node = Node::start(config.node())?;
        let mut home = Home::new(config.endpoint, io, Clock::system())?;
        home.attach(&node)?;
        home.node = Some(node);
        Ok(Loop { home: Rc::new(home) })
    }

    /// A loop that serves from its first session on, as one of those of a node.
    pub(crate) fn of_node(
        config: &LoopConfig,
        node: &Node,
        services: &[Prepared],
        placed: &Placed,
    ) -> Result<Loop, StartError> {
        let home = Home::new(config.endpoint.clone(), config.open()?, Clock::system())?;
        for service in services {
            home.serve(service, placed)?;
        }
        home.attach(node)?;
        Ok(Loop { home: Rc::new(home) })
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
        Ok(Loop { home: Rc::new(Home::new(config, io, clock)?) })
    }

    /// Where other processes reach this one; `None` if the loop does not listen.
    pub fn local_address(&self) -> Option<SocketAddr> {
        self.home.node.as_ref().and_then(Node::local_address)
    }

    /// Serves all methods of a service, beside those served already.
    ///
    /// # Errors
    /// See [`ServeError`].
    pub fn serve(&self, service: impl Service) -> Result<(), ServeError> {
        let placed = Placed { chain: self.home.chain.borrow().clone(), ..Placed::default() };
        self.home.serve(&Prepared::new(service)?, &placed)
    }

    /// Has calls go through an interceptor, within those that were added before: calls of services
    /// that are served from now on.
    pub fn intercept(&self, interceptor: impl Interceptor) {
        self.home.chain.borrow_mut().push(interceptor);
    }

    /// A channel to the process whose node is at `server`, in this loop. Its first session is
    /// opened when a call needs it. [`Channel::builder`] makes others.
    pub fn channel(&self, server: SocketAddr) -> Channel {
        let shared = &self.home.local.shared;
        let number = shared.take_channel_number();
        let info = ChannelInfo::new(Servers::Addresses(vec![server]), Balance::default(), None);
        let local = self.home.local;
        local.channels.borrow_mut().add(number, info.clone(), local.now());
        Channel::over_datagrams(shared.clone(), number, info, None)
    }

    /// A channel to the services of this very loop, through its packet I/O.
    ///
    /// # Panics
    /// In a handler or a spawned future, and if the packet I/O does not reach itself.
    pub fn channel_to_itself(&self) -> Channel {
        let endpoint = &mut *self.home.endpoint.borrow_mut();
        let address = endpoint.local_address();
        let session = channels::open_to_itself(endpoint);
        let channel = self.channel(address);
        #[allow(irrefutable_let_patterns, reason = "not without gRPC")]
        let Transport::Datagrams(shared) = &channel.transport else {
            unreachable!("a loop's own channel is over datagrams")
        };
        let mut channels = self.home.local.channels.borrow_mut();
        channels.adopt(endpoint.context(), shared.channel, &address, session);
        channel
    }

    /// Runs a future on this loop whenever it turns, on whatever thread its wakers are used. If
    /// the loop is dropped, so is the future.
    pub fn spawn<F: Future + 'static>(&self, future: F) -> JoinHandle<F::Output> {
        let (task, handle) = tasks::joinable(future);
        self.home.local.spawn(task);
        handle
    }

    /// Turns the loop until `future` is ready. The future may borrow, and is polled between turns;
    /// what should be polled within them is spawned.
    ///
    /// # Panics
    /// If the loop turns already: within `block_on`, or in a task beside [`Loop::drive`]'s.
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        let local = self.home.local;
        let alarm = TaskWaker::new(&local.shared, Task::MAIN);
        let waker = Waker::from(alarm.clone());
        let mut future = pin!(future);
        local.main_woken.set(true);
        loop {
            if local.main_woken.replace(false) {
                alarm.polled();
                let mut context = TaskContext::from_waker(&waker);
                let poll = || future.as_mut().poll(&mut context);
                let polled = local.polling(Task::MAIN, &waker, Time::NEVER, poll);
                local.forget_polling();
                if let Poll::Ready(output) = polled {
                    return output;
                }
            }
            self.home.turn_until(|local| {
                local.main_woken.get() || local.channels.borrow().needs_endpoint()
            });
        }
    }

    /// Turns the loop `turns` times without waiting: for those who drive it by hand, on a virtual
    /// clock.
    pub fn run_turns(&self, turns: u32) {
        for _ in 0..turns {
            self.home.turn(|endpoint| {
                endpoint.run_once();
            });
        }
    }

    /// Handlers that have panicked, and messages that broke a rule of the calls' (R13).
    pub fn failures(&self) -> (u64, u64) {
        let endpoint = self.home.endpoint.borrow();
        let parts = &endpoint.state().parts;
        (parts.panics, parts.malformed)
    }

    /// Turns in which tasks took more than a millisecond.
    pub fn slow_turns(&self) -> SlowTurns {
        SlowCounts::sum([&self.home.local.shared.slow].into_iter())
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        registry::remove(self.local.shared.home);
        self.local.drop_spawned();
        self.local.tell_end();
        self.local.leave();
    }
}

impl Home {
    fn new(
        config: EndpointConfig,
        io: impl Into<Backend>,
        clock: Clock,
    ) -> Result<Home, LoopError> {
        if local::here().is_some() {
            return Err(LoopError::AnotherHere);
        }
        let shared = Arc::new(Shared::new(registry::next_home()));
        let local = Local::new(shared.clone(), clock.clone());
        let local: &'static Local = Box::leak(Box::new(local));
        let mut endpoint = Endpoint::new(config, io, clock, Hub::new(local));
        shared.set_alarm(endpoint.alarm()?);
        endpoint.on_turn(turn::work);
        endpoint.on_abandoned(hub::abandon);
        endpoint.let_handlers_drain();
        local.settle();
        registry::add(shared);
        let (endpoint, chain) = (RefCell::new(endpoint), RefCell::default());
        Ok(Home { endpoint, local, node: None, chain })
    }

    fn attach(&self, node: &Node) -> Result<(), LoopError> {
        Ok(self.endpoint.borrow_mut().attach(node)?)
    }

    /// Serves all methods of a service.
    fn serve(&self, service: &Prepared, placed: &Placed) -> Result<(), ServeError> {
        let mut endpoint = self.endpoint.try_borrow_mut().map_err(|_| ServeError::Turning)?;
        let hub = endpoint.state_mut();
        let info = service.info;
        let names: Vec<&str> = info.methods.iter().map(|method| method.name).collect();
        let schema = info.module.schema().encode();
        let first = hub.parts.services.add(info.name, info.hash, schema, &names)?;
        if is_untyped(info) {
            hub.parts.services.without_layout();
        }
        let shared = &self.local.shared;
        let around = placed.chain.around(info);
        for (method, of) in service.methods.iter().zip(info.methods) {
            let kind = hub.methods.len() as u32;
            let workers = placed.workers(info.name, of.name);
            let hooks = around.clone().map(|around| (around, of.index));
            hub.methods.push(method.local(Serving { shared, kind, workers, hooks }));
            hub.parts.slow.names.push((info.name, of.name));
        }
        endpoint.register(BIND, hub::bind);
        for (number, method) in (first..).zip(&service.methods) {
            let dispatch = if method.is_stream() { streams::dispatch } else { hub::dispatch };
            endpoint.register(number, dispatch);
        }
        Ok(())
    }

    /// Lets `run` turn the loop, then does what needs the endpoint itself.
    fn turn<R>(&self, run: impl FnOnce(&mut Endpoint<Hub>) -> R) -> R {
        let endpoint = &mut *self.endpoint.borrow_mut();
        self.local.set_turn(Some(self.local.clock.now()));
        let result = run(endpoint);
        self.local.set_turn(None);
        if self.local.channels.borrow().needs_endpoint() {
            self.local.channels.borrow_mut().use_endpoint(endpoint);
        }
        result
    }

    fn turn_until(&self, until: impl Fn(&Local) -> bool) {
        let local = self.local;
        self.turn(|endpoint| endpoint.run(|_, _| until(local)));
    }
}

impl fmt::Debug for Loop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Loop").field("address", &self.local_address()).finish_non_exhaustive()
    }
}
