//! Sessions beside the network: shared memory chosen by itself, by force, or not at all.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::Duration;

use petasos_endpoint::{
    Backend, Clock, ConnectAndWaitError, Endpoint, EndpointConfig, LocalConfig, LocalIo,
    LocalPolicy, MsgBuf, Polling, RefuseCode, SessionError, SessionId,
};
use petasos_netio_shm::{ShmConfig, ShmIo};
use petasos_netio_udp::{UdpConfig, UdpIo};

use crate::common::*;

fn any() -> SocketAddr {
    SocketAddr::new(localhost(), 0)
}

fn local(policy: LocalPolicy) -> Backend {
    let config = LocalConfig { local: policy, ..LocalConfig::default() };
    LocalIo::bind(any(), &config).expect("loopback has ports").into()
}

fn shm() -> Backend {
    ShmIo::bind(any(), ShmConfig::default()).expect("names are free").into()
}

fn udp() -> Backend {
    UdpIo::bind(any(), UdpConfig::default()).expect("loopback has ports").into()
}

fn config(polling: Polling) -> EndpointConfig {
    EndpointConfig { polling, ..EndpointConfig::default() }
}

/// A client of `io` and a server of `theirs`, on a thread of its own.
struct Pair {
    client: Endpoint<Outcomes>,
    address: SocketAddr,
    _server: Server,
    _nodes: [petasos_endpoint::Node; 2],
}

impl Pair {
    fn new(io: Backend, theirs: fn() -> Backend, polling: Polling) -> Pair {
        let nodes = [node(Some(localhost())), node(None)];
        let server = Server::start_over(&nodes[0], theirs, config(Polling::default()), |_| {});
        let mut client = Endpoint::new(config(polling), io, Clock::system(), Outcomes::default());
        client.attach(&nodes[1]).expect("the node runs");
        let address = nodes[0].local_address().expect("it listens");
        Pair { client, address, _server: server, _nodes: nodes }
    }

    fn connect(&mut self) -> Result<SessionId, ConnectAndWaitError> {
        self.client.connect_and_wait(self.address, PATIENCE)
    }

    fn links(&self) -> usize {
        match self.client.io() {
            Backend::Local(io) => io.links(),
            Backend::Shm(io) => io.links(),
            _ => 0,
        }
    }

    /// Echoes short messages one at a time, and a long one.
    fn exchange(&mut self) {
        let session = self.connect().expect("the server is up");
        for _ in 0..50 {
            echoes(&mut self.client, session);
        }
        let message: Vec<u8> = (0..3_000_000u32).map(|n| n as u8).collect();
        let request = MsgBuf::from_slice(&message);
        let call = self.client.context().enqueue_request(session, ECHO, request, collect, 1);
        call.expect("there is room");
        assert!(self.client.run_for(PATIENCE, |state, _| !state.list.is_empty()), "it ends");
        let (_, outcome) = self.client.state_mut().list.pop().expect("it has ended");
        assert!(outcome.expect("the server is up") == message, "it comes back as it was");
    }
}

#[test]
fn shared_memory_is_chosen_where_both_can() {
    let _watchdog = watchdog("chosen");
    let mut pair =
        Pair::new(local(LocalPolicy::Auto), || local(LocalPolicy::Auto), Polling::default());
    pair.exchange();
    assert_eq!(pair.links(), 1, "one link for both directions");
    let Backend::Local(io) = pair.client.io() else { unreachable!("it was given") };
    assert!(io.link_stats().links_accepted == 1 && io.link_stats().drops_unlinked == 0);
}

#[test]
fn the_network_is_taken_where_one_cannot_or_must_not() {
    let _watchdog = watchdog("not chosen");
    let theirs: [fn() -> Backend; 2] = [udp, || local(LocalPolicy::Never)];
    for theirs in theirs {
        let mut pair = Pair::new(local(LocalPolicy::Auto), theirs, Polling::default());
        pair.exchange();
        assert_eq!(pair.links(), 0);
    }
    let ours: [fn() -> Backend; 2] = [udp, || local(LocalPolicy::Never)];
    for ours in ours {
        let mut pair = Pair::new(ours(), || local(LocalPolicy::Auto), Polling::default());
        pair.exchange();
        assert_eq!(pair.links(), 0);
    }
}

#[test]
fn shared_memory_alone_reaches_both_kinds_that_have_it() {
    let _watchdog = watchdog("by force");
    let theirs: [fn() -> Backend; 2] = [shm, || local(LocalPolicy::Auto)];
    for theirs in theirs {
        let mut pair = Pair::new(shm(), theirs, Polling::default());
        pair.exchange();
        assert_eq!(pair.links(), 1);
    }
    let mut pair = Pair::new(local(LocalPolicy::Auto), shm, Polling::default());
    pair.exchange();
    assert_eq!(pair.links(), 1);
}

#[test]
fn a_peer_without_shared_memory_is_an_error_where_there_is_nothing_else() {
    let _watchdog = watchdog("refused");
    let mut pair = Pair::new(shm(), udp, Polling::default());
    let failed = pair.connect().expect_err("the server has none");
    let no_route = ConnectAndWaitError::Failed(SessionError::NoRoute);
    assert_eq!(format!("{failed:?}"), format!("{no_route:?}"));
    let mut pair = Pair::new(udp(), shm, Polling::default());
    let failed = pair.connect().expect_err("the server has nothing else");
    let refused = SessionError::RefusedBy(RefuseCode::IncompatibleParameters);
    assert_eq!(format!("{failed:?}"), format!("{:?}", ConnectAndWaitError::Failed(refused)));
}

#[test]
fn loops_that_sleep_at_once_wake_for_rings() {
    let _watchdog = watchdog("asleep at once");
    for io in [shm as fn() -> Backend, || local(LocalPolicy::Auto)] {
        let at_once = Polling::Adaptive { spin: Duration::ZERO };
        let mut pair = Pair::new(io(), io, at_once);
        pair.exchange();
        assert_eq!(pair.links(), 1);
        assert!(pair.client.stats().event_loop.sleeps >= 25, "it sleeps for nearly every answer");
    }
}

fn is_readable(descriptor: &OwnedFd, timeout: Duration) -> bool {
    let timeout = rustix::event::Timespec {
        tv_sec: timeout.as_secs() as _,
        tv_nsec: timeout.subsec_nanos() as _,
    };
    let mut fds = [rustix::event::PollFd::new(descriptor, rustix::event::PollFlags::IN)];
    rustix::event::poll(&mut fds, Some(&timeout)).expect("it can be polled") == 1
}

#[test]
fn a_loop_driven_from_outside_hears_rings_by_its_descriptor() {
    let _watchdog = watchdog("outside");
    for io in [shm as fn() -> Backend, || local(LocalPolicy::Auto)] {
        let mut pair = Pair::new(io(), io, Polling::External);
        let descriptor = pair.client.descriptor().expect("descriptors");
        let session = pair.connect().expect("the server is up");
        for _ in 0..200 {
            start(&mut pair.client, session, ECHO, 7);
            while pair.client.state().list.is_empty() {
                pair.client.run_ready(64);
                if pair.client.state().list.is_empty() {
                    assert!(is_readable(&descriptor, PATIENCE), "the answer makes it readable");
                }
            }
            let (_, outcome) = pair.client.state_mut().list.pop().expect("it has ended");
            outcome.expect("the server is up");
            // What turns the loop otherwise does not deafen it.
            pair.client.run_for(Duration::ZERO, |_, _| false);
        }
        pair.client.run_ready(64);
        assert!(!is_readable(&descriptor, Duration::ZERO), "nothing is left to do");
    }
}
