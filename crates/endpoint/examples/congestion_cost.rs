//! What the default congestion control costs over loopback UDP, where nothing is congested: the
//! rate of small requests, and the bandwidth of large ones, with and without it by turns.
//!
//! Client and server share one thread, so that the ratio does not hang on how cores are shared.

use std::net::{Ipv4Addr, SocketAddr};

use petasos_endpoint::{
    Clock, Completion, CongestionConfig, Context, Endpoint, EndpointConfig, MsgBuf, Request,
    SessionId,
};
use petasos_netio_udp::{UdpConfig, UdpIo};

const ECHO: u16 = 1;
const SINK: u16 = 2;
const ROUNDS: usize = 15;
const ROUND_NS: u64 = 200_000_000;
/// Request bytes, method, sessions and calls open on each.
const LOADS: [(&str, usize, u16, usize, usize); 3] = [
    ("32 B echoes", 32, ECHO, 8, 8),
    ("4 kB echoes", 4 << 10, ECHO, 8, 8),
    ("8 MB requests", 8 << 20, SINK, 1, 2),
];

#[derive(Default)]
struct Calls {
    ended: u64,
    method: u16,
}

fn next(calls: &mut Calls, cx: &mut Context<Calls>, done: Completion<'_>) {
    done.result.expect("loopback answers");
    calls.ended += 1;
    let method = calls.method;
    cx.enqueue_request(done.session, method, done.request, next, 0).expect("a slot is free");
}

struct Pair {
    client: Endpoint<Calls>,
    server: Endpoint<()>,
}

impl Pair {
    fn new(congestion: Option<CongestionConfig>, load: (&str, usize, u16, usize, usize)) -> Pair {
        let (_, bytes, method, sessions, window) = load;
        let io = || UdpIo::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), UdpConfig::default());
        let config = || EndpointConfig { congestion, ..EndpointConfig::default() };
        let io = || io().expect("loopback has ports");
        let mut server = Endpoint::new(config(), io(), Clock::system(), ());
        server.register(ECHO, |_, cx, request: Request<'_>| {
            cx.respond_with(request.handle, &request.payload);
        });
        server.register(SINK, |_, cx, request: Request<'_>| {
            let handle = request.handle;
            if let petasos_endpoint::Payload::Buffer(buf) = request.payload {
                cx.free(buf);
            }
            cx.respond_with(handle, &[]);
        });
        let calls = Calls { method, ..Calls::default() };
        let mut client = Endpoint::new(config(), io(), Clock::system(), calls);
        for _ in 0..sessions {
            let session = connect(&mut client, &mut server);
            for _ in 0..window {
                let request = MsgBuf::from_slice(&vec![7; bytes]);
                let call = client.context().enqueue_request(session, method, request, next, 0);
                call.expect("there is room");
            }
        }
        Pair { client, server }
    }

    /// Calls per second.
    fn rate(&mut self, clock: &Clock) -> f64 {
        let (start, before) = (clock.now(), self.client.state().ended);
        while clock.now().nanos_since(start) < ROUND_NS {
            for _ in 0..16 {
                self.client.run_once();
                self.server.run_once();
            }
        }
        let ended = self.client.state().ended - before;
        ended as f64 * 1e9 / clock.now().nanos_since(start) as f64
    }
}

fn connect(client: &mut Endpoint<Calls>, server: &mut Endpoint<()>) -> SessionId {
    let offer = client.open_session(server.local_address(), None);
    let offer = offer.expect("loopback is reachable").expect("there is room");
    let ip = client.local_address().ip();
    let granted = server.accept_session(&offer.params, ip, None).expect("granted");
    client.establish_session(&offer, &granted, ip).expect("loopback is reachable");
    offer.session
}

fn main() {
    let clock = Clock::system();
    for load in LOADS {
        let mut on = Pair::new(None, load);
        let mut off = Pair::new(Some(CongestionConfig::none()), load);
        let mut rounds: Vec<_> = (0..ROUNDS).map(|_| (on.rate(&clock), off.rate(&clock))).collect();
        rounds.sort_by(|a, b| (a.0 / a.1).total_cmp(&(b.0 / b.1)));
        let (with, without) = rounds[ROUNDS / 2];
        let stats = on.client.stats();
        println!(
            "{}: {with:.0}/s with, {without:.0}/s without: {:.3} (median of {ROUNDS}); \
             {} paced waits, {} timeouts",
            load.0,
            with / without,
            stats.client.paced_waits,
            stats.client.timeouts
        );
    }
}
