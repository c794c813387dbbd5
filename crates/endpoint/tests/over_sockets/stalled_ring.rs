//! A peer whose ring is full delays nobody else (ADR 5).

use std::net::SocketAddr;

use petasos_endpoint::{
    Backend, Clock, Endpoint, EndpointConfig, LocalConfig, LocalIo, MsgBuf, SessionId,
    SessionState, VirtualClock,
};
use petasos_netio::PacketIo;
use petasos_netio_shm::{RingShape, ShmConfig, ShmIo};

use crate::common::*;

/// Records that a ring takes. Packets of different turns are records of their own.
const RING_SLOTS: u32 = 16;
const STALLED_SESSIONS: usize = 4;
const CALLS_PER_SESSION: u64 = 8;
/// Sessions whose calls are repeated.
const REPEATING_SESSIONS: usize = 64;
/// Turns that the healthy peer's call may take: far fewer than after which a full ring drops.
const TURNS_MAX: usize = 16;

fn any() -> SocketAddr {
    SocketAddr::new(localhost(), 0)
}

fn rings() -> ShmConfig {
    let rings = RingShape { slots: RING_SLOTS, data_bytes: 1 << 16, record_bytes_max: 4096 };
    ShmConfig { rings, datagram_bytes_max: 4000, ..ShmConfig::default() }
}

fn shm() -> Backend {
    ShmIo::bind(any(), rings()).expect("names are free").into()
}

fn local() -> Backend {
    let config = LocalConfig { shm: rings(), ..LocalConfig::default() };
    LocalIo::bind(any(), &config).expect("loopback has ports").into()
}

fn server(node: &petasos_endpoint::Node, io: Backend) -> Endpoint<()> {
    let mut server = Endpoint::new(EndpointConfig::default(), io, Clock::system(), ());
    server.register(ECHO, echo);
    server.attach(node).expect("the node runs");
    server
}

/// A session to `server`, which this thread turns as well.
fn session(
    client: &mut Endpoint<Outcomes>,
    server: &mut Endpoint<()>,
    address: SocketAddr,
) -> SessionId {
    let session = client.connect(address).expect("there is room");
    while client.context().session_state(session) != SessionState::Ready {
        client.run_once();
        server.run_once();
        assert_eq!(client.context().session_error(session), None);
    }
    session
}

/// What is repeated again and again to a peer that does not read must not fill the queue of all:
/// that would pause receiving.
fn a_stalled_ring_pauses_no_receiving(io: fn() -> Backend) {
    let nodes = [node(Some(localhost())), node(Some(localhost())), node(None)];
    let addresses = [0, 1].map(|index: usize| nodes[index].local_address().expect("it listens"));
    let (mut stalled, mut healthy) = (server(&nodes[0], io()), server(&nodes[1], io()));
    let clock = VirtualClock::default();
    let (config, state) = (EndpointConfig::default(), Outcomes::default());
    let mut client = Endpoint::new(config, io(), Clock::Virtual(clock.clone()), state);
    client.attach(&nodes[2]).expect("the node runs");
    let to_healthy = session(&mut client, &mut healthy, addresses[1]);
    let to_stalled: Vec<_> =
        (0..REPEATING_SESSIONS).map(|_| session(&mut client, &mut stalled, addresses[0])).collect();
    for session in to_stalled {
        for tag in 0..CALLS_PER_SESSION {
            let request = MsgBuf::from_slice(&[7; 3000]);
            let context = client.context();
            let begun = context.enqueue_request(session, ECHO, request, collect, 100 + tag);
            begun.expect("there is room");
        }
    }
    // Each turn brings a timeout of every call: more than backs the queue up, in all.
    for _ in 0..2 * 16_384 / (REPEATING_SESSIONS as u64 * CALLS_PER_SESSION) {
        clock.set(clock.now().plus_nanos(1_000_000_000));
        client.run_once();
    }
    start(&mut client, to_healthy, ECHO, 1);
    for _ in 0..TURNS_MAX {
        client.run_once();
        healthy.run_once();
    }
    assert_eq!(client.stats().event_loop.turns_backed_up, 0);
    let ended = core::mem::take(&mut client.state_mut().list);
    assert_eq!(ended, [(1, Ok(1u64.to_le_bytes().to_vec()))]);
    assert!(client.stats().event_loop.transmit_overruns > 0, "what is too much is dropped");
    // What was dropped is repeated, once it is read.
    let waited = REPEATING_SESSIONS * CALLS_PER_SESSION as usize;
    while client.state_mut().list.len() < waited {
        clock.set(clock.now().plus_nanos(100_000));
        client.run_once();
        stalled.run_once();
    }
    assert!(client.state_mut().list.iter().all(|(_, outcome)| outcome.is_ok()));
}

#[test]
fn issue_10_what_a_stalled_ring_does_not_take_pauses_no_receiving() {
    let _watchdog = watchdog("a stalled ring's share");
    a_stalled_ring_pauses_no_receiving(shm);
    a_stalled_ring_pauses_no_receiving(local);
}

fn a_stalled_ring_delays_nobody_else(io: fn() -> Backend) {
    let nodes = [node(Some(localhost())), node(Some(localhost())), node(None)];
    let addresses = [0, 1].map(|index: usize| nodes[index].local_address().expect("it listens"));
    let (mut stalled, mut healthy) = (server(&nodes[0], io()), server(&nodes[1], io()));
    let state = Outcomes::default();
    let mut client = Endpoint::new(EndpointConfig::default(), io(), Clock::system(), state);
    client.attach(&nodes[2]).expect("the node runs");
    let to_healthy = session(&mut client, &mut healthy, addresses[1]);
    let to_stalled: Vec<_> =
        (0..STALLED_SESSIONS).map(|_| session(&mut client, &mut stalled, addresses[0])).collect();
    // From now on nobody reads that ring.
    for session in to_stalled {
        for tag in 0..CALLS_PER_SESSION {
            start(&mut client, session, ECHO, 100 + tag);
            client.run_once();
        }
    }
    assert!(client.io().stats().tx_full > 0, "the ring is full");
    // Short and long, so that trains and references pass the ones that wait.
    for (tag, bytes) in [(1, 8), (2, 3000)] {
        let request = MsgBuf::from_slice(&vec![7; bytes]);
        let context = client.context();
        let begun = context.enqueue_request(to_healthy, ECHO, request, collect, tag);
        begun.expect("there is room");
    }
    for _ in 0..TURNS_MAX {
        client.run_once();
        healthy.run_once();
    }
    let mut ended: Vec<_> = client.state_mut().list.drain(..).collect();
    ended.sort_by_key(|(tag, _)| *tag);
    assert_eq!(ended, [(1, Ok(vec![7; 8])), (2, Ok(vec![7; 3000]))]);
    // What waited is sent, in order, as soon as it is read.
    let waited = STALLED_SESSIONS * CALLS_PER_SESSION as usize;
    while client.state_mut().list.len() < waited {
        client.run_once();
        stalled.run_once();
    }
    assert!(client.state_mut().list.iter().all(|(_, outcome)| outcome.is_ok()));
}

#[test]
fn a_stalled_ring_delays_no_other_ring() {
    let _watchdog = watchdog("a stalled ring");
    a_stalled_ring_delays_nobody_else(shm);
}

#[test]
fn a_stalled_ring_beside_a_socket_delays_no_other_ring() {
    let _watchdog = watchdog("a stalled ring beside a socket");
    a_stalled_ring_delays_nobody_else(local);
}
