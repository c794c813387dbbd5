//! What becomes of sessions when the path's MTU falls and rises again, and when somebody only says
//! so (issue 10, ADR 14). In a network of the test's own, which takes root.

mod common;
mod routers;

use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use common::*;
use petasos_base::VirtualClock;
use petasos_control::AcceptParams;
use petasos_endpoint::{CallSettings, Clock, Endpoint, EndpointConfig, MsgBuf, SessionId};
use petasos_netio_udp::{UdpConfig, UdpIo};
use routers::{MTU, Routers, Scouts};

/// Payload of a session on links of [`MTU`]: less the headers of IPv4, UDP and Petasos.
const PAYLOAD_BYTES: usize = MTU as usize - 20 - 8 - 24;
/// One packet, of full size or not; messages of several packets.
const LENGTHS: [usize; 5] = [32, 1100, PAYLOAD_BYTES, 3 * PAYLOAD_BYTES, 100_000];

/// The time that passes in a turn.
const STEP: Duration = Duration::from_micros(20);
/// Far longer than a call takes that takes the network's changes well.
const CALL_TIMEOUT: Duration = Duration::from_secs(2);

struct World {
    routers: Routers,
    v6: bool,
    client: Endpoint<Outcomes>,
    server: Endpoint<usize>,
    /// Both ends': a step for each of their turns.
    clock: VirtualClock,
    scouts: Scouts,
    /// How often the ends have sent when the network was last seen empty.
    sends_arrived: u64,
}

impl World {
    fn new(v6: bool) -> Option<World> {
        let routers = Routers::new()?;
        let scouts = routers.scouts(v6);
        let at = Routers::addresses(v6);
        let bind = |ip| UdpIo::bind(SocketAddr::new(ip, 0), UdpConfig::default());
        let [near, far] = [(&routers.client, at[0]), (&routers.server, at[1])]
            .map(|(host, ip)| host.run(|| bind(ip)).expect("the address is there"));
        let config = EndpointConfig::default;
        let clock = VirtualClock::default();
        let both = || Clock::Virtual(clock.clone());
        let client = Endpoint::new(config(), near, both(), Outcomes::default());
        let mut server = Endpoint::new(config(), far, both(), 0usize);
        server.register(ECHO, echo);
        Some(World { routers, v6, client, server, clock, scouts, sends_arrived: 0 })
    }

    fn open(&mut self) -> (SessionId, AcceptParams) {
        let World { routers, client, server, .. } = self;
        let at = Routers::addresses(self.v6);
        let to = server.local_address();
        let offer = routers.client.run(|| client.open_session(to, None));
        let offer = offer.expect("there is a route").expect("there is room");
        let granted = routers.server.run(|| server.accept_session(&offer.params, at[0], None));
        let granted = granted.expect("it accepts");
        let established = || client.establish_session(&offer, &granted, at[1]);
        routers.client.run(established).expect("there is a way");
        (offer.session, granted)
    }

    /// No time passes while packets are on their way. It is not the kernel's time: on a busy
    /// machine packets would be late by it, and the ends would take them for lost and the path for
    /// narrow.
    fn turn(&mut self) {
        self.clock.set(self.clock.now().plus_nanos(STEP.as_nanos() as u64));
        self.client.run_once();
        self.server.run_once();
        let sends = self.client.stats().io.tx_syscalls + self.server.stats().io.tx_syscalls;
        if sends != self.sends_arrived {
            self.sends_arrived = sends;
            self.scouts.there_and_back();
        }
    }

    fn forge_icmp(&mut self, port: u16, mtu: u16) {
        self.routers.forge_icmp(self.v6, port, mtu);
        self.scouts.there_and_back();
    }

    /// An echo of `len` bytes.
    fn call(&mut self, session: SessionId, len: usize) {
        let bytes: Vec<u8> = (0..len).map(|at| (at % 251) as u8).collect();
        let settings = CallSettings { timeout: Some(CALL_TIMEOUT), ..CallSettings::default() };
        let context = self.client.context();
        context
            .enqueue_with(session, ECHO, MsgBuf::from_slice(&bytes), collect, 1, &settings)
            .expect("there is room");
        while self.client.state().list.is_empty() {
            self.turn();
        }
        let (_, outcome) = self.client.state_mut().list.pop().expect("it has ended");
        assert!(outcome.is_ok_and(|answer| answer == bytes), "{len} bytes come back");
    }

    fn calls(&mut self, session: SessionId) {
        LENGTHS.into_iter().for_each(|len| self.call(session, len));
    }

    /// Calls of all lengths; how many fragments that has taken.
    fn fragments_of_calls(&mut self, session: SessionId) -> u64 {
        let before = self.routers.fragments();
        self.calls(session);
        self.routers.fragments() - before
    }
}

#[test]
fn issue_10_a_session_outlives_a_path_that_narrows_and_widens() {
    let _watchdog = watchdog("a narrow path");
    let Some(mut world) = World::new(false) else { return };
    let (session, granted) = world.open();
    assert_eq!(usize::from(granted.payload_bytes), PAYLOAD_BYTES);
    assert_eq!(world.fragments_of_calls(session), 0);
    for _ in 0..2 {
        world.routers.narrow(1300);
        assert!(world.fragments_of_calls(session) > 0, "routers cut what does not fit");
        let (other, _) = world.open();
        world.calls(other);
        world.routers.narrow(MTU);
        assert_eq!(world.fragments_of_calls(session), 0, "packets go whole again");
        assert_eq!(world.fragments_of_calls(other), 0);
    }
}

/// Routers do not cut IPv6 packets: the ends notice that long ones vanish.
#[test]
fn issue_10_a_session_over_ipv6_outlives_a_path_that_narrows_and_widens() {
    let _watchdog = watchdog("a narrow path of IPv6");
    if localhost6().is_none() {
        return;
    }
    let Some(mut world) = World::new(true) else { return };
    let (session, granted) = world.open();
    assert_eq!(usize::from(granted.payload_bytes), PAYLOAD_BYTES - 20);
    assert_eq!(world.fragments_of_calls(session), 0);
    for _ in 0..2 {
        world.routers.narrow(1300);
        assert!(world.fragments_of_calls(session) > 0, "the ends cut what does not fit");
        world.routers.narrow(MTU);
        // Nobody tells them that it is wide again: they try.
        let doubt_ends = world.clock.now().plus_nanos(10_000_000_000);
        while world.clock.now() <= doubt_ends {
            world.turn();
        }
        assert_eq!(world.fragments_of_calls(session), 0, "packets go whole again");
    }
}

#[test]
fn issue_10_a_session_outlives_an_interface_that_narrows_and_widens() {
    let _watchdog = watchdog("a narrow interface");
    let Some(mut world) = World::new(false) else { return };
    let (session, _) = world.open();
    world.calls(session);
    world.routers.narrow_client(1300);
    assert!(world.fragments_of_calls(session) > 0);
    let (narrow, granted) = world.open();
    assert_eq!(usize::from(granted.payload_bytes), PAYLOAD_BYTES - 200, "a new session fits");
    assert_eq!(world.fragments_of_calls(narrow), 0);
    world.routers.narrow_client(MTU);
    assert_eq!(world.fragments_of_calls(session), 0, "packets go whole again");
    let (_, granted) = world.open();
    assert_eq!(usize::from(granted.payload_bytes), PAYLOAD_BYTES, "the route's limit rises");
}

#[test]
fn issue_10_forged_icmp_messages_change_nothing() {
    let _watchdog = watchdog("forged messages");
    for v6 in [false, true] {
        if v6 && localhost6().is_none() {
            continue;
        }
        let Some(mut world) = World::new(v6) else { return };
        let (session, fitting) = world.open();
        world.calls(session);
        let before = world.client.stats().io;
        for _ in 0..10 {
            let port = world.client.local_address().port();
            world.forge_icmp(port, if v6 { 1280 } else { 552 });
            assert_eq!(world.fragments_of_calls(session), 0);
        }
        let after = world.client.stats().io;
        assert_eq!((after.tx_errors, after.rx_errors), (before.tx_errors, before.rx_errors));
        let (_, granted) = world.open();
        assert_eq!(granted.payload_bytes, fitting.payload_bytes, "nor for new sessions");
    }
}

#[test]
fn issue_10_what_icmp_messages_teach_the_kernel_by_other_sockets_changes_nothing() {
    let _watchdog = watchdog("forged messages to others");
    let Some(mut world) = World::new(false) else { return };
    let (session, _) = world.open();
    world.calls(session);
    let other = world.routers.client.run(|| UdpSocket::bind("10.0.1.1:0")).expect("a free port");
    let port = other.local_addr().expect("it is bound").port();
    world.forge_icmp(port, 600);
    let learnt = world.routers.client.ip("route get 10.0.3.2");
    assert!(learnt.contains("mtu 600"), "the kernel has believed it: {learnt}");
    assert_eq!(world.fragments_of_calls(session), 0);
    let (session, granted) = world.open();
    assert_eq!(usize::from(granted.payload_bytes), PAYLOAD_BYTES);
    assert_eq!(world.fragments_of_calls(session), 0);
    // What the administrator says counts.
    world.routers.client.ip("route replace default via 10.0.1.2 mtu 1400");
    let (_, granted) = world.open();
    assert_eq!(usize::from(granted.payload_bytes), PAYLOAD_BYTES - 100);
}
