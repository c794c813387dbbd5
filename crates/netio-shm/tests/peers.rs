//! Peers that end, stop reading, sleep, or come back.
//!
//! Nothing here may start a process: until its `exec`, a child keeps the sockets of all tests open.

mod common;

use std::net::{Ipv4Addr, SocketAddr};

use common::{receive_until, send};
use petasos_netio::{PacketIo, Route, RouteError, TxPacket};
use petasos_netio_shm::rendezvous::Listener;
use petasos_netio_shm::{LOOK_INTERVAL_TURNS, STALL_TURNS_MAX, ShmConfig, ShmIo};
use petasos_shm::RingShape;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

fn config() -> ShmConfig {
    let rings = RingShape { slots: 64, data_bytes: 1 << 16, record_bytes_max: 4096 };
    ShmConfig { rings, datagram_bytes_max: 4096, ..ShmConfig::default() }
}

fn bind() -> ShmIo {
    bind_at(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))
}

fn bind_at(address: SocketAddr) -> ShmIo {
    ShmIo::bind(address, config()).expect("the name is free")
}

fn route(from: &mut ShmIo, to: &ShmIo) -> Route {
    from.route(to.local_address()).expect("it listens")
}

fn readable(io: &ShmIo) -> bool {
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    let descriptor = io.descriptor().expect("it has one");
    let mut fds = [PollFd::from_borrowed_fd(descriptor, PollFlags::IN)];
    poll(&mut fds, Some(&at_once)).expect("an epoll descriptor can be polled") == 1
}

#[test]
fn what_was_sent_before_a_peer_ended_arrives() {
    let (mut from, mut to) = (bind(), bind());
    let there = route(&mut from, &to);
    for number in 0..10 {
        assert_eq!(send(&mut from, there, &[number; 3000]), 1);
    }
    drop(from);
    receive_until(&mut to, |io, frames| frames == 10 && io.link_stats().links_lost == 1);
    assert_eq!(to.links(), 0);
}

#[test]
fn a_route_reaches_whoever_listens_at_its_address_later() {
    let (mut from, to) = (bind(), bind());
    let (there, address) = (route(&mut from, &to), to.local_address());
    drop(to);
    receive_until(&mut from, |io, _| io.links() == 0);
    assert_eq!(send(&mut from, there, &[1; 10]), 1);
    assert_eq!((from.stats().tx_errors, from.link_stats().drops_unlinked), (1, 1));
    let mut again = bind_at(address);
    receive_until(&mut from, |io, _| io.links() == 1);
    assert_eq!(send(&mut from, there, &[1; 10]), 1);
    receive_until(&mut again, |_, frames| frames == 1);
}

#[test]
fn nobody_at_an_address_is_an_error_at_once() {
    let mut io = bind();
    let address = bind().local_address();
    match io.route(address) {
        Err(RouteError::Unreachable(error)) => {
            assert_eq!(error.kind(), std::io::ErrorKind::ConnectionRefused);
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_peer_that_stops_reading_holds_nobody_up() {
    let (mut from, mut stuck, mut alive) = (bind(), bind(), bind());
    let [to_stuck, to_alive] = [route(&mut from, &stuck), route(&mut from, &alive)];
    let mut taken = 0;
    while send(&mut from, to_stuck, &[1; 4096]) == 1 {
        taken += 1;
    }
    assert!((8..=16).contains(&taken), "{taken} packets of 4 KiB in 64 KiB");
    for _ in 0..STALL_TURNS_MAX {
        send(&mut from, to_stuck, &[1; 4096]);
    }
    assert_eq!(send(&mut from, to_stuck, &[1; 4096]), 1, "dropped, not waiting");
    assert!(from.link_stats().drops_stalled > 0 && from.stats().tx_full > 0);
    let packets = [to_stuck, to_alive].map(|route| TxPacket { route, head: &[2; 4096], body: &[] });
    assert_eq!(from.transmit(&packets), 2);
    receive_until(&mut alive, |_, frames| frames == 1);
    // Once it reads, it is served again.
    receive_until(&mut stuck, |_, frames| frames == taken);
    assert_eq!(send(&mut from, to_stuck, &[3; 5]), 1);
    receive_until(&mut stuck, |_, frames| frames == 1);
}

#[test]
fn a_sleeper_is_woken_by_a_packet_and_an_idler_by_nothing() {
    let (mut from, mut to) = (bind(), bind());
    let there = route(&mut from, &to);
    assert!(readable(&to), "a peer wants to connect");
    assert!(to.prepare_to_sleep());
    assert_eq!(to.receive().frames().count(), 0);
    assert_eq!(to.links(), 1, "it was accepted after the sleep");
    assert_eq!(send(&mut from, there, &[1; 10]), 1);
    assert!(!readable(&to) && from.stats().tx_syscalls == 0, "nobody said that it sleeps");
    assert!(!to.prepare_to_sleep(), "there is a packet");
    assert_eq!(to.receive().frames().count(), 1);
    assert!(to.prepare_to_sleep() && !readable(&to));
    for number in 0..3 {
        assert_eq!(send(&mut from, there, &[number; 10]), 1);
    }
    assert!(readable(&to));
    assert_eq!(from.stats().tx_syscalls, 1, "woken once");
    assert_eq!(to.receive().frames().count(), 3);
    assert!(!readable(&to), "the wake-up was taken");
    assert_eq!(send(&mut from, there, &[9; 10]), 1);
    assert_eq!(from.stats().tx_syscalls, 1, "it is awake");
}

#[test]
fn the_end_of_a_peer_wakes_a_sleeper() {
    let (mut from, mut to) = (bind(), bind());
    route(&mut from, &to);
    receive_until(&mut to, |io, _| io.links() == 1);
    assert!(to.prepare_to_sleep() && !readable(&to));
    drop(from);
    assert!(readable(&to));
    assert_eq!(to.receive().frames().count(), 0);
    assert_eq!((to.links(), to.link_stats().links_lost), (0, 1));
}

#[test]
fn a_spinning_backend_makes_few_system_calls() {
    let (mut from, mut to) = (bind(), bind());
    let there = route(&mut from, &to);
    receive_until(&mut to, |io, _| io.links() == 1);
    let before = to.stats().rx_syscalls;
    for _ in 0..100 * u64::from(LOOK_INTERVAL_TURNS) {
        assert_eq!(send(&mut from, there, &[1; 60]), 1);
        assert_eq!(to.receive().frames().count(), 1);
    }
    assert_eq!(to.stats().rx_syscalls - before, 100);
    assert_eq!(from.stats().tx_syscalls, 0);
}

#[test]
fn strangers_that_do_not_greet_properly_are_refused() {
    use rustix::net::{AddressFamily, SendFlags, SocketAddrUnix, SocketType, socket};
    let mut io = bind();
    let name = format!("petasos-shm/{}", io.local_address());
    let name = SocketAddrUnix::new_abstract_name(name.as_bytes()).expect("it is short");
    let mut sockets = Vec::new();
    for greeting in [&[][..], &[0; 48], &[1; 100]] {
        let socket = socket(AddressFamily::UNIX, SocketType::SEQPACKET, None).expect("a socket");
        rustix::net::connect(&socket, &name).expect("it listens");
        if !greeting.is_empty() {
            rustix::net::send(&socket, greeting, SendFlags::empty()).expect("there is room");
            sockets.push(socket);
        }
    }
    receive_until(&mut io, |io, _| io.link_stats().links_refused == 3);
    assert_eq!((io.links(), io.link_stats().links_accepted), (0, 0));
}

#[test]
fn links_beyond_the_limit_take_the_place_of_idle_ones_or_are_refused() {
    let config = ShmConfig { links_max: 2, ..config() };
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let mut io = ShmIo::bind(address, config).expect("a name is free");
    let peers = [bind(), bind(), bind()];
    let first = route(&mut io, &peers[0]);
    route(&mut io, &peers[1]);
    assert!(matches!(io.route(peers[2].local_address()), Err(RouteError::TableFull)));
    io.release_route(first);
    route(&mut io, &peers[2]);
    assert_eq!((io.links(), io.link_stats().links_evicted), (2, 1));
}

#[test]
fn a_listener_gives_up_its_name_when_dropped() {
    let listener = Listener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), &config());
    let address = listener.expect("a name is free").local_address();
    drop(bind_at(address));
    drop(bind_at(address));
}

#[test]
fn a_route_asked_for_again_needs_a_peer_that_listens() {
    let (mut io, peer) = (bind(), bind());
    let address = peer.local_address();
    let first = route(&mut io, &peer);
    drop(peer);
    // Nothing has been received since, so that nobody has noticed.
    assert!(matches!(io.route(address), Err(RouteError::Unreachable(_))));
    let mut again = bind_at(address);
    assert_eq!(io.route(address).expect("it is back"), first);
    assert_eq!(send(&mut io, first, &[1; 10]), 1);
    receive_until(&mut again, |_, frames| frames == 1);
    assert_eq!(io.link_stats().drops_unlinked, 0);
}

#[test]
fn who_connects_and_dies_is_no_way() {
    let (mut io, mut peer) = (bind(), bind());
    let address = peer.local_address();
    route(&mut peer, &io);
    drop(peer);
    match io.route(address) {
        Err(RouteError::Unreachable(error)) => {
            assert_eq!(error.kind(), std::io::ErrorKind::ConnectionRefused);
        }
        other => panic!("{other:?}"),
    }
}

/// Collects the routes that `io` tells to be lost.
fn lost_routes(io: &mut ShmIo) -> std::sync::mpsc::Receiver<Route> {
    let (tell, told) = std::sync::mpsc::channel();
    io.on_lost(move |route| tell.send(route).expect("the test listens"));
    told
}

#[test]
fn a_route_that_gets_no_lasting_link_is_told_once() {
    let (mut io, silent, leaver) = (bind(), bind(), bind());
    let told = lost_routes(&mut io);
    let refuser = Listener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), &config());
    let refuser = refuser.expect("a name is free");
    let lost = io.route(refuser.local_address()).expect("it listens");
    route(&mut io, &silent);
    let left = route(&mut io, &leaver);
    let address = leaver.local_address();
    drop(leaver);
    let mut refused = 0;
    let mut await_told = |io: &mut ShmIo, mut expected: Vec<Route>| {
        receive_until(io, |_, _| {
            // Refuses whoever connects.
            refused += usize::from(refuser.accept().expect("there are descriptors").is_some());
            if let Ok(route) = told.try_recv() {
                let at = expected.iter().position(|awaited| *awaited == route);
                expected.remove(at.expect("the route is lost, and told once"));
            }
            expected.is_empty()
        });
    };
    await_told(&mut io, vec![lost, left]);
    let mut back = bind_at(address);
    assert_eq!(io.route(address).expect("it is back"), left);
    assert_eq!(send(&mut io, left, &[1; 10]), 1);
    receive_until(&mut back, |_, frames| frames == 1);
    // Whoever has asked for it again is told again, though no link has lasted.
    drop(back);
    await_told(&mut io, vec![left]);
    assert!(refused > 1, "it was tried more than once");
}
