//! The bare floor of `petasos-floor` moves frames; the backend moves packets without allocating.

use core::cell::Cell;
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::mpsc::{TryRecvError, channel};
use std::time::Duration;

use petasos_base::Clock;
use petasos_floor::deadline;
use petasos_floor::xdp::{XdpClient, xdp_echo};
use petasos_netio::{PacketIo, TxPacket};
use petasos_netio_xdp::{XdpConfig, XdpIo};

mod rig;
use rig::Pair;

struct Counting;

thread_local! {
    // Without a destructor and initialised at compile time, so that the allocator may use it.
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn ends(pair: &Pair, host: fn(u8) -> std::net::IpAddr) -> (XdpIo, XdpIo) {
    let config = XdpConfig { resolve_wait_ms: 10_000, ..XdpConfig::default() };
    let bind = |number| XdpIo::bind(rig::any_port(host(number)), &config);
    let left = pair.left.run(|| bind(1)).expect("a fresh interface is free");
    (left, pair.right.run(|| bind(2)).expect("a fresh interface is free"))
}

#[test]
fn a_bare_echo_answers_a_ping_and_a_flood() {
    if !rig::available() {
        return;
    }
    for host in [rig::v4 as fn(u8) -> std::net::IpAddr, rig::v6] {
        let pair = Pair::new();
        let (mut left, mut right) = ends(&pair, host);
        let peer = right.local_address();
        let (running, ended) = channel::<()>();
        std::thread::scope(|scope| {
            let stop = move || ended.try_recv() == Err(TryRecvError::Disconnected);
            scope.spawn(move || xdp_echo(&mut right, &Clock::system(), stop));
            let running = running;
            let mut client = XdpClient::new(&mut left, peer, 56).expect("on the link");
            let clock = Clock::system();
            let mut watchdog = deadline(&clock, Duration::from_secs(30));
            let mut done = [0, 0];
            while done.contains(&0) {
                let stop = || deadline(&clock, Duration::from_millis(20));
                let ping = client.ping(&clock, stop());
                assert_eq!(ping.latency.count(), ping.datagrams);
                let flood = client.flood(64, &clock, stop());
                assert_eq!(flood.bytes, flood.datagrams * 56);
                done = [done[0] + ping.datagrams, done[1] + flood.datagrams];
                assert!(!watchdog(), "no echo: {done:?}");
            }
            drop(running);
        });
    }
}

#[test]
fn moving_packets_allocates_nothing() {
    if !rig::available() {
        return;
    }
    let pair = Pair::new();
    let (mut left, mut right) = ends(&pair, rig::v4);
    let route = left.route(right.local_address()).expect("on the link");
    let bytes = [3; 1472];
    let packets = [56, 1472, 30].map(|len| TxPacket { route, head: &bytes[..len], body: &[] });
    let mut round = || {
        assert_eq!(left.transmit(&packets), 3);
        let mut missing = 3;
        let arrived = (0..1_000_000).any(|_| {
            missing -= right.receive().frames().count();
            missing == 0
        });
        assert!(arrived, "{missing} packets did not arrive");
    };
    round();
    let before = ALLOCATIONS.get();
    (0..100).for_each(|_| round());
    assert_eq!(ALLOCATIONS.get() - before, 0, "allocations for 300 packets");
}
