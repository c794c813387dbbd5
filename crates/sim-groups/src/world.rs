//! All parties, virtual time, and what is told by control connections.

use core::time::Duration;

use petasos_base::{Rng, Time};

use crate::claimer::Claimer;
use crate::client::ClientNode;
use crate::judge::{Judge, Verdict, Violation};
use crate::network::{Network, Node};
use crate::router::{Attached, RouterNode};
use crate::sabotage::Sabotage;
use crate::scenario::Scenario;
use crate::worker::WorkerNode;

/// Each party has a turn this often.
const TURN: Duration = Duration::from_micros(100);
/// After the last fault, everything ends within this.
const QUIET: Duration = Duration::from_secs(12);
/// Control connections are this late to notice a crash.
const NOTICE_US_MAX: u64 = 20_000;
const LEFT: &str = "nothing is left";

/// What control connections have yet to say.
#[derive(Clone, Copy, Debug)]
enum News {
    /// A router has begun anew: its clients and workers attach and join again.
    Router(u8),
    /// A worker has begun anew: it joins all routers.
    Worker(u8),
    /// A client attaches to all routers.
    Client(u8),
}

/// See the crate's documentation.
pub(crate) struct World {
    scenario: Scenario,
    network: Network,
    rng: Rng,
    judge: Judge,
    clients: Vec<ClientNode>,
    routers: Vec<RouterNode>,
    workers: Vec<WorkerNode>,
    claimer: Option<Claimer>,
    news: Vec<(Time, News)>,
}

impl World {
    /// All parties, attached and joined.
    pub(crate) fn new(scenario: &Scenario, seed: u64, sabotage: Option<Sabotage>) -> World {
        let mut rng = Rng::new(seed);
        let network = Network::new(scenario, rng.next_u64());
        let mut fork = || Rng::new(rng.next_u64());
        let clients = (0..scenario.clients).map(|it| ClientNode::new(Node::Client(it), fork()));
        let clients: Vec<_> = clients.collect();
        let routers = (0..scenario.routers).map(|it| RouterNode::new(Node::Router(it), fork()));
        let routers: Vec<_> = routers.collect();
        let workers = (0..scenario.workers).map(|it| WorkerNode::new(Node::Worker(it), fork()));
        let workers: Vec<_> = workers.collect();
        let (scenario, judge, news) = (*scenario, Judge::new(sabotage), Vec::new());
        let claimer = None;
        let mut world =
            World { scenario, network, rng, judge, clients, routers, workers, claimer, news };
        for worker in 0..scenario.workers {
            world.joins(worker, None);
        }
        for client in 0..scenario.clients {
            world.attaches(client, None);
        }
        if scenario.claims_per_s > 0.0 {
            let (node, router) = (Node::Client(scenario.clients), Node::Router(0));
            let told = world.attached(node, 0);
            world.claimer = Some(Claimer::new(node, router, told));
        }
        world
    }

    /// Runs to the end.
    pub(crate) fn run(&mut self) {
        let end = self.network.now + self.scenario.time;
        while self.network.now < end {
            self.befalls();
            self.turn();
        }
        self.network.heal();
        let end = self.network.now + QUIET;
        while self.network.now < end && !self.is_quiet() {
            self.turn();
        }
    }

    /// What became of the calls.
    ///
    /// # Errors
    /// What was not as it should be.
    pub(crate) fn verdict(&mut self) -> Result<Verdict, Violation> {
        for (at, worker) in self.workers.iter_mut().enumerate() {
            let held = worker.held();
            let what = || format!("worker {at} still holds {held:?}");
            self.judge.check(held == (0, 0), LEFT, what);
        }
        for (at, router) in self.routers.iter().enumerate() {
            let left = (router.outstanding(), router.waiting());
            let what = || format!("router {at} still counts {left:?}");
            self.judge.check(left == (0, 0), LEFT, what);
        }
        self.judge.verdict()
    }

    fn is_quiet(&mut self) -> bool {
        let at_rest = self.workers.iter_mut().all(|worker| worker.held() == (0, 0));
        let slots = self.routers.iter().all(|router| router.outstanding() == 0);
        self.judge.is_over() && at_rest && slots && self.network.is_quiet() && self.news.is_empty()
    }

    fn turn(&mut self) {
        self.network.now = self.network.now + TURN;
        let network = &mut self.network;
        while let Some(sent) = network.arrival() {
            let (from, bytes) = (sent.from, &sent.bytes[..]);
            match sent.to {
                Node::Client(at) => {
                    // The one that only claims hears nothing.
                    if let Some(client) = self.clients.get_mut(usize::from(at)) {
                        client.hears(network, &mut self.judge, from, bytes);
                    }
                }
                Node::Router(at) => self.routers[usize::from(at)].hears(network, from, bytes),
                Node::Worker(at) => {
                    self.workers[usize::from(at)].hears(network, &mut self.judge, from, bytes);
                }
            }
        }
        self.clients.iter_mut().for_each(|client| client.turn(network, &mut self.judge));
        self.routers.iter_mut().for_each(|router| router.turn(network));
        self.workers.iter_mut().for_each(|worker| worker.turn(network, &mut self.judge));
        self.hears_news();
        for worker in 0..self.scenario.workers {
            if self.workers[usize::from(worker)].may_leave() {
                self.joins(worker, None);
            }
        }
    }

    /// Calls, and what operators do.
    fn befalls(&mut self) {
        let turn_s = TURN.as_secs_f64();
        let (drains, switches) = (self.scenario.drains_per_s, self.scenario.switches_per_s);
        // One after the other, and the primary stays: nobody else takes what is for it.
        let mut is_calm = !self.workers.iter().any(WorkerNode::is_draining);
        for worker in &mut self.workers[1..] {
            if is_calm && self.rng.chance(drains * turn_s) {
                worker.drain();
                is_calm = false;
            }
        }
        for client in &mut self.clients {
            if self.rng.chance(self.scenario.calls_per_s * turn_s) {
                client.begin(&mut self.judge, self.network.now);
            }
            if self.rng.chance(switches * turn_s) {
                client.switch();
            }
        }
        if let Some(claimer) = &mut self.claimer {
            claimer.turn(&mut self.network, self.scenario.claims_per_s * turn_s);
        }
        self.crashes(turn_s);
    }

    fn crashes(&mut self, turn_s: f64) {
        let rate = self.scenario.crashes_per_s * turn_s;
        for at in 0..self.scenario.clients {
            if self.rng.chance(rate) {
                let mut new = ClientNode::new(Node::Client(at), Rng::new(self.rng.next_u64()));
                core::mem::swap(&mut self.clients[usize::from(at)], &mut new);
                new.abandon(&mut self.judge);
                self.tell(News::Client(at));
            }
        }
        for at in 0..self.scenario.routers {
            if self.rng.chance(rate) {
                let rng = Rng::new(self.rng.next_u64());
                self.routers[usize::from(at)] = RouterNode::new(Node::Router(at), rng);
                self.tell(News::Router(at));
            }
        }
        for at in 0..self.scenario.workers {
            if self.rng.chance(rate) {
                let rng = Rng::new(self.rng.next_u64());
                self.workers[usize::from(at)] = WorkerNode::new(Node::Worker(at), rng);
                self.tell(News::Worker(at));
            }
        }
    }

    fn tell(&mut self, news: News) {
        let late = Duration::from_micros(self.rng.below(NOTICE_US_MAX));
        self.news.push((self.network.now + late, news));
    }

    fn hears_news(&mut self) {
        for router in 0..self.routers.len() {
            while let Some(Node::Worker(worker)) = self.routers[router].gone() {
                self.tell(News::Worker(worker));
            }
        }
        let now = self.network.now;
        let (due, later): (Vec<_>, _) = self.news.drain(..).partition(|(at, _)| *at <= now);
        self.news = later;
        for (_, news) in due {
            match news {
                News::Router(router) => {
                    let node = Node::Router(router);
                    self.clients.iter_mut().for_each(|client| client.detach(node));
                    self.workers.iter_mut().for_each(|worker| worker.leave(node));
                    for worker in 0..self.scenario.workers {
                        self.joins(worker, Some(router));
                    }
                    for client in 0..self.scenario.clients {
                        self.attaches(client, Some(router));
                    }
                }
                News::Worker(worker) => self.joins(worker, None),
                News::Client(client) => self.attaches(client, None),
            }
        }
    }

    /// A worker joins one router, or all.
    fn joins(&mut self, worker: u8, only: Option<u8>) {
        let (now, node) = (self.network.now, Node::Worker(worker));
        for at in 0..self.scenario.routers {
            if only.is_some_and(|only| only != at) {
                continue;
            }
            let router = &mut self.routers[usize::from(at)];
            let this = &mut self.workers[usize::from(worker)];
            router.end(node);
            this.leave(Node::Router(at));
            let offer = this.offer();
            let told = router.join(now, node, self.scenario.bound, offer);
            this.join(now, Node::Router(at), offer, self.scenario.bound, told);
            for (number, client) in router.clients() {
                this.client_is(Node::Router(at), number, client);
            }
            let members: Vec<_> = router.roster().collect();
            for client in &mut self.clients {
                client.roster(&mut self.judge, Node::Router(at), &members);
            }
        }
    }

    /// A client attaches to one router, or all.
    fn attaches(&mut self, client: u8, only: Option<u8>) {
        let node = Node::Client(client);
        // Not all use the same router (RT38).
        let mut order: Vec<u8> = (0..self.scenario.routers).collect();
        order.rotate_left(usize::from(client) % usize::from(self.scenario.routers));
        for at in order {
            if only.is_some_and(|only| only != at) {
                continue;
            }
            let told = self.attached(node, at);
            let members: Vec<_> = self.routers[usize::from(at)].roster().collect();
            let this = &mut self.clients[usize::from(client)];
            this.detach(Node::Router(at));
            this.attach(Node::Router(at), told);
            this.roster(&mut self.judge, Node::Router(at), &members);
        }
    }

    /// A router has a client, and all its workers are told.
    fn attached(&mut self, node: Node, router: u8) -> Attached {
        let told = self.routers[usize::from(router)].attach(node);
        for worker in &mut self.workers {
            worker.client_is(Node::Router(router), told.client, node);
        }
        told
    }
}
