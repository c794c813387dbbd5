//! The world: virtual time, the hosts, and the network between them.
//!
//! Time advances from one event to the next. At one time, network events come first and hosts run
//! afterwards, so that a host processes everything that has arrived by then in one turn.

mod observe;
mod script;

use petasos_base::{Rng, Time, VirtualClock};
use petasos_netio::Ecn;
use petasos_netio::memory::{Captured, Hub, MemoryConfig, RingConfig};

use self::script::ACTIONS_MAX;
use crate::drift::HostClocks;
use crate::host::Seated;
use crate::network::{Event, Network};
use crate::packet::Packet;
use crate::timers::Timers;
use crate::trace::Trace;
use crate::{Action, Framing, Host, HostSeat, Topology};

/// Settings of a world.
#[derive(Clone, Debug)]
pub struct WorldConfig {
    /// The seed of all randomness.
    pub seed: u64,
    /// Limits of the hosts' ports.
    pub memory: MemoryConfig,
    /// Shared memory between hosts, if any: neighbouring numbers are on the same machine.
    pub rings: Option<RingConfig>,
    /// The bytes that surround payloads on the wire.
    pub framing: Framing,
    /// The minimum time between two runs of one host, at least 1: the duration of a turn of its
    /// loop.
    pub turn_nanos: u64,
    /// ECN bits that hosts send with.
    pub ecn: Ecn,
    /// Packets that may be in flight at once; more are dropped and counted.
    pub packets_max: usize,
    /// Whether each host has a clock of its own, which can drift ([`Action::Drift`]). It is set
    /// when the host runs. Else hosts read the world's.
    pub own_clocks: bool,
}

impl Default for WorldConfig {
    /// Seed 0, turns of 100 ns, ECN-capable, a million packets.
    fn default() -> WorldConfig {
        WorldConfig {
            seed: 0,
            memory: MemoryConfig::default(),
            rings: None,
            framing: Framing::default(),
            turn_nanos: 100,
            ecn: Ecn::Capable0,
            packets_max: 1 << 20,
            own_clocks: false,
        }
    }
}

/// Why a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The condition no longer holds.
    Condition,
    /// The time limit was reached.
    Limit,
    /// Nothing will ever happen again: no event is queued, and no host has a timer.
    Idle,
}

/// A simulated datacenter whose hosts are `H`s.
pub struct World<H> {
    config: WorldConfig,
    clock: VirtualClock,
    hub: Hub,
    network: Network<Vec<u8>>,
    hosts: Vec<Seated<H>>,
    /// By host.
    clocks: Vec<HostClocks>,
    factory: Box<dyn FnMut(HostSeat) -> H>,
    timers: Timers,
    /// Host of each port ever made.
    port_owners: Vec<u32>,
    actions: Vec<Option<Action>>,
    trace: Trace,
    /// Empty between calls; kept for its memory.
    sent: Vec<Captured>,
}

impl<H: Host> World<H> {
    /// A world at time zero. `factory` makes each host, and makes it anew after a restart. Every
    /// host runs once at time zero.
    ///
    /// # Panics
    /// If `turn_nanos` is 0: the caller's fault.
    pub fn new(
        config: WorldConfig,
        topology: Topology,
        factory: impl FnMut(HostSeat) -> H + 'static,
    ) -> World<H> {
        assert!(config.turn_nanos > 0, "a turn takes time, or time would stand still");
        let count = topology.hosts();
        let bounds = (config.packets_max, ACTIONS_MAX);
        let rng = Rng::new(config.seed);
        let mut world = World {
            clock: VirtualClock::default(),
            hub: match config.rings {
                Some(rings) => Hub::captured(config.memory).with_rings(rings),
                None => Hub::captured(config.memory),
            },
            network: Network::new(topology, config.framing, bounds, rng),
            hosts: Vec::new(),
            clocks: Vec::new(),
            factory: Box::new(factory),
            timers: Timers::new(count),
            port_owners: Vec::new(),
            actions: Vec::new(),
            trace: Trace::new(),
            sent: Vec::new(),
            config,
        };
        for number in 0..count {
            world.clocks.push(match world.config.own_clocks {
                true => HostClocks::own(),
                false => HostClocks::shared(world.clock.clone()),
            });
            let seated = world.seat(number, 0);
            world.hosts.push(seated);
            world.timers.set(number, Time::ZERO);
        }
        world
    }

    /// Processes all events up to and including `end`, and leaves the clock there.
    ///
    /// # Panics
    /// If `end` lies in the past.
    pub fn run_until(&mut self, end: Time) {
        while self.step(end) != Step::None {}
        self.clock.set(end);
    }

    /// Runs as long as `condition` holds, up to and including `limit`. The condition is checked at
    /// the start, and after every host run and action, because nothing else changes a host.
    ///
    /// # Panics
    /// If `limit` lies in the past.
    pub fn run_while(&mut self, mut condition: impl FnMut(&World<H>) -> bool, limit: Time) -> Stop {
        while condition(self) {
            loop {
                match self.step(limit) {
                    Step::Network => {}
                    Step::Visible => break,
                    Step::None if self.next_time() == Time::NEVER => return Stop::Idle,
                    Step::None => {
                        self.clock.set(limit);
                        return Stop::Limit;
                    }
                }
            }
        }
        Stop::Condition
    }

    /// Calls `act` with a living host and its time, takes what it sends, and makes the host run
    /// soon. Use this for input other than packets: requests, configuration.
    ///
    /// # Panics
    /// If the host is dead: the caller's fault.
    pub fn with_host<R>(&mut self, number: u32, act: impl FnOnce(&mut H, Time) -> R) -> R {
        let now = self.clock.now();
        let host = &mut self.hosts[number as usize];
        assert!(host.alive, "host {number} is dead");
        let result = act(&mut host.program, self.clocks[number as usize].read(now));
        self.collect_sent(now);
        self.wake(number, now);
        result
    }

    /// Processes the next event, if it is due by `limit`.
    #[inline]
    fn step(&mut self, limit: Time) -> Step {
        let event_at = self.network.queue.next_time();
        let (due, host) = self.timers.earliest();
        let time = event_at.min(due);
        if time > limit || time == Time::NEVER {
            return Step::None;
        }
        self.clock.set(time);
        self.trace.add(time.as_nanos());
        if event_at <= due {
            self.network_step(time)
        } else {
            self.host_step(time, host);
            Step::Visible
        }
    }

    #[inline]
    fn network_step(&mut self, now: Time) -> Step {
        let (_, event) = self.network.queue.pop().expect("an event was due");
        self.network.stats.events += 1;
        match event {
            Event::Sent { link } => {
                self.trace.add(1 << 32 | u64::from(link));
                self.network.sent(now, link);
            }
            Event::Arrived { node, packet } => {
                self.trace.add((2 + u64::from(node)) << 32 | u64::from(packet.0));
                self.network.forward(now, node, packet);
            }
            Event::Delivered { packet } => {
                let packet = self.network.packets.remove(packet);
                self.trace.add_packet(packet.from, packet.to, &packet.body);
                self.deliver(now, packet);
            }
            Event::Act { action } => {
                self.trace.add(u64::from(action));
                let action = self.actions[action as usize].take();
                self.apply(action.expect("an action is done once"));
                return Step::Visible;
            }
        }
        Step::Network
    }

    #[inline]
    fn host_step(&mut self, now: Time, number: u32) {
        self.trace.add(u64::from(number));
        self.network.stats.host_runs += 1;
        let host = &mut self.hosts[number as usize];
        let clocks = &self.clocks[number as usize];
        let wake_at = clocks.world_at(host.program.run(clocks.read(now)));
        host.ready_at = now.plus_nanos(self.config.turn_nanos);
        let unread = self.hub.waiting(host.port) > 0;
        let wake_at = if unread { now } else { wake_at };
        self.timers.set(number, wake_at.max(host.ready_at));
        self.collect_sent(now);
    }

    /// Passes what hosts have sent to the network.
    #[inline]
    fn collect_sent(&mut self, now: Time) {
        let mut sent = core::mem::take(&mut self.sent);
        self.hub.take_captured(&mut sent);
        for captured in sent.drain(..) {
            self.network.stats.sent += 1;
            let from = self.port_owners[captured.from as usize];
            // The first ports have their hosts' numbers, so this resolves both kinds of addresses.
            let Some(&to) = self.port_owners.get(captured.to as usize) else {
                self.network.stats.dropped_unroutable += 1;
                continue;
            };
            self.trace.add_packet(from, captured.to, &captured.bytes);
            let packet = Packet {
                body: captured.bytes,
                from,
                to,
                port: captured.to,
                ecn: self.config.ecn,
                damaged: false,
                altered: false,
                tail_at: now,
                ingress_bps: u64::MAX,
            };
            self.network.send(now, packet);
        }
        self.sent = sent;
        if self.config.rings.is_some() {
            self.wake_rung(now);
        }
    }

    /// Runs the hosts for which frames have arrived over rings.
    fn wake_rung(&mut self, now: Time) {
        let mut rung = Vec::new();
        self.hub.take_rung(&mut rung);
        for port in rung {
            let number = self.port_owners[port as usize];
            let host = &self.hosts[number as usize];
            if host.alive && host.port == port {
                self.wake(number, now);
            }
        }
    }

    #[inline]
    fn deliver(&mut self, now: Time, packet: Packet<Vec<u8>>) {
        let stats = &mut self.network.stats;
        let host = &self.hosts[packet.to as usize];
        let addressed = packet.port == packet.to || packet.port == host.port;
        if packet.damaged {
            stats.dropped_checksum += 1;
        } else if !host.alive || !addressed {
            stats.dropped_dead += 1;
        } else if !self.hub.deliver(host.port, &packet.body, packet.ecn) {
            stats.dropped_inbox += 1;
        } else {
            stats.delivered += 1;
            stats.delivered_bytes += packet.body.len() as u64;
            stats.delivered_damaged += u64::from(packet.altered);
            self.wake(packet.to, now);
        }
    }

    /// Makes a living host run at `time`, or as soon afterwards as it can.
    #[inline]
    fn wake(&mut self, number: u32, time: Time) {
        let due = time.max(self.hosts[number as usize].ready_at);
        if due < self.timers.due(number) {
            self.timers.set(number, due);
        }
    }

    fn seat(&mut self, number: u32, restarts: u32) -> Seated<H> {
        let port = self.hub.port_on(number);
        let port_number = port.number();
        self.port_owners.push(number);
        let life = u64::from(restarts) << 32 | u64::from(number);
        let seed = Rng::new(self.config.seed.rotate_left(32) ^ life).next_u64();
        let clocks = &self.clocks[number as usize];
        clocks.read(self.clock.now());
        let (clock, day) = (clocks.counting.clone(), clocks.day());
        let seat = HostSeat { number, restarts, port, clock, day, seed };
        let program = (self.factory)(seat);
        Seated { program, alive: true, restarts, port: port_number, ready_at: self.clock.now() }
    }
}

/// What a step did.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    /// Nothing is due.
    None,
    /// An event in the network that no host can see yet.
    Network,
    /// A host ran, or the script acted.
    Visible,
}
