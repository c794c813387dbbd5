//! Timers over long waits, on a virtual clock and a network that loses what the test says.

use core::time::Duration;

use petasos_endpoint::{
    CallError, CallSettings, Clock, Completion, Context, Endpoint, EndpointConfig, MsgBuf, Request,
    RequestHandle, SessionId, Time, VirtualClock,
};
use petasos_netio::Ecn;
use petasos_netio::memory::{Captured, Hub, MemoryConfig};

const KEEP: u16 = 1;
const ECHO: u16 = 2;

#[derive(Default)]
struct Outcomes {
    ended: Vec<(u64, Result<usize, CallError>)>,
    kept: Vec<RequestHandle>,
}

type Node = Endpoint<Outcomes>;

fn keep(state: &mut Outcomes, _: &mut Context<Outcomes>, request: Request<'_>) {
    state.kept.push(request.handle);
}

fn echo(_: &mut Outcomes, cx: &mut Context<Outcomes>, request: Request<'_>) {
    cx.respond_with(request.handle, &request.payload);
}

fn note(state: &mut Outcomes, cx: &mut Context<Outcomes>, completion: Completion<'_>) {
    state.ended.push((completion.tag, completion.result.map(|payload| payload.len())));
    cx.free(completion.request);
}

/// A client and a server whose packets pass through the test.
struct Pair {
    clock: VirtualClock,
    hub: Hub,
    client: Node,
    server: Node,
    session: SessionId,
}

impl Pair {
    fn new() -> Pair {
        let clock = VirtualClock::default();
        let hub = Hub::captured(MemoryConfig::default());
        let node = || {
            let config = EndpointConfig { seed: Some(1), ..EndpointConfig::default() };
            let time = Clock::Virtual(clock.clone());
            let mut node = Endpoint::new(config, hub.port(), time, Outcomes::default());
            node.register(KEEP, keep);
            node.register(ECHO, echo);
            node
        };
        let (mut client, mut server) = (node(), node());
        let offer = client.open_session(server.local_address(), None);
        let offer = offer.expect("reachable").expect("there is room");
        let from = client.local_address().ip();
        let granted = server.accept_session(&offer.params, from, None).expect("granted");
        let ready = client.establish_session(&offer, &granted, server.local_address().ip());
        assert!(ready.expect("reachable"));
        Pair { session: offer.session, clock, hub, client, server }
    }

    fn call(&mut self, method: u16, tag: u64, timeout: Option<Duration>) {
        let settings = CallSettings { timeout, ..CallSettings::default() };
        let request = MsgBuf::from_slice(&[7; 32]);
        let session = self.session;
        let cx = self.client.context();
        cx.enqueue_with(session, method, request, note, tag, &settings).expect("there is room");
    }

    /// Lets time pass in steps of a tenth of a millisecond. Returns how many packets the client
    /// sent; `deliver` says of each whether it arrives.
    fn pass(&mut self, duration: Duration, deliver: impl Fn(&Captured) -> bool) -> usize {
        let end = self.clock.now() + duration;
        let (mut sent, mut packets) = (0, Vec::new());
        while self.clock.now() < end {
            self.clock.set(self.clock.now().plus_nanos(100_000));
            self.client.run_once();
            self.server.run_once();
            self.hub.take_captured(&mut packets);
            for packet in packets.drain(..) {
                sent += usize::from(packet.from == 0);
                if deliver(&packet) {
                    self.hub.deliver(packet.to, &packet.bytes, Ecn::NotCapable);
                }
            }
        }
        sent
    }
}

const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

#[test]
fn a_call_made_long_after_the_last_turn_has_its_whole_timeout() {
    let mut pair = Pair::new();
    pair.pass(millis(10), |_| true);
    pair.clock.set(Time::from_nanos(1_000_000_000));
    pair.call(KEEP, 1, Some(millis(50)));
    pair.pass(millis(49), |_| true);
    assert_eq!(pair.client.state().ended, []);
    pair.pass(millis(4), |_| true);
    assert_eq!(pair.client.state().ended, [(1, Err(CallError::Timeout))]);
}

#[test]
fn requests_are_repeated_beyond_the_reach_of_the_timing_wheel() {
    let mut pair = Pair::new();
    pair.call(ECHO, 1, None);
    pair.pass(millis(10_000), |_| false);
    assert!(pair.pass(millis(1000), |_| false) > 0, "the client still tries");
    pair.pass(millis(1000), |_| true);
    assert_eq!(pair.client.state().ended, [(1, Ok(32))]);
}

#[test]
fn timeouts_beyond_the_reach_of_the_timing_wheel_come_on_time() {
    let mut pair = Pair::new();
    pair.call(KEEP, 1, Some(millis(1500)));
    pair.pass(millis(1499), |_| true);
    assert_eq!(pair.client.state().ended, []);
    pair.pass(millis(4), |_| true);
    assert_eq!(pair.client.state().ended, [(1, Err(CallError::Timeout))]);
}

#[test]
fn a_slow_handler_does_not_delay_the_repetition_of_another_request() {
    let mut pair = Pair::new();
    pair.call(KEEP, 1, None);
    pair.pass(millis(3000), |_| true);
    pair.call(ECHO, 2, None);
    pair.pass(millis(1), |packet| packet.from != 0);
    pair.pass(millis(20), |_| true);
    assert_eq!(pair.client.state().ended, [(2, Ok(32))]);
}
