//! A seeded queueing model: several channels, servers of different speed, Poisson arrivals. Power
//! of two and Prequal must beat round robin at the 99th percentile by a wide margin.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use petasos_base::{Rng, Time};
use petasos_call::Load;
use petasos_call::balance::{Balance, Report};
use petasos_call::channel::{
    Action, CallOptions, ChannelConfig, ChannelCore, Pick, SessionIndex, Ticket,
};

const SERVERS: usize = 20;
const CHANNELS: usize = 4;
const CALLS: usize = 40_000;
/// From a channel to a server, or back.
const HOP_NANOS: u64 = 20_000;
/// Mean work of a call at a server of speed 1.
const WORK_NANOS: f64 = 1_000_000.0;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Arrival,
    AtServer(usize, usize),
    Served(usize),
    Back(usize),
    /// Channel, server, and the session's place in the model's list.
    ProbeAt(usize, usize, usize),
    /// Channel, the session's place, and what the server says.
    ProbeBack(usize, usize, u16, u32),
    Timer(usize),
}

struct Call {
    channel: usize,
    arrived: Time,
    sent: Time,
    session: Option<SessionIndex>,
    report: Load,
}

/// One core, first come, first served. Keeps a mean of its times, as servers tell it.
struct Server {
    speed: f64,
    queue: VecDeque<(usize, Time)>,
    time_us: f64,
}

struct Model {
    now: Time,
    rng: Rng,
    events: BinaryHeap<Reverse<(Time, u64, Event)>>,
    sequence: u64,
    channels: Vec<ChannelCore>,
    waiting: Vec<HashMap<Ticket, usize>>,
    timers: Vec<Time>,
    sessions: Vec<SessionIndex>,
    /// The server of each session, by channel and the session's number.
    servers_of: Vec<Vec<usize>>,
    servers: Vec<Server>,
    calls: Vec<Call>,
    latencies: Vec<u64>,
    probes: usize,
}

impl Model {
    fn new(balance: Balance, speeds: &[f64], seed: u64) -> Model {
        let config = ChannelConfig { balance, ..ChannelConfig::default() };
        let address = |at| SocketAddr::from((Ipv4Addr::LOCALHOST, at));
        let list: Vec<SocketAddr> = (1..).map(address).take(speeds.len()).collect();
        let channel = || {
            let mut core = ChannelCore::new(config.clone());
            core.handle_addresses(&list, Time::ZERO);
            core.connect();
            core
        };
        let server = |&speed: &f64| Server { speed, queue: VecDeque::new(), time_us: 0.0 };
        Model {
            now: Time::ZERO,
            rng: Rng::new(seed),
            events: BinaryHeap::new(),
            sequence: 0,
            channels: (0..CHANNELS).map(|_| channel()).collect(),
            waiting: vec![HashMap::new(); CHANNELS],
            timers: vec![Time::NEVER; CHANNELS],
            sessions: Vec::new(),
            servers_of: vec![Vec::new(); CHANNELS],
            servers: speeds.iter().map(server).collect(),
            calls: Vec::new(),
            latencies: Vec::new(),
            probes: 0,
        }
    }

    fn at(&mut self, after_nanos: u64, event: Event) {
        self.sequence += 1;
        self.events.push(Reverse((self.now.plus_nanos(after_nanos), self.sequence, event)));
    }

    fn exponential(&mut self, mean: f64) -> f64 {
        let uniform = (self.rng.below(1 << 53) + 1) as f64 / (1u64 << 53) as f64;
        -uniform.ln() * mean
    }

    /// Runs all calls, at this share of the servers' total speed. Sorted latencies in ns.
    fn run(mut self, utilization: f64) -> (Vec<u64>, usize) {
        let speed: f64 = self.servers.iter().map(|server| server.speed).sum();
        let gap = WORK_NANOS / speed / utilization;
        (0..CHANNELS).for_each(|channel| self.drive(channel));
        self.at(0, Event::Arrival);
        while let Some(Reverse((time, _, event))) = self.events.pop() {
            self.now = time;
            match event {
                Event::Arrival => self.arrive(gap),
                Event::AtServer(server, call) => self.enqueue(server, call),
                Event::Served(server) => self.serve(server),
                Event::Back(call) => self.finish(call),
                Event::ProbeAt(channel, server, session) => self.probe(channel, server, session),
                Event::ProbeBack(channel, session, running, time_us) => {
                    let load = Some(Load { running, time_us });
                    let report = Some(Report { latency: Duration::ZERO, load });
                    let session = self.sessions[session];
                    let core = &mut self.channels[channel];
                    core.handle_probed(session, report, self.now, &mut self.rng);
                    self.drive(channel);
                }
                Event::Timer(channel) => self.drive(channel),
            }
        }
        assert_eq!(self.latencies.len(), CALLS, "every call ends");
        self.latencies.sort_unstable();
        (self.latencies, self.probes)
    }

    fn arrive(&mut self, gap: f64) {
        let channel = self.rng.below(CHANNELS as u64) as usize;
        let now = self.now;
        let report = Load::default();
        self.calls.push(Call { channel, arrived: now, sent: now, session: None, report });
        let call = self.calls.len() - 1;
        match self.channels[channel].pick(CallOptions::default(), now, &mut self.rng) {
            Pick::Session(session) => self.send(call, session),
            Pick::Wait(ticket) => {
                self.waiting[channel].insert(ticket, call);
            }
            Pick::Fail(error) => panic!("no server fails here: {error}"),
        }
        self.drive(channel);
        if self.calls.len() < CALLS {
            let next = self.exponential(gap) as u64;
            self.at(next, Event::Arrival);
        }
    }

    fn send(&mut self, call: usize, session: SessionIndex) {
        let entry = &mut self.calls[call];
        (entry.session, entry.sent) = (Some(session), self.now);
        let server = self.servers_of[entry.channel][session.number()];
        self.at(HOP_NANOS, Event::AtServer(server, call));
    }

    fn enqueue(&mut self, server: usize, call: usize) {
        self.servers[server].queue.push_back((call, self.now));
        if self.servers[server].queue.len() == 1 {
            self.work(server);
        }
    }

    fn work(&mut self, server: usize) {
        let mean = WORK_NANOS / self.servers[server].speed;
        let nanos = self.exponential(mean) as u64;
        self.at(nanos, Event::Served(server));
    }

    fn serve(&mut self, server: usize) {
        let now = self.now;
        let entry = &mut self.servers[server];
        let (call, since) = entry.queue.pop_front().expect("a call is being served");
        entry.time_us += (now.nanos_since(since) as f64 / 1000.0 - entry.time_us) / 8.0;
        let load = entry.load();
        if !entry.queue.is_empty() {
            self.work(server);
        }
        self.calls[call].report = load;
        self.at(HOP_NANOS, Event::Back(call));
    }

    fn finish(&mut self, call: usize) {
        let entry = &self.calls[call];
        let (channel, session) = (entry.channel, entry.session.expect("it was sent"));
        self.latencies.push(self.now.nanos_since(entry.arrived));
        let report = Report { latency: self.now - entry.sent, load: Some(entry.report) };
        self.channels[channel].handle_ended(session, Some(report), self.now);
        self.drive(channel);
    }

    fn probe(&mut self, channel: usize, server: usize, session: usize) {
        let load = self.servers[server].load();
        self.at(HOP_NANOS, Event::ProbeBack(channel, session, load.running, load.time_us));
    }

    /// Does what a channel asks for.
    fn drive(&mut self, channel: usize) {
        while let Some(action) = self.channels[channel].poll_action(self.now) {
            match action {
                Action::Connect { peer, address, slots } => {
                    let core = &mut self.channels[channel];
                    let session = core.handle_connected(peer, slots, self.now);
                    let number = session.expect("the session is wanted").number();
                    let servers = &mut self.servers_of[channel];
                    servers.resize(servers.len().max(number + 1), usize::MAX);
                    servers[number] = usize::from(address.port()) - 1;
                }
                Action::Probe(session) => {
                    self.probes += 1;
                    self.sessions.push(session);
                    let server = self.servers_of[channel][session.number()];
                    let place = self.sessions.len() - 1;
                    self.at(HOP_NANOS, Event::ProbeAt(channel, server, place));
                }
                Action::Close(_) => {}
                Action::Resolve => panic!("the addresses are fixed"),
            }
        }
        let (core, now) = (&mut self.channels[channel], self.now);
        let picked: Vec<_> = std::iter::from_fn(|| core.poll_waiting(now, &mut self.rng)).collect();
        for (ticket, picked) in picked {
            let call = self.waiting[channel].remove(&ticket).expect("the call waits");
            self.send(call, picked.expect("no server fails here"));
        }
        self.set_timer(channel);
    }

    /// Events go on until the last call has ended, so a channel needs one timer at a time.
    fn set_timer(&mut self, channel: usize) {
        let next = self.channels[channel].next_timeout();
        let is_earlier = next < self.timers[channel] || self.timers[channel] < self.now;
        if next != Time::NEVER && is_earlier && self.latencies.len() < CALLS {
            self.timers[channel] = next;
            self.at(next.nanos_since(self.now), Event::Timer(channel));
        }
    }
}

impl Server {
    fn load(&self) -> Load {
        Load { running: self.queue.len() as u16, time_us: self.time_us as u32 }
    }
}

fn p99_ms(sorted: &[u64]) -> f64 {
    sorted[sorted.len() * 99 / 100] as f64 / 1e6
}

/// The 99th percentiles in ms of round robin, power of two and Prequal, with the same seed.
fn compare(speeds: &[f64], utilization: f64, seed: u64) -> [f64; 3] {
    [Balance::RoundRobin, Balance::PowerOfTwo, Balance::Prequal].map(|balance| {
        let (latencies, probes) = Model::new(balance, speeds, seed).run(utilization);
        assert!(balance == Balance::Prequal || probes == 0);
        assert!(probes < 3 * CALLS, "what is known is not asked for: {probes}");
        let p99 = p99_ms(&latencies);
        println!("{balance:?} at {utilization}: p99 {p99:.2} ms, {probes} probes");
        p99
    })
}

#[test]
fn load_aware_policies_beat_round_robin_where_servers_differ() {
    // A third of the servers is four times slower, as beside a noisy neighbour.
    let speeds: Vec<f64> = (0..SERVERS).map(|at| if at % 3 == 0 { 0.25 } else { 1.0 }).collect();
    // At 0.3 even the slow ones keep up with round robin; at 0.5 they do not.
    for (utilization, seed) in [(0.3, 1), (0.3, 2), (0.5, 3)] {
        let [round_robin, power_of_two, prequal] = compare(&speeds, utilization, seed);
        assert!(power_of_two * 2.0 < round_robin, "{power_of_two} against {round_robin}");
        assert!(prequal * 2.0 < round_robin, "{prequal} against {round_robin}");
    }
}

#[test]
fn prequal_is_no_worse_than_power_of_two_where_few_servers_are_fast() {
    let speeds: Vec<f64> = (0..SERVERS).map(|at| if at % 2 == 0 { 0.2 } else { 1.0 }).collect();
    for seed in [4, 5, 6] {
        let [_, power_of_two, prequal] = compare(&speeds, 0.6, seed);
        assert!(prequal < power_of_two * 1.1, "{prequal} against {power_of_two}");
    }
}
