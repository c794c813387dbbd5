//! A whole loop as a host of the simulated network.

use core::cell::Cell;
use std::rc::Rc;

use petasos::{Balance, Channel, Loop};
use petasos_base::{Clock, Time};
use petasos_endpoint::by_hand::{Asked, HandNode};
use petasos_endpoint::{Endpoint, EndpointConfig, ServeConfig, ServedGroupId};
use petasos_netio::memory::MemoryIo;
use petasos_runtime::Held;
use petasos_runtime::dispatcher::Dispatcher;
use petasos_sim::cluster::Life;
use petasos_sim::{Host, HostSeat};

use crate::client::Client;
use crate::dials::Dials;
use crate::journal::Journal;
use crate::plan::service_config;
use crate::scenario::Scenario;
use crate::service::Service;
use crate::work::WorkServer;

/// One life of one host.
pub(crate) struct Node {
    pub(crate) life: Life,
    event_loop: Loop,
    journal: Journal,
    /// Tasks that are still making calls.
    callers: Rc<Cell<u32>>,
    /// Hears what the loop asks routers for, if there are some.
    hand: Option<HandNode>,
    /// The group that it serves.
    group: Option<ServedGroupId>,
}

/// State that all hosts of a run share.
#[derive(Clone)]
pub(crate) struct Cluster {
    pub(crate) scenario: Scenario,
    pub(crate) journal: Journal,
    pub(crate) dials: Dials,
}

impl Node {
    pub(crate) fn new(seat: HostSeat, cluster: &Cluster, config: &EndpointConfig) -> Node {
        let life = Life { host: seat.number, restarts: seat.restarts };
        let config = EndpointConfig { seed: Some(seat.seed), ..config.clone() };
        let event_loop = Loop::over(config, seat.port, Clock::Virtual(seat.clock));
        let event_loop = event_loop.expect("every other loop has stepped aside");
        let Cluster { scenario, journal, dials } = cluster;
        let shared = event_loop.runtime().shared().clone();
        event_loop.runtime().dial_with(dials.dial(life, scenario.sealed));
        dials.live(life);
        let service = Service { life, journal: journal.clone(), shared: shared.clone() };
        event_loop.serve(WorkServer::new(service)).expect("it is the only service");
        let hand = (scenario.routers > 0).then(|| HandNode::new().expect("there are descriptors"));
        let group = event_loop.runtime().with_endpoint(|endpoint| {
            hand.as_ref()?.attach(endpoint).expect("it is its only node");
            let serves = scenario.servers().any(|server| server == life.host);
            serves.then(|| endpoint.serve_group(&serving(scenario, life)).expect("it is right"))
        });
        let callers = Rc::new(Cell::new(0));
        if scenario.is_client(life.host) {
            let client =
                Client::new((life, seat.seed), journal.clone(), channel(scenario, life), shared);
            for task in 0..scenario.tasks {
                let calls = client.clone().make_calls(task, scenario.calls, scenario.think_nanos);
                let open = callers.clone();
                open.set(open.get() + 1);
                event_loop.spawn(async move {
                    calls.await;
                    open.set(open.get() - 1);
                });
            }
        }
        event_loop.runtime().step_aside();
        Node { life, event_loop, journal: journal.clone(), callers, hand, group }
    }

    /// Whether all calls have ended.
    pub(crate) fn is_done(&self) -> bool {
        self.callers.get() == 0
    }

    /// Takes no more calls, and ends those that it has.
    pub(crate) fn drain(&mut self) {
        let group = self.group;
        self.with_endpoint(|endpoint| {
            if let Some(group) = group {
                endpoint.set_served_bound(group, 0).expect("it serves it");
            }
            endpoint.drain();
        });
    }

    /// What the loop has asked routers for.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.hand.as_ref().map_or_else(Vec::new, HandNode::asked)
    }

    /// Does with the endpoint what a node would do.
    pub(crate) fn with_endpoint<R>(
        &mut self,
        act: impl FnOnce(&mut Endpoint<Dispatcher>) -> R,
    ) -> R {
        let runtime = self.event_loop.runtime();
        runtime.step_in();
        let result = runtime.with_endpoint(act);
        runtime.step_aside();
        result
    }

    pub(crate) fn held(&self) -> Held {
        self.event_loop.runtime().held()
    }

    /// Requests and calls that the endpoint has, and bytes that its pool has lent.
    pub(crate) fn unfinished(&mut self) -> (usize, usize, usize) {
        self.with_endpoint(|endpoint| {
            let (running, calls) = endpoint.unfinished();
            (running, calls, endpoint.memory().pool.lent_bytes)
        })
    }

    /// Handlers that have panicked, and messages that broke a rule.
    pub(crate) fn failures(&self) -> (u64, u64) {
        self.event_loop.failures()
    }
}

impl Host for Node {
    fn run(&mut self, now: Time) -> Time {
        self.journal.set_now(now);
        let runtime = self.event_loop.runtime();
        runtime.step_in();
        runtime.run_turns(1);
        let next = runtime.next_turn_at();
        runtime.step_aside();
        next
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // After a panic, another host's loop may still be set as current.
        self.event_loop.runtime().step_aside();
        self.event_loop.runtime().step_in();
    }
}

/// How a host serves a group.
fn serving(scenario: &Scenario, life: Life) -> ServeConfig {
    ServeConfig {
        routers: scenario.routers().map(|(door, _)| MemoryIo::address(door)).collect(),
        bound: scenario.bound,
        dial_port: Some(MemoryIo::address(life.host).port()),
        ..ServeConfig::default()
    }
}

/// The channel from one host to all others that serve.
fn channel(scenario: &Scenario, life: Life) -> Channel {
    let servers = scenario.servers().filter(|server| *server != life.host);
    let servers: Vec<String> =
        servers.map(|server| MemoryIo::address(server).to_string()).collect();
    let routers: Vec<String> =
        scenario.routers().map(|(door, _)| MemoryIo::address(door).to_string()).collect();
    let target = match routers.is_empty() {
        true => format!("petasos://{}", servers.join(",")),
        false => format!("router://{}", routers.join(",")),
    };
    let balance = if scenario.spreads { Balance::RoundRobin } else { Balance::default() };
    let policies = service_config(scenario.retries_streams);
    let builder = Channel::builder(&target).service_config(&policies).balance(balance);
    let channel = builder.wait_for_ready(scenario.waits_for_ready).connect_lazily();
    channel.expect("the target and its policies are right")
}
