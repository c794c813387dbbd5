//! In steady state the backend does not touch the heap.

use core::cell::Cell;
use std::alloc::{GlobalAlloc, Layout, System};
use std::net::{Ipv4Addr, SocketAddr};

use petasos_netio::{PacketIo, TxPacket};
use petasos_netio_udp::{UdpConfig, UdpIo};

struct Counting;

thread_local! {
    /// Allocations by this thread. A constant without destructor, which an allocator may use.
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

/// Sends small and large packets to two peers, and receives them.
fn round(from: &mut UdpIo, to: &mut [UdpIo; 2], packets: &[TxPacket<'_>]) {
    assert_eq!(from.transmit(packets), packets.len());
    let mut missing = packets.len();
    for _ in 0..1_000_000 {
        for io in &mut *to {
            missing -= io.receive().frames().count();
        }
        if missing == 0 {
            return;
        }
    }
    panic!("{missing} packets did not arrive");
}

#[test]
fn moving_packets_allocates_nothing() {
    for gso in [true, false] {
        let config = UdpConfig { gso, ..UdpConfig::default() };
        let bind = || UdpIo::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), config);
        let mut from = bind().expect("loopback has a free port");
        let mut to = [(); 2].map(|_| bind().expect("loopback has a free port"));
        let routes =
            [0, 1].map(|at| from.route(to[at].local_address()).expect("loopback is reachable"));
        let bytes = vec![3; 1472];
        let lens = [56, 1472, 56, 40];
        let packets: Vec<_> = (0..64)
            .map(|number| TxPacket {
                route: routes[number / 3 % 2],
                head: &bytes[..24],
                body: &bytes[24..lens[number % 4]],
            })
            .collect();
        round(&mut from, &mut to, &packets);
        let before = ALLOCATIONS.get();
        for _ in 0..100 {
            round(&mut from, &mut to, &packets);
        }
        let count = ALLOCATIONS.get() - before;
        assert_eq!(count, 0, "allocations for 6400 packets, GSO {gso}");
    }
}
