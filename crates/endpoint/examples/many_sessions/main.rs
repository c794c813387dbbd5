//! What many sessions cost: RPCs of 32 bytes between two endpoints in one thread's memory, each on
//! a session picked at random, or on the sessions in turn.
//!
//! `many_sessions [SESSIONS] [RPCS] [AHEAD] [turn] [bare] [steady] [slots=N]`: 20,000 sessions and
//! a million RPCs unless told otherwise. With AHEAD > 0 the client picks that many sessions before
//! it needs them and says so. Prints one line of JSON. Compare runs with few and many sessions: the
//! difference is what misses of caches and of address translation cost.
//!
//! - `turn`: on the sessions in turn.
//! - `bare`: the same with ten sessions, and a bare loop that does nothing but touch the fewest
//!   cache lines that a call needs, of as many sessions picked in the same way. `bound_ns` is the
//!   sum of these two: no layout of the same code can be much faster.
//! - `slots=N`: sessions of N slots.
//! - `steady`: on a clock that goes by 250 ns for each call, for counting misses under valgrind,
//!   which would make round trips long.

mod bare;

use std::collections::VecDeque;

use petasos_base::{Rng, Time, VirtualClock};
use petasos_endpoint::{
    Clock, Completion, Context, Endpoint, EndpointConfig, MsgBuf, Request, SessionId,
};
use petasos_netio::memory::{Hub, MemoryConfig};

const ECHO: u16 = 1;
const WINDOW: usize = 64;
const FEW_SESSIONS: u64 = 10;
const STEADY_NS: u64 = 250;

struct Client {
    sessions: Vec<SessionId>,
    picked: VecDeque<SessionId>,
    rng: Rng,
    /// Whether sessions are taken in turn, and whose turn is next.
    turn: Option<usize>,
    completed: u64,
    started: u64,
    goal: u64,
}

impl Client {
    fn pick(&mut self) -> SessionId {
        if let Some(turn) = &mut self.turn {
            *turn = (*turn + 1) % self.sessions.len();
            return self.sessions[*turn];
        }
        self.sessions[self.rng.below(self.sessions.len() as u64) as usize]
    }

    fn start(&mut self, cx: &mut Context<Client>, request: MsgBuf) {
        self.started += 1;
        let next = self.pick();
        self.picked.push_back(next);
        cx.will_call(next);
        let session = self.picked.pop_front().expect("one has just been added");
        cx.enqueue_request(session, ECHO, request, done, 0).expect("the session is ready");
    }
}

fn echo(_: &mut (), cx: &mut Context<()>, request: Request<'_>) {
    cx.respond_with(request.handle, &request.payload);
}

fn done(client: &mut Client, cx: &mut Context<Client>, completion: Completion<'_>) {
    assert_eq!(completion.result.expect("loopback loses nothing").len(), 32);
    client.completed += 1;
    if client.started < client.goal {
        client.start(cx, completion.request);
    } else {
        cx.free(completion.request);
    }
}

/// What is measured.
struct Load {
    sessions: u64,
    rpcs: u64,
    ahead: u64,
    turn: bool,
    steady: bool,
    slots: Option<u32>,
}

fn main() {
    let argument =
        |at, default| std::env::args().nth(at).map_or(default, |n| n.parse().expect("a number"));
    let has = |word| std::env::args().skip(4).any(|argument| argument == word);
    let (sessions, rpcs, ahead) = (argument(1, 20_000), argument(2, 1_000_000), argument(3, 0));
    let slots = std::env::args().find_map(|word| Some(word.strip_prefix("slots=")?.to_owned()));
    let slots = slots.map(|slots| slots.parse().expect("a number"));
    let load = Load { sessions, rpcs, ahead, turn: has("turn"), steady: has("steady"), slots };
    let ns = ns_per_rpc(&load);
    if !has("bare") {
        println!("{{\"sessions\": {sessions}, \"rpcs\": {rpcs}, \"ns_per_rpc\": {ns:.1}}}");
        return;
    }
    let few_ns = ns_per_rpc(&Load { sessions: FEW_SESSIONS, ..load });
    let bare_ns = bare::ns_per_call(sessions as usize, rpcs, ahead as usize, WINDOW);
    let bound_ns = few_ns + bare_ns;
    println!(
        "{{\"sessions\": {sessions}, \"rpcs\": {rpcs}, \"ns_per_rpc\": {ns:.1}, \
         \"few_ns\": {few_ns:.1}, \"bare_ns\": {bare_ns:.1}, \"bound_ns\": {bound_ns:.1}, \
         \"of_few\": {:.2}, \"of_bound\": {:.2}}}",
        few_ns / ns,
        bound_ns / ns,
    );
}

fn ns_per_rpc(load: &Load) -> f64 {
    let virtual_clock = VirtualClock::default();
    let clock = || match load.steady {
        true => Clock::Virtual(virtual_clock.clone()),
        false => Clock::system(),
    };
    let hub = Hub::direct(MemoryConfig::default());
    let config = || {
        let mut config = EndpointConfig { seed: Some(1), ..EndpointConfig::default() };
        config.session.slots = load.slots.unwrap_or(config.session.slots);
        config.requests_per_peer_max = u32::MAX;
        config
    };
    let mut server = Endpoint::new(config(), hub.port(), clock(), ());
    server.register(ECHO, echo);
    let state = Client {
        sessions: Vec::new(),
        picked: VecDeque::new(),
        rng: Rng::new(1),
        turn: load.turn.then_some(0),
        completed: 0,
        started: 0,
        goal: load.rpcs,
    };
    let mut client = Endpoint::new(config(), hub.port(), clock(), state);
    for _ in 0..load.sessions {
        connect(&mut client, &mut server);
    }
    let (state, cx) = client.split();
    for _ in 0..load.ahead {
        let session = state.pick();
        state.picked.push_back(session);
    }
    for _ in 0..WINDOW {
        state.start(cx, MsgBuf::from_slice(&[7; 32]));
    }
    let real = Clock::system();
    let begin = real.now();
    while client.state().completed < load.rpcs {
        virtual_clock.set(Time::from_nanos((client.state().completed + 1) * STEADY_NS));
        client.run_once();
        server.run_once();
    }
    real.now().nanos_since(begin) as f64 / load.rpcs as f64
}

fn connect(client: &mut Endpoint<Client>, server: &mut Endpoint<()>) {
    let offer = client.open_session(server.local_address(), None);
    let offer = offer.expect("the hub reaches every port").expect("there is room for sessions");
    let client_ip = client.local_address().ip();
    let granted = server.accept_session(&offer.params, client_ip, None).expect("it is granted");
    let server_ip = server.local_address().ip();
    let ready = client.establish_session(&offer, &granted, server_ip);
    assert!(ready.expect("the hub reaches every port"));
    client.state_mut().sessions.push(offer.session);
}
