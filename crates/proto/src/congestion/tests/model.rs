//! A closed loop: senders with endless data, one bottleneck queue, one algorithm's instance each.
//!
//! Seeded and in virtual time. Each sender has a link of the bottleneck's rate, so that bursts
//! arrive at line rate; hosts look at their packets up to `host_ns` late. Lost packets are noticed
//! when what was queued behind them has returned.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use petasos_base::{Rng, Time};

use crate::{Congestion, CongestionConfig, Feedback, Pacer};

/// The bottleneck and its senders.
#[derive(Clone, Copy, Debug)]
pub(super) struct Model {
    pub(super) config: CongestionConfig,
    pub(super) senders: usize,
    /// Packets in flight that the receiver grants to each.
    pub(super) credits: u32,
    /// Round trip with empty queues.
    pub(super) base_ns: u64,
    /// How late hosts look at what arrived, at most.
    pub(super) host_ns: u64,
    /// The senders start at random in so long.
    pub(super) start_ns: u64,
    /// What the queue holds before it drops.
    pub(super) buffer_bytes: u64,
    /// From which backlog on arriving packets are marked.
    pub(super) mark_bytes: u64,
    /// Random loss, per packet.
    pub(super) loss: f64,
    pub(super) seed: u64,
}

/// What happened after the start-up.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outcome {
    /// Of the bottleneck's rate.
    pub(super) utilisation: f64,
    pub(super) p50_ns: u64,
    pub(super) p99_ns: u64,
    /// Of all packets, those of the start-up included.
    pub(super) p99_all_ns: u64,
    /// Jain's index of the senders' shares.
    pub(super) fairness: f64,
    pub(super) lost: u64,
    /// Senders that are paced at the end.
    pub(super) paced: usize,
}

impl Model {
    /// The milestone's incast: 25 Gbit/s, 6 µs, 12 MB of buffer.
    pub(super) fn incast(config: CongestionConfig, senders: usize) -> Model {
        Model {
            config,
            senders,
            credits: 32,
            base_ns: 6_000,
            host_ns: 1_000,
            start_ns: 5_000,
            buffer_bytes: 12_000_000,
            mark_bytes: 80_000,
            loss: 0.0,
            seed: 1,
        }
    }

    /// Runs for 40 ms and measures the last 30.
    pub(super) fn run(self) -> Outcome {
        let mut run = Run::new(self);
        for index in 0..self.senders {
            let start_ns = run.rng.below(self.start_ns);
            run.schedule(start_ns, Event::Wake(index));
        }
        while let Some(Reverse((at_ns, _, event))) = run.events.pop() {
            if at_ns > END_NS {
                break;
            }
            run.handle(at_ns, event);
        }
        run.outcome()
    }
}

struct Run {
    model: Model,
    rng: Rng,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    sequence: u64,
    senders: Vec<Sender>,
    /// When the bottleneck has sent all that it holds.
    queue_free_ns: u64,
    rtts_ns: Vec<(u64, u64)>,
    lost: u64,
}

struct Sender {
    congestion: Congestion,
    pacer: Pacer,
    waiting: bool,
    in_flight: u32,
    link_free_ns: u64,
    delivered: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Wake(usize),
    Arrive { sender: usize, sent_ns: u64 },
    Return { sender: usize, sent_ns: u64, marked: bool },
    Lost(usize),
}

impl Run {
    fn new(model: Model) -> Run {
        let sender = || Sender {
            congestion: Congestion::new(&model.config, model.credits),
            pacer: Pacer::default(),
            waiting: false,
            in_flight: 0,
            link_free_ns: 0,
            delivered: 0,
        };
        Run {
            model,
            rng: Rng::new(model.seed),
            events: BinaryHeap::new(),
            sequence: 0,
            senders: (0..model.senders).map(|_| sender()).collect(),
            queue_free_ns: 0,
            rtts_ns: Vec::new(),
            lost: 0,
        }
    }

    fn schedule(&mut self, at_ns: u64, event: Event) {
        self.sequence += 1;
        self.events.push(Reverse((at_ns, self.sequence, event)));
    }

    fn packet_ns(&self) -> u64 {
        u64::from(self.model.config.packet_bytes) * 1_000_000_000
            / self.model.config.link_bytes_per_s
    }

    fn handle(&mut self, now_ns: u64, event: Event) {
        let now = Time::from_nanos(now_ns);
        match event {
            Event::Wake(sender) => {
                self.senders[sender].waiting = false;
                self.send(sender, now_ns);
            }
            Event::Arrive { sender, sent_ns } => self.arrive(sender, sent_ns, now_ns),
            Event::Return { sender, sent_ns, marked } => {
                let state = &mut self.senders[sender];
                state.in_flight -= 1;
                state.delivered += u64::from(now_ns > WARM_NS);
                let rtt_ns = now_ns - sent_ns;
                let (marked, in_flight) = (u32::from(marked), state.in_flight);
                let feedback = Feedback { rtt_ns, packets: 1, marked, in_flight, served: false };
                state.congestion.on_sample(now, &feedback);
                self.rtts_ns.push((now_ns, rtt_ns));
                self.send(sender, now_ns);
            }
            Event::Lost(sender) => {
                let state = &mut self.senders[sender];
                state.in_flight -= 1;
                state.congestion.on_loss(now, 1);
                self.lost += 1;
                self.send(sender, now_ns);
            }
        }
    }

    fn send(&mut self, index: usize, now_ns: u64) {
        let now = Time::from_nanos(now_ns);
        let config = self.model.config;
        let packet_ns = self.packet_ns();
        while !self.senders[index].waiting {
            let state = &mut self.senders[index];
            if state.in_flight >= state.congestion.window_packets(self.model.credits) {
                return;
            }
            if let Some(pace) = state.congestion.pace() {
                if !state.pacer.is_open(now, config.burst_ns) {
                    state.waiting = true;
                    let wake_ns = state.pacer.opens_at().as_nanos().next_multiple_of(WHEEL_NS);
                    self.schedule(wake_ns, Event::Wake(index));
                    return;
                }
                state.pacer.charge(now, config.packet_bytes, pace);
            }
            state.in_flight += 1;
            state.link_free_ns = state.link_free_ns.max(now_ns) + packet_ns;
            let arrive_ns = state.link_free_ns + (self.model.base_ns - 2 * packet_ns) / 2;
            self.schedule(arrive_ns, Event::Arrive { sender: index, sent_ns: now_ns });
        }
    }

    fn arrive(&mut self, sender: usize, sent_ns: u64, now_ns: u64) {
        let backlog_ns = self.queue_free_ns.saturating_sub(now_ns);
        let backlog = backlog_ns * self.model.config.link_bytes_per_s / 1_000_000_000;
        let back_ns = (self.model.base_ns - 2 * self.packet_ns()) / 2;
        let host_ns = self.rng.below(self.model.host_ns + 1);
        let full = backlog > self.model.buffer_bytes;
        if full || self.rng.chance(self.model.loss) {
            self.schedule(now_ns + backlog_ns + back_ns + host_ns, Event::Lost(sender));
            return;
        }
        self.queue_free_ns = now_ns + backlog_ns + self.packet_ns();
        let marked = backlog > self.model.mark_bytes;
        let return_ns = self.queue_free_ns + back_ns + host_ns;
        self.schedule(return_ns, Event::Return { sender, sent_ns, marked });
    }

    fn outcome(self) -> Outcome {
        let shares: Vec<f64> = self.senders.iter().map(|s| s.delivered as f64).collect();
        let (sum, squares) =
            (shares.iter().sum::<f64>(), shares.iter().map(|s| s * s).sum::<f64>());
        let warm = self.rtts_ns.iter().filter(|(at_ns, _)| *at_ns > WARM_NS);
        let warm: Vec<u64> = warm.map(|(_, rtt_ns)| *rtt_ns).collect();
        let all = self.rtts_ns.iter().map(|(_, rtt_ns)| *rtt_ns).collect();
        let full = (END_NS - WARM_NS) as f64 / self.packet_ns() as f64;
        let paced = self.senders.iter().filter(|s| s.congestion.pace().is_some()).count();
        Outcome {
            utilisation: sum / full,
            p50_ns: quantile(warm.clone(), 0.5),
            p99_ns: quantile(warm, 0.99),
            p99_all_ns: quantile(all, 0.99),
            fairness: sum * sum / (shares.len() as f64 * squares),
            lost: self.lost,
            paced,
        }
    }
}

fn quantile(mut values: Vec<u64>, at: f64) -> u64 {
    values.sort_unstable();
    values[((values.len() - 1) as f64 * at) as usize]
}

const END_NS: u64 = 40_000_000;
const WARM_NS: u64 = 10_000_000;
/// Departures are rounded up to the slots of the timing wheel.
const WHEEL_NS: u64 = 512;
