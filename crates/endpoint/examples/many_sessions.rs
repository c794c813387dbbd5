//! What many sessions cost: RPCs of 32 bytes between two endpoints in one thread's memory, each on
//! a session picked at random, or on the sessions in turn.
//!
//! `many_sessions [SESSIONS] [RPCS] [AHEAD] [turn]`: 20,000 sessions and a million RPCs unless told
//! otherwise. With AHEAD > 0 the client picks that many sessions before it needs them and says so.
//! Prints one line of JSON. Compare runs with few and many sessions: the difference is what misses
//! of caches and of address translation cost.

use std::collections::VecDeque;

use petasos_endpoint::{
    Clock, Completion, Context, Endpoint, EndpointConfig, MsgBuf, Request, SessionId,
};
use petasos_netio::memory::{Hub, MemoryConfig};

const ECHO: u16 = 1;
const WINDOW: usize = 64;

struct Client {
    sessions: Vec<SessionId>,
    picked: VecDeque<SessionId>,
    rng: petasos_base::Rng,
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

fn main() {
    let argument =
        |at, default| std::env::args().nth(at).map_or(default, |n| n.parse().expect("a number"));
    let (sessions, goal, ahead): (u64, u64, u64) =
        (argument(1, 20_000), argument(2, 1_000_000), argument(3, 0));
    let hub = Hub::direct(MemoryConfig::default());
    let config = || EndpointConfig { seed: Some(1), ..EndpointConfig::default() };
    let mut server = Endpoint::new(config(), hub.port(), Clock::system(), ());
    server.register(ECHO, echo);
    let state = Client {
        sessions: Vec::new(),
        picked: VecDeque::new(),
        rng: petasos_base::Rng::new(1),
        turn: (std::env::args().nth(4).as_deref() == Some("turn")).then_some(0),
        completed: 0,
        started: 0,
        goal,
    };
    let mut client = Endpoint::new(config(), hub.port(), Clock::system(), state);
    for _ in 0..sessions {
        connect(&mut client, &mut server);
    }
    let (state, cx) = client.split();
    for _ in 0..ahead {
        let session = state.pick();
        state.picked.push_back(session);
    }
    for _ in 0..WINDOW {
        state.start(cx, MsgBuf::from_slice(&[7; 32]));
    }
    let begin = client.clock().now();
    while client.state().completed < goal {
        client.run_once();
        server.run_once();
    }
    let elapsed_ns = client.clock().now().nanos_since(begin);
    let ns_per_rpc = elapsed_ns as f64 / goal as f64;
    println!("{{\"sessions\": {sessions}, \"rpcs\": {goal}, \"ns_per_rpc\": {ns_per_rpc:.1}}}");
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
