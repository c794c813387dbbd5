//! How many connections a turn accepts.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::iter;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use petasos_base::sync::{AtomicBool, AtomicU64};
use petasos_base::{Clock, VirtualClock};
use petasos_control::{Config, Event, SessionRef, SessionRole};
use rustix::event::{PollFd, PollFlags, poll};

use super::*;
use crate::mailbox::Mailbox;
use crate::node::guard::Guard;
use crate::node::{NodeConfig, Shared, hello, listen, quota};

/// Longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(20);
const NOW: Time = Time::from_nanos(1 << 40);
const STRANGERS: usize = 3 * ACCEPTS_MAX;

/// A control thread that the test turns, and where it listens.
fn control() -> (Control, SocketAddr) {
    let settings = NodeConfig::default();
    let listener = listen((Ipv4Addr::LOCALHOST, 0).into()).expect("loopback has ports");
    let address = listener.local_addr().expect("it is bound");
    let shared = Arc::new(Shared {
        commands: Mailbox::new().expect("there are descriptors"),
        guard: Guard::new(&settings).expect("there are no certificates"),
        refused: quota::Counters::default(),
        members: Mutex::default(),
        has_router: AtomicBool::new(false),
        enrolments: AtomicU64::new(0),
    });
    let (hello, config) = (hello(&settings, true), Config::default());
    // No time passes, but some has passed before: an address has handshakes left.
    let clock = VirtualClock::default();
    clock.set(NOW);
    let clock = Clock::Virtual(clock);
    (Control::new(shared, Some(listener.into()), config, hello, &settings, clock), address)
}

/// A process that is connected.
struct Peer {
    stream: TcpStream,
    connection: Connection,
}

impl Peer {
    fn new(address: SocketAddr) -> Peer {
        let stream = TcpStream::connect(address).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("it is not zero");
        let hello = hello(&NodeConfig::default(), false);
        let connection = Connection::new(Config::default(), Role::Dialler, hello, NOW);
        Peer { stream, connection }
    }

    /// Says what it has to say; all of that has arrived at the link then.
    fn say(&mut self, link: &Link) {
        while let Some(output) = self.connection.poll_output() {
            let count = self.stream.write(output).expect("the connection stands");
            self.connection.advance_output(count);
        }
        let _ = poll(&mut [PollFd::new(link, PollFlags::IN)], None);
    }

    /// Waits for an answer, while the control thread does not turn.
    fn hear(&mut self, mut is_there: impl FnMut(&mut Connection) -> bool) {
        let mut bytes = [0; 4096];
        while !is_there(&mut self.connection) {
            let count = self.stream.read(&mut bytes).expect("it is answered");
            assert!(count > 0, "the connection stands");
            self.connection.handle_bytes(&bytes[..count], NOW);
        }
    }
}

/// Many connections at once would keep established ones waiting.
#[test]
fn a_turn_accepts_few_of_many_connections_and_serves_established_ones() {
    let (mut control, address) = control();
    let mut commands = VecDeque::new();
    let mut turn = |control: &mut Control| {
        let (before, accepts) = (control.links.len(), control.wait());
        assert!(control.turn(&mut commands, accepts), "nobody stops it");
        let accepted = control.links.len() - before;
        assert!(accepted <= ACCEPTS_MAX, "one turn accepts {accepted}");
    };
    let mut peer = Peer::new(address);
    while control.links.is_empty() {
        turn(&mut control);
    }
    let number = *control.links.keys().next().expect("it is accepted");
    peer.say(&control.links[&number]);
    turn(&mut control);
    peer.hear(|connection| connection.is_open());
    let connect = |_| TcpStream::connect(address).expect("there is room for those that wait");
    let strangers: Vec<_> = (0..STRANGERS).map(connect).collect();
    turn(&mut control);
    let session = SessionRef { role: SessionRole::Client, endpoint: 0, session: 0, tag: 1 };
    peer.connection.disconnect(session).expect("it is open");
    peer.say(&control.links[&number]);
    turn(&mut control);
    let is_answer = |event| matches!(event, Event::DisconnectAnswered { .. });
    peer.hear(|connection| iter::from_fn(|| connection.poll_event()).any(is_answer));
    assert!(control.links.len() < 1 + STRANGERS, "some still wait");
    while control.links.len() < 1 + strangers.len() {
        turn(&mut control);
    }
}
