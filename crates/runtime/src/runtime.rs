//! A loop, as the code that turns it shares it.

use core::cell::RefCell;
use core::future::{Future, poll_fn};
use core::pin::pin;
use core::task::{Context as TaskContext, Poll, Waker};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use petasos_base::{Clock, Time, random_seed};
use petasos_endpoint::{
    AtRouter, Backend, Endpoint, EndpointConfig, EndpointStats, MethodNames, NoPackets, Node,
    NodeConfig, NodeError, Polling, ServeConfig,
};
use petasos_managed::ServiceConfig;
use petasos_rpc::descriptors::ServiceRef;
use petasos_rpc::dynamic::layout_of;
use petasos_rpc::settings::ChannelInfo;

use crate::channels::{Dial, open_to_itself};
use crate::config::{LoopConfig, LoopError, ServeError};
use crate::dispatcher::{Dispatcher, LocalMethod};
use crate::handle::ChannelShared;
use crate::local::{JoinHandle, Local, TaskWaker, current, joinable};
use crate::shared::Shared;
use crate::slow::{SlowCounts, SlowTurns};
use crate::task::Task;
use crate::{managed, memory, registry, turn};

/// The method number of binds (R1).
const BIND: u16 = 0;

/// A thread's event loop, as the code that turns it shares it.
pub struct Runtime {
    pub(crate) endpoint: RefCell<Endpoint<Dispatcher>>,
    pub(crate) local: &'static Local,
    pub(crate) node: Option<Node>,
    /// Opens sessions in place of a node.
    pub(crate) dial: RefCell<Option<Dial<Dispatcher>>>,
    /// Dropped last.
    _tables: Tables,
}

/// The loop's tables. Freed after the endpoint, whose handlers may still use them.
struct Tables(&'static Local);

impl Drop for Tables {
    fn drop(&mut self) {
        self.0.clear();
    }
}

impl Runtime {
    /// A runtime over the transport of `config`, with its own node.
    pub fn start(config: LoopConfig) -> Result<Runtime, LoopError> {
        if let Some(service) = config.service.resolve()? {
            return Runtime::managed(config.endpoint, config.listen, service);
        }
        Runtime::start_with(config, Node::start)
    }

    /// A runtime with its own node, which `start` starts.
    pub(crate) fn start_with(
        config: LoopConfig,
        start: impl FnOnce(NodeConfig) -> Result<Node, NodeError>,
    ) -> Result<Runtime, LoopError> {
        let io = config.open()?;
        let node = start(config.node())?;
        let mut runtime = Runtime::new(config.endpoint, io, Clock::system())?;
        runtime.attach(&node)?;
        runtime.node = Some(node);
        Ok(runtime)
    }

    /// A runtime whose calls go through the managed service of this host. `listen` is the address
    /// at which others call it there; with port 0, the service chooses a port. Then this waits
    /// until the service has answered.
    pub fn managed(
        config: EndpointConfig,
        listen: Option<SocketAddr>,
        service: ServiceConfig,
    ) -> Result<Runtime, LoopError> {
        // The service is a neighbour that may need this processor (ADR 18).
        let polling = match config.polling {
            Polling::Adaptive { spin } => Polling::Yield { spin },
            polling => polling,
        };
        let config = EndpointConfig { polling, ..config };
        let runtime = Runtime::new(config, NoPackets::new()?, Clock::system())?;
        let local = runtime.local;
        let notifier = runtime.endpoint.borrow_mut().notifier()?;
        managed::set_up(local, service, notifier, listen);
        runtime.endpoint.borrow_mut().before_sleep(managed::before_sleep);
        runtime.dial.replace(Some(managed::dial(local)));
        if listen.is_some() {
            runtime.block_on(runtime.served())?;
        }
        Ok(runtime)
    }

    /// Waits until the managed service lets others call this process. At once if there is none.
    ///
    /// # Errors
    /// [`LoopError::NotServed`].
    pub async fn served(&self) -> Result<(), LoopError> {
        let local = self.local;
        poll_fn(|cx| managed::poll_served(local, cx)).await.map_err(LoopError::NotServed)
    }

    /// The address at which other processes reach this one; `None` if the loop does not listen.
    pub fn local_address(&self) -> Option<SocketAddr> {
        let of_node = self.node.as_ref().and_then(Node::local_address);
        of_node.or_else(|| managed::served_address(self.local))
    }

    /// The loop's own node; `None` if it has none, or one that it shares.
    pub fn node(&self) -> Option<&Node> {
        self.node.as_ref()
    }

    /// Adds a channel.
    pub fn add_channel(&self, info: Arc<ChannelInfo>) -> ChannelShared {
        let shared = self.local.shared.clone();
        let channel = shared.take_channel_number();
        self.local.channels.borrow_mut().add(channel, info.clone(), self.local.now());
        ChannelShared { runtime: shared, channel, info, thread: None }
    }

    /// The address of the loop's packet I/O.
    pub fn endpoint_address(&self) -> SocketAddr {
        self.endpoint.borrow().local_address()
    }

    /// Gives a channel to this same loop its session, through the packet I/O.
    ///
    /// # Panics
    /// In a handler or a spawned future, and if the packet I/O cannot reach itself.
    pub fn connect_to_itself(&self, channel: &ChannelShared) {
        let endpoint = &mut *self.endpoint.borrow_mut();
        let address = endpoint.local_address();
        let session = open_to_itself(endpoint);
        let mut channels = self.local.channels.borrow_mut();
        channels.adopt(endpoint.context(), channel.channel, &address, session);
    }

    /// Spawns a future on this loop. Its wakers may be used on any thread. If the loop is dropped,
    /// so is the future.
    pub fn spawn<F: Future + 'static>(&self, future: F) -> JoinHandle<F::Output> {
        let (task, handle) = joinable(future);
        self.local.spawn(task);
        handle
    }

    /// Turns the loop until `future` is ready. The future may borrow; it is polled between turns.
    /// Spawn futures that should be polled within turns.
    ///
    /// # Panics
    /// If the loop is already turning: within `block_on`, or in a task beside that of
    /// `Loop::drive`.
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        let local = self.local;
        let task_waker = TaskWaker::new(&local.shared, Task::MAIN);
        let waker = Waker::from(task_waker.clone());
        let mut future = pin!(future);
        local.main_woken.set(true);
        loop {
            if local.main_woken.replace(false) {
                task_waker.polled();
                let mut context = TaskContext::from_waker(&waker);
                let poll = || future.as_mut().poll(&mut context);
                let polled = local.polling(Task::MAIN, &waker, Time::NEVER, poll);
                local.forget_polling();
                if let Poll::Ready(output) = polled {
                    return output;
                }
            }
            self.turn_until(|local| local.main_woken.get() || local.needs_endpoint());
        }
    }

    /// Turns the loop `turns` times without waiting. For code that drives it by hand, on a virtual
    /// clock.
    pub fn run_turns(&self, turns: u32) {
        for _ in 0..turns {
            self.turn(|endpoint| {
                endpoint.run_once();
            });
        }
    }

    /// How many handlers have panicked, and how many messages broke a rule of calls (R13).
    pub fn failures(&self) -> (u64, u64) {
        let endpoint = self.endpoint.borrow();
        let parts = &endpoint.state().parts;
        (parts.panics, parts.malformed)
    }

    /// Turns in which tasks took more than a millisecond.
    pub fn slow_turns(&self) -> SlowTurns {
        SlowCounts::sum([&self.local.shared.slow].into_iter())
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        registry::remove(self.local.shared.loop_id);
        self.local.drop_spawned();
        self.local.tell_end();
        self.local.leave();
    }
}

impl Runtime {
    /// A runtime over any packet I/O.
    pub fn new(
        config: EndpointConfig,
        io: impl Into<Backend>,
        clock: Clock,
    ) -> Result<Runtime, LoopError> {
        if current().is_some() {
            return Err(LoopError::AnotherHere);
        }
        memory::limit_by_default();
        let shared = Arc::new(Shared::new(registry::next_loop_id()));
        let seed = config.seed.unwrap_or_else(random_seed);
        let local = Local::new(shared.clone(), clock.clone(), seed);
        let local: &'static Local = Box::leak(Box::new(local));
        let mut endpoint = Endpoint::new(config, io, clock, Dispatcher::new(local));
        shared.set_notifier(endpoint.notifier()?);
        endpoint.on_turn(turn::work);
        endpoint.on_abandoned(turn::abandon);
        endpoint.on_succeeded(turn::succeeded);
        endpoint.let_handlers_drain();
        local.settle();
        registry::add(shared);
        Ok(Runtime {
            endpoint: RefCell::new(endpoint),
            local,
            node: None,
            dial: RefCell::default(),
            _tables: Tables(local),
        })
    }

    /// Attaches it to a node.
    pub fn attach(&self, node: &Node) -> Result<(), LoopError> {
        Ok(self.endpoint.borrow_mut().attach(node)?)
    }

    /// Serves all methods of a service. `method` returns the method with an index; each gets its
    /// own number in the loop.
    pub fn serve(
        &self,
        service: &ServiceRef,
        method: impl Fn(usize, &Arc<Shared>, u32) -> Box<dyn LocalMethod>,
    ) -> Result<(), ServeError> {
        let mut endpoint = self.endpoint.try_borrow_mut().map_err(|_| ServeError::Turning)?;
        let dispatcher = endpoint.state_mut();
        let names: Vec<&str> = service.methods().map(|method| method.name).collect();
        let (name, schema) = (service.name(), service.module().compact().to_vec());
        let first = dispatcher.parts.services.add(name, service.hash(), schema, &names)?;
        dispatcher.parts.services.set_layout(layout_of(service));
        let (before, name) = (dispatcher.methods.len(), Arc::<str>::from(name));
        for (at, of) in names.into_iter().enumerate() {
            let kind = (before + at) as u32;
            dispatcher.methods.push(method(at, &self.local.shared, kind));
            dispatcher.parts.slow.names.push((name.clone(), of.into()));
        }
        let are_streams: Vec<bool> =
            dispatcher.methods[before..].iter().map(|method| method.is_stream()).collect();
        if self.local.managed.is_on() {
            managed::serve(self.local, service, first);
        }
        endpoint.register(BIND, turn::bind);
        for (number, is_stream) in (first..).zip(are_streams) {
            let dispatch = if is_stream { turn::dispatch_stream } else { turn::dispatch };
            endpoint.register(number, dispatch);
        }
        Ok(())
    }

    /// Joins a group of workers, which gets the requests of its clients for the services that this
    /// loop serves by now. It stays a member until it ends.
    ///
    /// # Errors
    /// [`LoopError::Join`].
    ///
    /// # Panics
    /// While the loop turns.
    pub fn join(&self, config: ServeConfig) -> Result<(), LoopError> {
        let mut endpoint = self.endpoint.borrow_mut();
        let numbers = (1..).zip(&endpoint.state().parts.slow.names);
        let numbers: HashMap<_, u16> = numbers.map(|(at, names)| (names.clone(), at)).collect();
        let find = move |service: &str, method: &str| {
            numbers.get(&(Arc::from(service), Arc::from(method))).copied()
        };
        let config = ServeConfig { methods: Some(MethodNames::new(find)), ..config };
        let group = endpoint.serve_group(&config)?;
        self.local.joined.add(group);
        Ok(())
    }

    /// What the loop has at the routers of the groups that it has joined.
    ///
    /// # Panics
    /// While the loop turns.
    pub fn routers(&self) -> Vec<AtRouter> {
        self.local.joined.at_routers(self.endpoint.borrow_mut().context())
    }

    /// Accepts sessions and answers binds from now on, even if nothing is served yet.
    ///
    /// # Errors
    /// [`ServeError::Turning`].
    pub fn accept_sessions(&self) -> Result<(), ServeError> {
        let mut endpoint = self.endpoint.try_borrow_mut().map_err(|_| ServeError::Turning)?;
        endpoint.register(BIND, turn::bind);
        Ok(())
    }

    /// Serves a service no more. Calls of it that come from now on end with `UNAVAILABLE` and have
    /// not run, and what runs goes on. Its method numbers are not given again, and what is small of
    /// its methods stays. Returns whether it was served.
    ///
    /// # Errors
    /// [`ServeError::Turning`].
    pub fn withdraw(&self, service: &str) -> Result<bool, ServeError> {
        let mut endpoint = self.endpoint.try_borrow_mut().map_err(|_| ServeError::Turning)?;
        let dispatcher = endpoint.state_mut();
        let Some(numbers) = dispatcher.parts.services.withdraw(service) else { return Ok(false) };
        for number in numbers {
            let method = &endpoint.state().methods[usize::from(number) - 1];
            let refuse =
                if method.is_stream() { turn::refuse_streams } else { turn::refuse_requests };
            endpoint.register(number, refuse);
        }
        Ok(true)
    }

    /// Pauses a service: its binds fail with `UNAVAILABLE` and its schema is freed, until it is
    /// [resumed](Runtime::resume). Callers that have bound it still reach its handlers. Returns
    /// whether it was served until now.
    ///
    /// # Errors
    /// [`ServeError::Turning`].
    pub fn pause(&self, service: &str) -> Result<bool, ServeError> {
        let mut endpoint = self.endpoint.try_borrow_mut().map_err(|_| ServeError::Turning)?;
        Ok(endpoint.state_mut().parts.services.pause(service))
    }

    /// Lets a paused service be bound again, with the same method numbers. Returns false if there
    /// is no such paused service, or it has another hash.
    ///
    /// # Errors
    /// [`ServeError::Turning`].
    pub fn resume(&self, service: &ServiceRef) -> Result<bool, ServeError> {
        let mut endpoint = self.endpoint.try_borrow_mut().map_err(|_| ServeError::Turning)?;
        let schema = service.module().compact().to_vec();
        let services = &mut endpoint.state_mut().parts.services;
        Ok(services.resume(service.name(), service.hash(), schema))
    }

    /// Every counter of the loop's endpoint.
    ///
    /// # Panics
    /// While the loop turns.
    pub fn endpoint_stats(&self) -> EndpointStats {
        self.endpoint.borrow().stats()
    }

    /// Turns the loop with `run`, and then does the work that needs the endpoint itself.
    pub(crate) fn turn<R>(&self, run: impl FnOnce(&mut Endpoint<Dispatcher>) -> R) -> R {
        let endpoint = &mut *self.endpoint.borrow_mut();
        self.local.set_turn(Some(self.local.clock.now()));
        let result = run(endpoint);
        self.local.set_turn(None);
        self.local.joined.tell_renamed(endpoint);
        if self.local.channels.borrow().needs_endpoint() {
            let dial = &mut *self.dial.borrow_mut();
            self.local.channels.borrow_mut().use_endpoint(endpoint, dial.as_mut());
        }
        result
    }

    /// A descriptor that is readable when the loop has something to do, between
    /// [`Runtime::turn_ready`] and the next turn. It belongs to the caller.
    ///
    /// # Errors
    /// The system has none, or the packet I/O cannot be waited for.
    pub fn descriptor(&self) -> std::io::Result<std::os::fd::OwnedFd> {
        self.endpoint.borrow_mut().descriptor()
    }

    /// Turns the loop until nothing is left to do, but at most `turns_max` times. Returns how long
    /// the loop may rest unless its [descriptor](Runtime::descriptor) becomes readable; `None`
    /// without limit.
    pub fn turn_ready(&self, turns_max: u32) -> Option<core::time::Duration> {
        let wait = self.turn(|endpoint| {
            let at = endpoint.run_ready(turns_max);
            endpoint.until(at)
        });
        let local = self.local;
        let has_more = local.needs_endpoint() || turn::has_work(local);
        if has_more { Some(core::time::Duration::ZERO) } else { wait }
    }

    pub(crate) fn turn_until(&self, until: impl Fn(&Local) -> bool) {
        let local = self.local;
        self.turn(|endpoint| endpoint.run(|_, _| until(local)));
    }
}
