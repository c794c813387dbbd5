//! Paced sessions, on a virtual clock: they sleep until their pace lets them send, and then send.

use core::time::Duration;

use petasos_endpoint::{
    AlgorithmConfig, CallError, Clock, Completion, CongestionConfig, Context, Endpoint,
    EndpointConfig, MsgBuf, Request, SessionId, SwiftConfig, Time, VirtualClock,
};
use petasos_netio::Ecn;
use petasos_netio::memory::{Captured, Hub, MemoryConfig};

const ECHO: u16 = 1;
/// Long messages' packets, in bytes of the datagram and on the wire.
const DATAGRAM_BYTES: u32 = 1_048;
const WIRE_BYTES: u64 = 1_048 + 66;
/// One way, for every packet.
const DELAY_NS: u64 = 5_000;
const STEP_NS: u64 = 256;
/// A wheel's slot, and the step of the test's clock.
const LATENESS_NS: u64 = 512 + STEP_NS;

type Outcomes = Vec<(u64, Result<usize, CallError>)>;
type Node = Endpoint<Outcomes>;

fn echo(_: &mut Outcomes, cx: &mut Context<Outcomes>, request: Request<'_>) {
    cx.respond_with(request.handle, &request.payload);
}

fn note(state: &mut Outcomes, cx: &mut Context<Outcomes>, completion: Completion<'_>) {
    state.push((completion.tag, completion.result.map(|payload| payload.len())));
    cx.free(completion.request);
}

/// A window that is a twentieth of a packet and stays so: a pace of one packet per 20 targets.
fn slow() -> CongestionConfig {
    let swift = SwiftConfig {
        base_target_ns: 10_000,
        hops: 0,
        flow_range_ns: 0,
        additive: 1e-9,
        window_min: 0.05,
        window_initial: 0.05,
        ..SwiftConfig::default()
    };
    let algorithm = AlgorithmConfig::Swift(swift);
    CongestionConfig { algorithm, burst_ns: 0, ..CongestionConfig::default() }
}

/// A client and a server, [`DELAY_NS`] apart, and every packet with when it left.
struct Pair {
    clock: VirtualClock,
    hub: Hub,
    client: Node,
    server: Node,
    session: SessionId,
    on_way: Vec<(Time, Captured)>,
    left: Vec<(Time, u32, usize)>,
    mark: bool,
}

impl Pair {
    fn new(congestion: CongestionConfig) -> Pair {
        let clock = VirtualClock::default();
        let hub = Hub::captured(MemoryConfig::default());
        let node = || {
            let mut config = EndpointConfig { seed: Some(1), ..EndpointConfig::default() };
            config.congestion = Some(congestion);
            config.session.datagram_bytes_max = DATAGRAM_BYTES;
            let time = Clock::Virtual(clock.clone());
            let mut node = Endpoint::new(config, hub.port(), time, Outcomes::new());
            node.register(ECHO, echo);
            node
        };
        let (mut client, mut server) = (node(), node());
        let session = connect(&mut client, &mut server);
        let (on_way, left) = (Vec::new(), Vec::new());
        Pair { clock, hub, client, server, session, on_way, left, mark: false }
    }

    fn call(&mut self, bytes: usize, tag: u64) {
        let request = MsgBuf::from_slice(&vec![7; bytes]);
        let cx = self.client.context();
        cx.enqueue_request(self.session, ECHO, request, note, tag).expect("there is room");
    }

    /// A pair whose session is [`slow`] and knows its round trip: from the answers to a request of
    /// several packets, since those with a handler's time do not count.
    fn slow() -> Pair {
        let mut pair = Pair::new(slow());
        pair.call(3 * 1_024, 0);
        pair.pass(Duration::from_millis(4));
        assert_eq!(pair.client.state(), &[(0, Ok(3 * 1_024))]);
        pair.client.state_mut().clear();
        pair.left.clear();
        pair
    }

    /// Turns both loops now, and carries packets.
    fn turn(&mut self) {
        let now = self.clock.now();
        let due = |(at, _): &mut (Time, Captured)| *at <= now;
        let ecn = if self.mark { Ecn::CongestionExperienced } else { Ecn::NotCapable };
        for (_, packet) in self.on_way.extract_if(.., due) {
            self.hub.deliver(packet.to, &packet.bytes, ecn);
        }
        self.client.run_once();
        self.server.run_once();
        let mut packets = Vec::new();
        self.hub.take_captured(&mut packets);
        for packet in packets {
            self.left.push((now, packet.from, packet.bytes.len()));
            self.on_way.push((now.plus_nanos(DELAY_NS), packet));
        }
    }

    fn pass(&mut self, duration: Duration) {
        let end = self.clock.now() + duration;
        while self.clock.now() < end {
            self.turn();
            self.clock.set(self.clock.now().plus_nanos(STEP_NS));
        }
    }

    /// When the client sent something, and how many bytes.
    fn departures(&self) -> Vec<(u64, usize)> {
        let mine = self.left.iter().filter(|(_, from, _)| *from == 0);
        mine.map(|(at, _, bytes)| (at.as_nanos(), *bytes)).collect()
    }
}

fn connect(client: &mut Node, server: &mut Node) -> SessionId {
    let offer = client.open_session(server.local_address(), None);
    let offer = offer.expect("reachable").expect("there is room");
    let from = client.local_address().ip();
    let granted = server.accept_session(&offer.params, from, None).expect("granted");
    let ready = client.establish_session(&offer, &granted, server.local_address().ip());
    assert!(ready.expect("reachable"));
    offer.session
}

/// Whether the client sent a packet each `wire_bytes` at the pace of [`slow`], none too early and
/// none later than the wheel makes it.
#[track_caller]
fn assert_paced(times: &[u64], wire_bytes: u64) {
    // A window of 0.05 packets in 10 µs, or in the first round trip where that is not known.
    let gap_ns = 10_000 * 20 * wire_bytes / WIRE_BYTES;
    for pair in times.windows(2) {
        let apart_ns = pair[1] - pair[0];
        let right = gap_ns - 2..gap_ns + LATENESS_NS;
        assert!(right.contains(&apart_ns), "{apart_ns} ns apart, not {right:?}: {times:?}");
    }
}

#[test]
fn a_paced_session_sleeps_and_resumes_when_its_pace_says() {
    let mut pair = Pair::slow();
    pair.call(10 * 1_024, 1);
    // The first leaves at once, as the pace of the call before has long drained. Until it is
    // answered the next waits for the window, and only then for its pace.
    pair.pass(Duration::from_nanos(3 * DELAY_NS));
    assert_eq!(pair.departures().len(), 1);
    let (left_at, wake_at) = (pair.departures()[0].0, pair.client.next_turn_at());
    let wait_ns = wake_at.as_nanos() - left_at;
    assert!((199_990..200_512).contains(&wait_ns), "the loop may sleep for {wait_ns} ns");
    pair.pass(wake_at - pair.clock.now());
    assert_eq!(pair.departures().len(), 1, "nothing leaves before");
    pair.pass(Duration::from_millis(10));
    let requests: Vec<_> = pair.departures();
    let requests = requests.iter().filter(|(_, bytes)| *bytes > 1_000).map(|(at, _)| *at);
    let times: Vec<_> = requests.collect();
    assert_eq!(times.len(), 10);
    assert_paced(&times, WIRE_BYTES);
    assert_eq!(pair.client.state().last(), Some(&(1, Ok(10 * 1_024))));
    assert!(pair.client.stats().event_loop.sessions_parked >= 18, "for requests and for pulls");
    assert_eq!(pair.client.stats().client.retransmissions, 0, "waiting is not silence");
    // The credits granted for the long request lapse (W26).
    pair.pass(Duration::from_millis(20));
    assert_eq!(pair.client.next_turn_at(), Time::NEVER, "nothing is left in the wheel");
}

#[test]
fn pulls_are_paced_by_what_they_ask_for() {
    let mut pair = Pair::slow();
    pair.call(10 * 1_024, 0);
    pair.pass(Duration::from_millis(10));
    assert_eq!(pair.client.state(), &[(0, Ok(10 * 1_024))]);
    assert_eq!(pair.client.stats().client.pulls, 2 + 9, "one packet at a time");
    let from_server = pair.left.iter().filter(|(_, from, bytes)| *from == 1 && *bytes > 1_000);
    let times: Vec<_> = from_server.map(|(at, ..)| at.as_nanos()).collect();
    // The first came of itself; its request had been charged.
    assert_paced(&times[1..], WIRE_BYTES);
}

#[test]
fn short_calls_are_paced_too() {
    let mut pair = Pair::slow();
    for tag in 0..8 {
        pair.call(100, tag);
    }
    pair.pass(Duration::from_millis(2));
    assert_eq!(pair.client.state().len(), 8);
    let times: Vec<_> = pair.departures().iter().map(|(at, _)| *at).collect();
    assert_eq!(times.len(), 8, "one packet each");
    assert_paced(&times[1..], 100 + 24 + 66);
}

#[test]
fn a_session_that_closes_while_it_is_parked_leaves_nothing_behind() {
    let mut pair = Pair::slow();
    pair.call(10 * 1_024, 0);
    let parked = pair.client.stats().event_loop.sessions_parked;
    pair.pass(Duration::from_nanos(3 * DELAY_NS));
    assert_eq!(pair.client.stats().event_loop.sessions_parked, parked + 1);
    pair.client.close_session(pair.session);
    pair.session = connect(&mut pair.client, &mut pair.server);
    pair.pass(Duration::from_millis(1));
    assert_eq!(pair.client.state(), &[(0, Err(CallError::SessionClosed))]);
    pair.left.clear();
    pair.call(100, 1);
    pair.pass(Duration::from_millis(2));
    assert_eq!(pair.departures().len(), 1, "the old session's entry is void");
    assert_eq!(pair.client.state().last(), Some(&(1, Ok(100))));
}

#[test]
fn an_uncongested_session_never_waits() {
    let mut pair = Pair::new(CongestionConfig::default());
    for tag in 0..20 {
        pair.call(20 * 1_024, tag);
    }
    pair.pass(Duration::from_millis(3));
    assert_eq!(pair.client.state().len(), 20);
    assert_eq!(pair.client.stats().event_loop.sessions_parked, 0);
    assert_eq!(pair.client.stats().client.paced_waits, 0);
}

#[test]
fn marks_slow_dctcp_down_in_both_directions() {
    let mut pair = Pair::new(CongestionConfig::dctcp());
    pair.mark = true;
    for tag in 0..2 {
        pair.call(8 * 1_024, tag);
    }
    pair.pass(Duration::from_millis(100));
    let marked = pair.client.stats();
    assert_eq!(pair.client.state().len(), 2);
    assert!(marked.client.ecn_echoes > 0 && marked.client.ecn_marks > 0, "{marked:?}");
    assert!(marked.event_loop.sessions_parked > 0, "the window has fallen below a packet");
}
