//! Runs both roles of each measurement as two threads that stop after counts, not times.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::mpsc::{Receiver, TryRecvError, channel};

use petasos_base::Clock;
use petasos_shm::RingShape;

use crate::{
    Flood, RingLink, RingListener, ring_blast, ring_drain, ring_echo, ring_flood, ring_ping,
};

const RINGS: RingShape = RingShape { slots: 64, data_bytes: 1 << 16, record_bytes_max: 8192 };

/// Returns true from the `count`th call on. Yields now and then to the other side, which may not
/// have a core of its own.
fn after(count: u32) -> impl FnMut() -> bool {
    let mut asked = 0;
    move || {
        asked += 1;
        if asked % 128 == 0 {
            std::thread::yield_now();
        }
        asked >= count
    }
}

fn hung_up(ended: Receiver<()>) -> impl FnMut() -> bool {
    move || ended.try_recv() == Err(TryRecvError::Disconnected)
}

fn beside<T>(
    [mut near, mut far]: [RingLink; 2],
    client: impl FnOnce(&mut RingLink) -> T,
    server: impl FnOnce(&mut RingLink, Receiver<()>) + Send,
) -> T {
    let (running, ended) = channel();
    std::thread::scope(|scope| {
        scope.spawn(move || server(&mut far, ended));
        let turn = client(&mut near);
        drop(running);
        turn
    })
}

fn echo(link: &mut RingLink, ended: Receiver<()>) {
    ring_echo(link, &Clock::system(), hung_up(ended)).expect("the client is honest");
}

fn pair() -> [RingLink; 2] {
    RingLink::pair(RINGS).expect("the host has memory files")
}

#[test]
fn every_ping_is_answered() {
    let ping = |link: &mut RingLink| ring_ping(link, 56, &Clock::system(), after(200_000));
    let turn = beside(pair(), ping, echo).expect("the echo is honest");
    assert!(turn.datagrams > 0);
    assert_eq!((turn.latency.count(), turn.bytes), (turn.datagrams, 56 * turn.datagrams));
}

#[test]
fn a_flood_counts_datagrams_of_trains() {
    let flood = Flood { datagram_bytes: 56, window: 64, batch: 32 };
    let client = |link: &mut RingLink| ring_flood(link, flood, &Clock::system(), after(200_000));
    let turn = beside(pair(), client, echo).expect("the echo is honest");
    assert!(turn.datagrams > 0 && turn.datagrams.is_multiple_of(32));
}

#[test]
fn a_transfer_brings_what_was_sent() {
    let mut memory = vec![0; 1 << 20];
    let (sending, sent) = channel::<()>();
    let turn = beside(
        pair(),
        |link| ring_drain(link, &mut memory, &Clock::system(), hung_up(sent)),
        |link, _| {
            let (source, mut count) = (vec![7; 1 << 20], 0);
            while count < 1000 {
                let turn = ring_blast(link, 8192, &source, &Clock::system(), after(10));
                count += turn.expect("the receiver is honest").datagrams;
            }
            drop(sending);
        },
    );
    let turn = turn.expect("the sender is honest");
    assert!(turn.datagrams > 0);
    assert_eq!(turn.bytes, 8192 * turn.datagrams);
    assert!(memory[..8192].iter().all(|byte| *byte == 7));
}

#[test]
fn two_processes_find_each_other_by_name() {
    let listener = RingListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
    let listener = listener.expect("a name is free");
    assert!(listener.accept().expect("it listens").is_none());
    let near = RingLink::connect(listener.local_address(), RINGS).expect("it listens");
    let far = listener.accept().expect("it listens").expect("somebody has connected");
    let ping = |link: &mut RingLink| ring_ping(link, 1, &Clock::system(), after(200_000));
    assert!(beside([near, far], ping, echo).expect("the echo is honest").datagrams > 0);
}
