//! The backend's use of the heap: nothing in steady state, and for a hostile peer no more than the
//! bytes that it has sent. There is one test, since the counter counts the whole process.

use std::alloc::System;
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};

use petasos_netio::{PacketIo, TxPacket};
use petasos_netio_conformance::turns;
use petasos_netio_tcp::record::{PREAMBLE, RECORD_BYTES_MAX, head};
use petasos_netio_tcp::{TcpConfig, TcpIo};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

#[test]
fn memory_is_taken_for_what_has_arrived_only() {
    moving_packets_allocates_nothing();
    an_announced_length_takes_no_memory();
}

fn port() -> TcpIo {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    TcpIo::bind(address, TcpConfig::default()).expect("loopback has ports")
}

/// Sends all packets, perhaps in parts, and receives them.
fn round(from: &mut TcpIo, to: &mut TcpIo, packets: &[TxPacket<'_>]) {
    let (mut taken, mut received) = (0, 0);
    for _ in turns() {
        taken += from.transmit(&packets[taken..]);
        assert_eq!(from.receive().frames().count(), 0);
        received += to.receive().frames().count();
        if received == packets.len() {
            return;
        }
    }
    panic!("{received} of {} packets arrived", packets.len());
}

fn moving_packets_allocates_nothing() {
    let (mut from, mut to) = (port(), port());
    let route = from.route(to.local_address()).expect("it is on loopback");
    let bytes = vec![3; 65_000];
    let lens = [56, 65_000, 1472, 40];
    let packet = |at: usize| TxPacket { route, head: &bytes[..24], body: &bytes[24..lens[at % 4]] };
    let packets: Vec<_> = (0..64).map(packet).collect();
    (0..20).for_each(|_| round(&mut from, &mut to, &packets));
    let region = Region::new(ALLOCATOR);
    (0..100).for_each(|_| round(&mut from, &mut to, &packets));
    let change = region.change();
    assert_eq!(change.allocations + change.reallocations, 0, "{change:?}");
}

fn an_announced_length_takes_no_memory() {
    let mut io = port();
    let call = |_| TcpStream::connect(io.local_address()).expect("it listens");
    let mut strangers: Vec<TcpStream> = (0..32).map(call).collect();
    let receive_until = |io: &mut TcpIo, condition: &dyn Fn(&TcpIo) -> bool| {
        assert!(turns().any(|_| io.receive().frames().count() == 0 && condition(io)));
    };
    receive_until(&mut io, &|io| io.connections() == strangers.len());
    let region = Region::new(ALLOCATOR);
    for stream in &mut strangers {
        let announced = [&PREAMBLE[..], &head(RECORD_BYTES_MAX, 1), b"some"].concat();
        stream.write_all(&announced).expect("the connection stands");
    }
    // Each is read, and later found to have nothing more.
    let found = |io: &TcpIo| io.stats().rx_syscalls - io.stats().rx_syscalls_empty;
    let enough = found(&io) + strangers.len() as u64;
    receive_until(&mut io, &|io| found(io) >= enough);
    let change = region.change();
    let held = change.bytes_allocated.saturating_sub(change.bytes_deallocated);
    assert!(held < strangers.len() * 1024, "{held} bytes");
    assert_eq!(io.connections(), strangers.len());
}
