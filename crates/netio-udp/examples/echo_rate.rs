//! How close the backend comes to the bare socket: an echo of 56-byte datagrams between two
//! pinned threads, 64 outstanding, in batches of 32. Takes less than two seconds.
//!
//! `cargo run --release -p petasos-netio-udp --example echo_rate`

use std::io::IoSlice;
use std::net::{Ipv4Addr, SocketAddr};
use std::thread;

use petasos_base::Clock;
use petasos_netio::{PacketIo, Route, TxPacket};
use petasos_netio_udp::{GsoSocket, UdpConfig, UdpIo};

const DATAGRAM_BYTES: usize = 56;
const BATCH: usize = 32;
const OUTSTANDING: usize = 64;
const SLICE_NANOS: u64 = 75_000_000;
const PAIRS: usize = 12;

/// The request that ends a server.
const STOP: &[u8] = &[0];

/// One end of an echo.
trait Port: Send {
    /// The address to reach it at.
    fn address(&self) -> SocketAddr;

    /// Makes `peer` the one to send to.
    fn aim(&mut self, peer: SocketAddr);

    /// Sends `count` datagrams with `bytes` each.
    fn send(&mut self, bytes: &[u8], count: usize);

    /// Datagrams received, and whether one of them said stop.
    fn receive(&mut self) -> (usize, bool);
}

struct Raw {
    socket: GsoSocket,
    peer: SocketAddr,
    received: Vec<u8>,
    train: Vec<u8>,
}

impl Port for Raw {
    fn address(&self) -> SocketAddr {
        self.socket.local_address()
    }

    fn aim(&mut self, peer: SocketAddr) {
        self.peer = peer;
    }

    fn send(&mut self, bytes: &[u8], count: usize) {
        let train = &mut self.train[..bytes.len() * count];
        train.chunks_exact_mut(bytes.len()).for_each(|datagram| datagram.copy_from_slice(bytes));
        let segment = (count > 1).then_some(bytes.len() as u16);
        self.socket.send(Some(self.peer), &[IoSlice::new(train)], segment).expect("it fits");
    }

    fn receive(&mut self) -> (usize, bool) {
        let received = self.socket.receive(&mut self.received).expect("loopback does not fail");
        received.map_or((0, false), |received| {
            (received.len.div_ceil(received.segment_bytes), received.segment_bytes == STOP.len())
        })
    }
}

struct Backend {
    io: UdpIo,
    route: Route,
}

impl Port for Backend {
    fn address(&self) -> SocketAddr {
        self.io.local_address()
    }

    fn aim(&mut self, peer: SocketAddr) {
        self.route = self.io.route(peer).expect("loopback is reachable");
    }

    fn send(&mut self, bytes: &[u8], count: usize) {
        let packet = TxPacket { route: self.route, head: bytes, body: &[] };
        let taken = self.io.transmit(&[packet; OUTSTANDING][..count]);
        assert_eq!(taken, count, "loopback takes everything");
    }

    fn receive(&mut self) -> (usize, bool) {
        self.io.receive().frames().fold((0, false), |(count, stop), frame| {
            (count + 1, stop || frame.bytes.len() == STOP.len())
        })
    }
}

fn raw() -> Raw {
    let socket = GsoSocket::bind((Ipv4Addr::LOCALHOST, 0).into(), 4 << 20).expect("a free port");
    let train = vec![0; DATAGRAM_BYTES * OUTSTANDING];
    Raw { peer: socket.local_address(), socket, received: vec![0; 65_536], train }
}

fn backend() -> Backend {
    let io = UdpIo::bind((Ipv4Addr::LOCALHOST, 0).into(), UdpConfig::default());
    Backend { io: io.expect("a free port"), route: Route(0) }
}

fn pin(core: usize) {
    // SAFETY: a zeroed `cpu_set_t` is an empty set; the calls touch only that local variable.
    unsafe {
        let mut set: libc::cpu_set_t = core::mem::zeroed();
        libc::CPU_SET(core, &mut set);
        // Without a second core the figures are poor, but there are figures.
        libc::sched_setaffinity(0, size_of_val(&set), &raw const set);
    }
}

fn serve(mut port: impl Port) {
    pin(1);
    let response = [1; DATAGRAM_BYTES];
    loop {
        let (mut count, stop) = port.receive();
        if stop {
            return;
        }
        while count > 0 {
            let batch = count.min(OUTSTANDING);
            port.send(&response, batch);
            count -= batch;
        }
    }
}

/// Datagrams per second that go there and back, in one slice of time.
fn slice<P: Port>(clock: &Clock, [mut client, mut server]: [P; 2]) -> f64 {
    server.aim(client.address());
    client.aim(server.address());
    thread::scope(|scope| {
        scope.spawn(|| serve(server));
        let request = [2; DATAGRAM_BYTES];
        let start = clock.now().as_nanos();
        let (mut credits, mut done, mut elapsed) = (OUTSTANDING, 0, 0);
        while elapsed < SLICE_NANOS {
            while credits >= BATCH {
                client.send(&request, BATCH);
                credits -= BATCH;
            }
            let (count, _) = client.receive();
            credits += count;
            done += count;
            elapsed = clock.now().as_nanos() - start;
        }
        client.send(STOP, 1);
        done as f64 * 1e9 / elapsed as f64
    })
}

fn main() {
    pin(0);
    let clock = Clock::system();
    let mut ratios = Vec::new();
    for _ in 0..PAIRS {
        let bare = slice(&clock, [raw(), raw()]);
        let built = slice(&clock, [backend(), backend()]);
        println!("bare socket {:6.2} M/s   backend {:6.2} M/s", bare / 1e6, built / 1e6);
        ratios.push(built / bare);
    }
    ratios.sort_by(f64::total_cmp);
    println!("median ratio {:.3}", ratios[PAIRS / 2]);
}
