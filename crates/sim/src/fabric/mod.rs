//! Hosts that only run the protocol, for experiments with a thousand hosts.
//!
//! [`crate::World`] drives whole endpoints and carries every byte. Here each host has a few
//! *threads* that own the two halves of sessions (`petasos-proto`) directly, and packets are small
//! values without payload. The network between them is the same ([`crate::network`]): its links,
//! switches, buffers, marks, routes and event queue.
//!
//! Invariants:
//! - One seed and one plan give one run, event for event.
//! - Nothing is allocated for a packet, once queues have grown to their size.
//! - Rules that must hold are checked during the run; the first one that is broken ends it
//!   ([`Violation`]).
//!
//! Boundary rule: only `session` knows the protocol's state machines.

mod frame;
mod measure;
mod plan;
mod session;
mod thread;
mod violation;

use petasos_base::{Rng, Time};
use petasos_netio::Ecn;
use petasos_proto::ClientStats;

use self::frame::{Frame, Scratch};
use self::session::{Client, Ends, Server};
use self::thread::{Desk, Pauses, Thread};
use crate::network::{Event, Network};
use crate::packet::Packet;
use crate::timers::Timers;
use crate::{LinkId, PortStats, Topology};

pub use self::measure::Traffic;
pub(crate) use self::measure::{Group, jain_index};
pub(crate) use self::plan::{FabricConfig, LoadPlan, Plan, SessionPlan};
pub use self::plan::{HostConfig, SessionConfig};
pub use self::violation::{Rule, Violation};

/// The maximum number of packets in flight; more are dropped and counted.
const PACKETS_MAX: usize = 1 << 24;

/// A network and the threads on it.
pub(crate) struct Fabric {
    host: HostConfig,
    ecn: Ecn,
    network: Network<Frame>,
    threads: Vec<Thread>,
    /// The host of each thread.
    hosts: Vec<u32>,
    /// When each thread wants to run.
    timers: Timers,
    desk: Desk,
    now: Time,
}

impl Fabric {
    /// At time zero, before anything has been sent.
    ///
    /// # Panics
    /// If the plan contradicts itself or `config` has a field out of range: the caller's fault.
    pub(crate) fn new(config: &FabricConfig, plan: &Plan) -> Fabric {
        config.host.check();
        let mut rng = Rng::new(config.seed);
        let topology = Topology::leaf_spine(&config.shape);
        let payload = |session: &SessionPlan| session.config.payload_bytes;
        let payload_bytes_max = plan.sessions.iter().map(payload).max().unwrap_or(0);
        let mut fabric = Fabric {
            host: config.host,
            ecn: if config.ecn { Ecn::Capable0 } else { Ecn::NotCapable },
            network: Network::new(
                topology,
                config.framing,
                (PACKETS_MAX, 0),
                Rng::new(rng.next_u64()),
            ),
            threads: threads(config, plan),
            hosts: plan.threads.clone(),
            timers: Timers::new(plan.threads.len() as u32),
            desk: Desk {
                scratch: Scratch::new(payload_bytes_max),
                sent: Vec::new(),
                groups: (0..plan.groups).map(|_| Group::new()).collect(),
            },
            now: Time::ZERO,
        };
        fabric.seed_threads(plan, &mut rng);
        fabric
    }

    /// Sets the pauses and loads of threads.
    fn seed_threads(&mut self, plan: &Plan, rng: &mut Rng) {
        for thread in self.threads.iter_mut().filter(|_| self.host.pause_nanos > 0) {
            thread.pauses = Some(Pauses::new(&self.host, rng.next_u64()));
        }
        for load in &plan.loads {
            let thread = &mut self.threads[load.thread as usize];
            thread.set_load(*load, rng.next_u64());
            self.timers.set(load.thread, thread.due());
        }
    }

    /// Processes all events up to and including `end`.
    ///
    /// # Errors
    /// The first rule that is broken.
    pub(crate) fn run_until(&mut self, end: Time) -> Result<(), Violation> {
        while self.step(end)? {}
        self.now = end;
        Ok(())
    }

    /// Begins no more calls and runs until the open ones have ended, at most until `end`. Then
    /// checks that nothing is left and that every call was handled exactly once.
    ///
    /// # Errors
    /// The first rule that is broken.
    pub(crate) fn drain(&mut self, end: Time) -> Result<(), Violation> {
        self.threads.iter_mut().for_each(Thread::stop);
        while !self.is_idle() && self.step(end)? {}
        self.check(Rule::Drained, self.is_idle())?;
        let handled: u64 = self.servers().map(|server| server.handled).sum();
        let issued: u64 = self.desk.groups.iter().map(|group| group.issued).sum();
        let completed: u64 = self.desk.groups.iter().map(|group| group.completed).sum();
        self.check(Rule::ExactlyOnce, issued == completed && completed == handled)
    }

    /// Checks that every packet is accounted for.
    ///
    /// # Errors
    /// If one is not.
    pub(crate) fn check_accounting(&self) -> Result<(), Violation> {
        let in_flight = self.network.packets.len() as u64;
        self.check(Rule::Accounting, self.network.stats.unaccounted() == in_flight)
    }

    /// Starts or stops recording round trips and latencies, in all groups.
    pub(crate) fn measure(&mut self, measuring: bool) {
        self.desk.groups.iter_mut().for_each(|group| group.measure(measuring));
    }

    pub(crate) fn group(&self, group: u32) -> &Group {
        &self.desk.groups[group as usize]
    }

    pub(crate) fn topology(&self) -> &Topology {
        self.network.topology()
    }

    pub(crate) fn port_stats(&self, link: LinkId) -> &PortStats {
        &self.network.ports[link.0 as usize].stats
    }

    /// Request bytes that each session of a thread has received as a server, each byte once.
    pub(crate) fn received_bytes(&self, thread: u32) -> impl Iterator<Item = u64> {
        self.threads[thread as usize].servers.iter().map(|server| server.received_bytes)
    }

    /// What has happened to packets so far.
    pub(crate) fn traffic(&self) -> Traffic {
        let mut clients = ClientStats::default();
        let halves = self.threads.iter().flat_map(|thread| &thread.clients);
        halves.for_each(|client| clients.add(&client.stats()));
        let stats = &self.network.stats;
        let depths = self.threads.iter().map(|thread| thread.inbox_frames_max);
        Traffic {
            packets: stats.sent,
            drops_switch: stats.dropped_buffer,
            drops_receive_queue: stats.dropped_inbox,
            drops_fault: stats.dropped_loss + stats.dropped_checksum,
            marks: stats.marked,
            retransmissions: clients.retransmissions,
            retransmissions_spurious: clients.retransmissions_spurious,
            timeouts: clients.timeouts,
            receive_queue_frames_max: depths.max().unwrap_or(0),
            packet_hops: self.network.ports.iter().map(|port| port.stats.packets).sum(),
            events: stats.events + stats.host_runs,
        }
    }

    fn servers(&self) -> impl Iterator<Item = &Server> {
        self.threads.iter().flat_map(|thread| &thread.servers)
    }

    fn is_idle(&self) -> bool {
        self.network.packets.len() == 0
            && self.threads.iter().all(|thread| thread.clients.iter().all(Client::is_idle))
    }

    fn check(&self, rule: Rule, holds: bool) -> Result<(), Violation> {
        if holds { Ok(()) } else { Err(Violation { rule, thread: None, at: self.now }) }
    }

    /// Processes the next event, if it is due by `limit`. At equal times, network events come
    /// first.
    #[inline]
    fn step(&mut self, limit: Time) -> Result<bool, Violation> {
        let event_at = self.network.queue.next_time();
        let (due, thread) = self.timers.earliest();
        let time = event_at.min(due);
        if time > limit || time == Time::NEVER {
            return Ok(false);
        }
        self.now = time;
        if event_at <= due {
            self.network_step(time);
        } else {
            self.thread_step(time, thread)?;
        }
        Ok(true)
    }

    #[inline]
    fn network_step(&mut self, now: Time) {
        let (_, event) = self.network.queue.pop().expect("an event was due");
        self.network.stats.events += 1;
        match event {
            Event::Sent { link } => self.network.sent(now, link),
            Event::Arrived { node, packet } => self.network.forward(now, node, packet),
            Event::Delivered { packet } => {
                let packet = self.network.packets.remove(packet);
                self.deliver(now, &packet);
            }
            Event::Act { .. } => unreachable!("only a world has a script"),
        }
    }

    #[inline]
    fn deliver(&mut self, now: Time, packet: &Packet<Frame>) {
        let stats = &mut self.network.stats;
        let thread = &mut self.threads[packet.port as usize];
        let marked = packet.ecn == Ecn::CongestionExperienced;
        if packet.damaged {
            stats.dropped_checksum += 1;
        } else if thread.receive(packet.body, marked, self.host.receive_frames) {
            stats.delivered += 1;
            let due = now.max(thread.ready_at);
            if due < self.timers.due(packet.port) {
                self.timers.set(packet.port, due);
            }
        } else {
            stats.dropped_inbox += 1;
        }
    }

    #[inline]
    fn thread_step(&mut self, now: Time, index: u32) -> Result<(), Violation> {
        self.network.stats.host_runs += 1;
        let thread = &mut self.threads[index as usize];
        let broken = |rule| Violation { rule, thread: Some(index), at: now };
        thread.run(now, &self.host, &mut self.desk).map_err(broken)?;
        self.timers.set(index, thread.due());
        let from = self.hosts[index as usize];
        for (port, body) in self.desk.sent.drain(..) {
            self.network.stats.sent += 1;
            let to = self.hosts[port as usize];
            self.network.send(
                now,
                Packet {
                    body,
                    from,
                    to,
                    port,
                    ecn: self.ecn,
                    damaged: false,
                    altered: false,
                    tail_at: now,
                    ingress_bps: u64::MAX,
                },
            );
        }
        Ok(())
    }
}

/// The threads of a plan with both halves of all sessions.
fn threads(config: &FabricConfig, plan: &Plan) -> Vec<Thread> {
    let frames = config.host.receive_frames.max(1);
    let mut backlogs = vec![0; plan.threads.len()];
    plan.loads.iter().for_each(|load| backlogs[load.thread as usize] = load.outstanding);
    let mut halves: Vec<(Vec<Client>, Vec<Server>)> =
        plan.threads.iter().map(|_| (Vec::new(), Vec::new())).collect();
    for session in plan.sessions.iter().map(|session| config.fit(session)) {
        let (from, to) = (session.client as usize, session.server as usize);
        let ends = Ends { client: halves[from].0.len() as u32, server: halves[to].1.len() as u32 };
        halves[from].0.push(Client::new(session, ends, frames, backlogs[from]));
        halves[to].1.push(Server::new(session, ends, frames));
    }
    halves.into_iter().map(|(clients, servers)| Thread::new(clients, servers)).collect()
}
