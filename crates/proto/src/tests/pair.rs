//! A client half and a server half joined by a virtual link, in virtual time.
//!
//! It plays the part of the embedding: it owns the bytes, the handlers and the clock, and calls
//! both halves in their documented order. While it runs it checks what holds at all times: every
//! handler runs at most once and sees the right bytes, every call ends exactly once, credits are
//! exceeded by probes only, and no buffer is lost.

use std::collections::BTreeMap;
use std::rc::Rc;

use petasos_base::Time;
use petasos_wire::{BITMAP_WORDS_MAX, Kind, Packet};

use super::link::{Link, Network, Sent, bytes_of};
use super::plan::{Buffer, Context, Outcome, Plan, request_of};
use crate::taken::Asker;
use crate::{
    Binding, Call, CallOptions, ClientSession, CongestionConfig, LinkPath, ServerSession,
    SessionParams, TimerConfig, Transmit,
};

pub(super) const CLIENT_SESSION: u32 = 7;
pub(super) const CLIENT_TAG: u32 = 0x0abc_def1;
pub(super) const SERVER_SESSION: u32 = 9;
pub(super) const SERVER_TAG: u32 = 0x0123_4567;
/// Message bytes per packet.
pub(super) const PAYLOAD: u32 = petasos_wire::PAYLOAD_BYTES_MIN;

/// More steps than any test takes: a run that needs more has stopped making progress.
const STEPS_MAX: u32 = 1_000_000;

#[derive(Clone, Copy, Debug)]
pub(super) struct Config {
    pub(super) slots: u32,
    pub(super) credits: u32,
    /// What a share may amount to, in either direction; no less than `credits`.
    pub(super) credits_max: u32,
    pub(super) request_bytes_max: u32,
    pub(super) response_bytes_max: u32,
    pub(super) recovery: crate::Recovery,
    pub(super) backlog_max: u32,
    pub(super) link: Link,
    pub(super) seed: u64,
    /// Whether the client sends "done" after a response of several packets.
    pub(super) done: bool,
    /// Whether both ends take the one-step ways of the common case.
    pub(super) short_cuts: bool,
    /// Whether the server has room for requests of several packets.
    pub(super) room: bool,
    pub(super) congestion: CongestionConfig,
    /// Probability that the network marks a packet.
    pub(super) marks: f64,
    /// Whether packets are forged, so that bytes and handlers' runs are not to be checked.
    pub(super) hostile: bool,
    /// The sessions are those of a pair of a group: with one slot, for one call.
    pub(super) bound: Option<Bound>,
}

/// How a pair is bound.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Bound {
    pub(super) request: u64,
    pub(super) is_whole: bool,
}

/// The transmission of a pair's first packet.
pub(super) const FIRST: u32 = 0x77_7777;

impl Default for Config {
    fn default() -> Config {
        Config {
            slots: 8,
            credits: 32,
            credits_max: 0,
            request_bytes_max: 8 << 20,
            response_bytes_max: 8 << 20,
            recovery: crate::Recovery::Selective,
            backlog_max: 64,
            link: Link::CLEAN,
            seed: 1,
            done: false,
            short_cuts: true,
            room: true,
            congestion: CongestionConfig::none(),
            marks: 0.0,
            hostile: false,
            bound: None,
        }
    }
}

impl Config {
    fn params(&self) -> SessionParams {
        SessionParams {
            peer_session: SERVER_SESSION,
            peer_tag: SERVER_TAG,
            local_tag: CLIENT_TAG,
            slots: self.slots,
            credits: self.credits,
            credits_max: self.credits_max.max(self.credits),
            room_packets: self.credits_max.max(self.credits),
            payload_bytes: PAYLOAD,
            request_bytes_max: self.request_bytes_max,
            response_bytes_max: self.response_bytes_max,
            recovery: self.recovery,
            checksum: false,
        }
    }
}

/// A handler's answer that is still to come.
#[derive(Clone, Copy, Debug)]
pub(super) struct Job {
    pub(super) slot: u32,
    pub(super) request: u64,
    pub(super) method: u16,
}

#[derive(Clone, Copy, Debug)]
enum Command {
    Start(u16),
    Cancel(u16),
}

pub(super) struct Pair {
    pub(super) config: Config,
    pub(super) client: ClientSession<Context>,
    pub(super) server: ServerSession<Option<Buffer>>,
    /// Of bound pairs.
    pub(super) path: LinkPath,
    pub(super) network: Network,
    pub(super) now: Time,
    pub(super) plans: Vec<Plan>,
    /// How often each plan's handler has run.
    pub(super) runs: Vec<u32>,
    /// How each call ended, and when.
    pub(super) outcomes: BTreeMap<u16, (Outcome, Time)>,
    pub(super) jobs: BTreeMap<(Time, u64), Job>,
    schedule: BTreeMap<(Time, u64), Command>,
    numbers: BTreeMap<u16, u64>,
    pub(super) sequence: u64,
    pub(super) living: Rc<()>,
}

impl Pair {
    pub(super) fn new(config: Config) -> Pair {
        let (params, timers) = (config.params(), TimerConfig::default());
        let mirrored = SessionParams {
            peer_session: CLIENT_SESSION,
            peer_tag: CLIENT_TAG,
            local_tag: SERVER_TAG,
            ..params
        };
        Pair {
            client: match config.bound {
                None => ClientSession::new(params, &timers, &config.congestion, config.backlog_max),
                Some(_) => ClientSession::for_pairs(params, &config.congestion),
            },
            server: match config.bound {
                None => ServerSession::new(mirrored),
                Some(_) => ServerSession::for_pairs(mirrored),
            },
            path: LinkPath::new(&timers, &config.congestion, &params),
            network: Network::new(config.link, config.seed),
            now: Time::from_nanos(1_000_000),
            plans: Vec::new(),
            runs: Vec::new(),
            outcomes: BTreeMap::new(),
            jobs: BTreeMap::new(),
            schedule: BTreeMap::new(),
            numbers: BTreeMap::new(),
            sequence: 0,
            living: Rc::new(()),
            config,
        }
    }

    /// A pair with the default configuration.
    pub(super) fn plain() -> Pair {
        Pair::new(Config::default())
    }

    /// Starts a call now; returns its method, which names it.
    pub(super) fn call(&mut self, plan: Plan) -> u16 {
        self.call_after(plan, 0)
    }

    /// Starts a call `delay_ns` from now.
    pub(super) fn call_after(&mut self, plan: Plan, delay_ns: u64) -> u16 {
        let method = u16::try_from(self.plans.len()).expect("a test makes fewer calls");
        self.plans.push(plan);
        self.runs.push(0);
        self.at(delay_ns, Command::Start(method));
        method
    }

    /// Cancels a call `delay_ns` from now, if it is not over by then.
    pub(super) fn cancel_after(&mut self, method: u16, delay_ns: u64) {
        self.at(delay_ns, Command::Cancel(method));
    }

    fn at(&mut self, delay_ns: u64, command: Command) {
        self.sequence += 1;
        self.schedule.insert((self.now.plus_nanos(delay_ns), self.sequence), command);
    }

    /// Runs until every call is over and no packet is under way.
    pub(super) fn run(&mut self) {
        for _ in 0..STEPS_MAX {
            if self.is_at_rest() {
                self.assert_at_rest();
                return;
            }
            assert!(self.step(Time::NEVER), "calls are open but nothing will ever happen");
        }
        panic!("no progress: {:?} and {:?}", self.client, self.server);
    }

    /// Runs for `us` microseconds.
    pub(super) fn run_for_us(&mut self, us: u64) {
        let until = self.now.plus_nanos(us * 1000);
        for _ in 0..STEPS_MAX {
            if !self.step(until) {
                self.now = until;
                return;
            }
        }
        panic!("time stands still: {:?} and {:?}", self.client, self.server);
    }

    /// Makes one turn at the time of the next event, unless that lies after `until`.
    fn step(&mut self, until: Time) -> bool {
        let first = |at: Option<Time>| at.unwrap_or(Time::NEVER);
        let at = self
            .network
            .next_at()
            .min(first(self.jobs.keys().next().map(|(at, _)| *at)))
            .min(first(self.schedule.keys().next().map(|(at, _)| *at)))
            .min(self.client.next_timeout())
            .min(self.client.next_send());
        if at == Time::NEVER || at > until {
            return false;
        }
        self.now = self.now.max(at);
        self.turn();
        true
    }

    fn turn(&mut self) {
        let arrived = self.network.arrivals(self.now);
        let to_server = |bytes: &Vec<u8>| bytes[0] >> 7 == 0;
        let (requests, responses): (Vec<_>, Vec<_>) = arrived.into_iter().partition(to_server);
        self.client_turn(&responses);
        self.server_turn(&requests);
        self.client.assert_consistent();
        self.server.assert_consistent();
        let buffers = Rc::strong_count(&self.living) - 1;
        assert!(buffers <= self.config.slots as usize, "a slot keeps one buffer at most");
    }

    fn client_turn(&mut self, arrived: &[Vec<u8>]) {
        for bytes in arrived {
            self.client_packet(bytes);
        }
        while let Some(expired) = self.client.poll_expired(self.now) {
            let timeout_ns = self.plans[usize::from(expired.context.method)].timeout_ns;
            assert!(timeout_ns.is_some(), "only calls with a timeout expire");
            self.send_cancel(expired.cancel);
            self.end(expired.context, Outcome::Expired);
        }
        let due = self.client.next_timeout() <= self.now;
        let probes = if due { self.client.handle_timeout(self.now) } else { 0 };
        let pulled_before = self.client.pulled();
        let requests_before = self.client.in_flight() - pulled_before;
        self.commands();
        self.client.start_queued(self.now);
        assert!(self.client.wants_turn() || self.client.poll_transmit(self.now).is_none());
        while let Some(transmit) = self.client.poll_transmit(self.now) {
            self.transmit(transmit);
        }
        assert!(self.client.next_send() > self.now, "what may leave now has left");
        let pulled = self.client.pulled();
        let requests = self.client.in_flight() - pulled;
        let requests_limit = requests_before.max(self.client.window()) + probes;
        let pulled_limit = pulled_before.max(self.client.pull_window()) + probes;
        assert!(requests <= requests_limit, "the window is exceeded by probes only");
        assert!(pulled <= pulled_limit, "pulls exceed their window by probes only");
    }

    fn commands(&mut self) {
        while let Some(entry) = self.schedule.first_entry() {
            if entry.key().0 > self.now {
                return;
            }
            match entry.remove() {
                Command::Start(method) => self.start(method),
                Command::Cancel(method) => self.cancel(method),
            }
        }
    }

    fn start(&mut self, method: u16) {
        let plan = self.plans[usize::from(method)];
        let options = CallOptions {
            method,
            encoding: petasos_wire::Encoding::Opaque,
            request_bytes: plan.request_bytes,
            response_bytes_max: plan.response_bytes_max,
            timeout_at: plan.timeout_ns.map_or(Time::NEVER, |ns| self.now.plus_nanos(ns)),
        };
        let request = request_of(method, plan.request_bytes);
        let context = Context { method, request, response: Vec::new() };
        if let Some(bound) = self.config.bound {
            return self.bind(bound, Call { options, context });
        }
        let Some(context) = self.start_short(options, context) else { return };
        match self.client.enqueue(Call { options, context }, self.now) {
            Ok(enqueued) => _ = self.numbers.insert(method, enqueued.call),
            Err(refused) => self.end(refused.context, Outcome::Refused),
        }
    }

    /// Binds both sessions to a pair.
    fn bind(&mut self, bound: Bound, call: Call<Context>) {
        let Bound { request, is_whole } = bound;
        let (method, message) = (call.options.method, call.context.request.clone());
        let params = *self.server.params();
        let asker = Asker {
            client: 0,
            pair: params.peer_session,
            pair_tag: params.peer_tag,
            request,
            echo: FIRST,
            message_bytes: call.options.request_bytes,
            expires_at: Time::NEVER,
        };
        match is_whole {
            true => self.server.bind_whole(params, &asker),
            false => self.server.bind_claim(params, &asker),
        }
        let credits = (!is_whole).then_some(self.config.credits);
        let binding = Binding { request, is_whole, credits };
        let params = *self.client.params();
        let number = self.client.stats().calls;
        self.numbers.insert(call.options.method, number);
        self.client.bind(params, &mut self.path, binding, call, self.now);
        if is_whole {
            self.run_method(0, method, &message);
        }
    }

    /// Sends the call in one step if that is possible and wanted; otherwise gives its context back.
    fn start_short(&mut self, options: CallOptions, context: Context) -> Option<Context> {
        if !self.config.short_cuts {
            return Some(context);
        }
        match self.client.send_short(options, context, self.now) {
            Ok(sent) => {
                self.numbers.insert(options.method, sent.call);
                let packet = bytes_of(sent.header, &sent.context.request);
                self.network.send(packet, self.now);
                None
            }
            Err(context) => Some(context),
        }
    }

    fn cancel(&mut self, method: u16) {
        let Some(number) = self.numbers.get(&method) else { return };
        if let Some(cancelled) = self.client.cancel(*number) {
            assert_eq!(cancelled.context.method, method, "the call that was meant");
            self.send_cancel(cancelled.cancel);
            self.end(cancelled.context, Outcome::Cancelled);
        }
    }

    pub(super) fn send_cancel(&mut self, header: Option<petasos_wire::Header>) {
        if let Some(header) = header {
            self.network.send(bytes_of(header, &[]), self.now);
        }
    }

    pub(super) fn end(&mut self, context: Context, outcome: Outcome) {
        if self.config.bound.is_some() {
            self.client.leave(&mut self.path);
        }
        let known = self.outcomes.insert(context.method, (outcome, self.now));
        assert!(known.is_none(), "a call ends once");
    }

    fn transmit(&mut self, transmit: Transmit) {
        let bytes = match transmit {
            Transmit::Bare(header) => bytes_of(header, &[]),
            Transmit::Request { slot, request, index, header } => {
                let context = self.client.context_of(slot, request);
                let message = &context.expect("the call is still there").request;
                let start = (index * PAYLOAD) as usize;
                let end = message.len().min(start + PAYLOAD as usize);
                bytes_of(header, &message[start..end])
            }
        };
        self.network.send(bytes, self.now);
    }

    fn server_turn(&mut self, arrived: &[Vec<u8>]) {
        for bytes in arrived {
            self.server_packet(bytes);
        }
        while let Some(entry) = self.jobs.first_entry() {
            if entry.key().0 > self.now {
                break;
            }
            let job = entry.remove();
            self.respond(job);
        }
        let mut words = [0; BITMAP_WORDS_MAX];
        while let Some(ack) = self.server.poll_ack(&mut words) {
            let used = &words[..ack.bitmap_words as usize];
            let bitmap: Vec<u8> = used.iter().flat_map(|word| word.to_le_bytes()).collect();
            self.network.send(bytes_of(ack.header, &bitmap), self.now);
        }
    }

    fn is_at_rest(&self) -> bool {
        let client = self.client.busy() == 0 && self.client.backlog() == 0;
        client && self.network.is_empty() && self.jobs.is_empty() && self.schedule.is_empty()
    }

    fn assert_at_rest(&self) {
        assert_eq!(self.client.in_flight(), 0, "credits are conserved");
        assert_eq!(self.outcomes.len(), self.plans.len(), "every call has ended");
    }

    /// Whether the network has marked `packet`, which arrives now.
    pub(super) fn is_marked(&mut self, packet: &Packet<'_>) -> bool {
        self.network.marks(packet, self.config.marks)
    }

    /// How `method`'s call ended.
    #[track_caller]
    pub(super) fn outcome(&self, method: u16) -> Outcome {
        self.outcomes.get(&method).expect("the call is over").0.clone()
    }

    /// The kinds of all packets sent, in order.
    pub(super) fn kinds(&self) -> Vec<Kind> {
        self.network.log.iter().map(|sent| sent.kind).collect()
    }

    /// All packets sent of `kind`, in order.
    pub(super) fn sent(&self, kind: Kind) -> Vec<Sent> {
        self.network.log.iter().filter(|sent| sent.kind == kind).copied().collect()
    }
}
