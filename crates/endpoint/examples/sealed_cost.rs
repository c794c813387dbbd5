//! What sealing costs: calls in the clear and sealed, in turns, over kernel UDP on loopback.
//!
//! Both endpoints run in one thread, so that the processor time of a call is that of both ends.
//! For each size of messages it prints the time of one call by itself, and of one among many, in
//! the clear and sealed, as the median of several turns; and how the two compare. Other load on the
//! machine disturbs both alike.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use petasos_endpoint::{
    Cipher, Clock, Completion, Context, Endpoint, EndpointConfig, Identity, MsgBuf, Request,
    SessionId, SessionSecret, SessionSecurity,
};
use petasos_netio_udp::{UdpConfig, UdpIo};
use rustix::time::{ClockId, clock_gettime};

const ECHO: u16 = 1;
const SESSIONS: usize = 8;
const ROUNDS: usize = 9;
const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// The sizes, and how many calls a turn makes one by one, and with so many at once.
const CASES: [(usize, u64, u64, usize); 3] =
    [(32, 4000, 100_000, 64), (1400, 4000, 60_000, 64), (65_536, 500, 3000, 4)];

#[derive(Default)]
struct Client {
    completed: u64,
    started: u64,
    goal: u64,
}

fn echo(_: &mut (), cx: &mut Context<()>, request: Request<'_>) {
    cx.respond_with(request.handle, &request.payload);
    if let petasos_endpoint::Payload::Buffer(buf) = request.payload {
        cx.free(buf);
    }
}

fn next(client: &mut Client, cx: &mut Context<Client>, completion: Completion<'_>) {
    let response = completion.result.expect("loopback carries it");
    if let petasos_endpoint::Payload::Buffer(buf) = response {
        cx.free(buf);
    }
    client.completed += 1;
    if client.started < client.goal {
        client.started += 1;
        let call = cx.enqueue_request(completion.session, ECHO, completion.request, next, 0);
        call.expect("the slot has just become free");
    } else {
        cx.free(completion.request);
    }
}

struct Pair {
    client: Endpoint<Client>,
    server: Endpoint<()>,
    sessions: Vec<SessionId>,
}

impl Pair {
    fn new(cipher: Option<Cipher>) -> Pair {
        let io = || {
            UdpIo::bind(SocketAddr::new(HERE, 0), UdpConfig::default()).expect("loopback has ports")
        };
        let clock = Clock::system();
        let mut server = Endpoint::new(EndpointConfig::default(), io(), clock.clone(), ());
        server.register(ECHO, echo);
        let state = Client::default();
        let mut client = Endpoint::new(EndpointConfig::default(), io(), clock, state);
        let connect = |at| connect(&mut client, &mut server, cipher.map(|one| security(one, at)));
        let sessions = (0..SESSIONS as u8).map(connect).collect();
        Pair { client, server, sessions }
    }

    /// Processor time of one of `calls` calls with `bytes`, `window` of them at once, in
    /// nanoseconds.
    fn time_ns(&mut self, bytes: usize, calls: u64, window: usize) -> f64 {
        let begin = cpu_ns();
        let (state, cx) = self.client.split();
        *state = Client { completed: 0, started: window as u64, goal: calls };
        for at in 0..window {
            let request = MsgBuf::from_slice(&vec![7; bytes]);
            let call = cx.enqueue_request(self.sessions[at % SESSIONS], ECHO, request, next, 0);
            call.expect("the session is ready");
        }
        while self.client.state().completed < calls {
            self.client.run_once();
            self.server.run_once();
        }
        (cpu_ns() - begin) as f64 / calls as f64
    }
}

fn connect(
    client: &mut Endpoint<Client>,
    server: &mut Endpoint<()>,
    security: Option<SessionSecurity>,
) -> SessionId {
    let offer = match security {
        None => client.open_session(server.local_address(), None),
        Some(_) => client.open_secured(server.local_address(), None),
    };
    let offer = offer.expect("loopback leads there").expect("there is room for sessions");
    let granted = server.accept_secured(&offer.params, HERE, None, security.clone());
    let granted = granted.expect("it is granted");
    let ready = client.establish_secured(&offer, &granted, HERE, security);
    assert!(ready.expect("loopback leads there"));
    offer.session
}

/// What TLS would give both ends.
fn security(cipher: Cipher, secret: u8) -> SessionSecurity {
    let identity = Identity { names: Vec::new(), certificate: Vec::new() };
    let secret = SessionSecret::new(cipher, [secret; 32]);
    SessionSecurity { identity: Arc::new(identity), secret }
}

fn cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn main() {
    let ciphers = [None, Some(Cipher::Aes128Gcm), Some(Cipher::ChaCha20Poly1305)];
    let mut pairs = ciphers.map(Pair::new);
    println!("ns of processor time per call, both ends: in the clear, AES-128-GCM, ChaCha20");
    for (bytes, alone, many, window) in CASES {
        for (name, calls, window) in [("alone", alone, 1), ("many", many, window)] {
            let mut times = [const { Vec::new() }; 3];
            for _ in 0..ROUNDS {
                for (pair, times) in pairs.iter_mut().zip(&mut times) {
                    times.push(pair.time_ns(bytes, calls, window));
                }
            }
            let [plain, aes, chacha] = times.map(median);
            let (aes_ratio, chacha_ratio) = (plain / aes, plain / chacha);
            println!(
                "{bytes:>6} B {name:>5}: {plain:>9.0} {aes:>9.0} {chacha:>9.0}   \
                 rate against plain: {aes_ratio:.2} and {chacha_ratio:.2}"
            );
        }
    }
}
