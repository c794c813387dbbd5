//! Measures the backend between two processes over DPDK's shared-memory driver, net_memif.
//!
//! `cargo run --release -p petasos-netio-dpdk --features dpdk --example dpdk_floor [SECONDS]`
//!
//! Needs neither hardware nor huge pages. The server is a separate process, which ends when the
//! client is done; each has a core. Each figure is the best of many short turns, because on a
//! shared machine the speed varies.

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command};
use std::time::Duration;

use petasos_base::Clock;
use petasos_floor::{deadline, packet_echo, packet_flood};
use petasos_netio_dpdk::{DpdkConfig, DpdkIo};

const PAYLOAD_BYTES: usize = 32 + 24;
const TURNS: usize = 100;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let first = arguments.next().unwrap_or_default();
    if first == "serve" {
        return serve(&arguments.next().expect("the path of the socket"));
    }
    let seconds = first.parse().unwrap_or(0.005);
    let socket = std::env::temp_dir().join(format!("petasos-memif-{}", std::process::id()));
    let socket = socket.to_str().expect("a path of text");
    let program = std::env::current_exe().expect("this program has a path");
    let child = Command::new(program).args(["serve", socket]).spawn();
    let child = child.expect("the program can be started again");
    let _server = Server { child, socket: socket.to_owned() };
    pin(0);
    let mut io = connect(socket);
    println!("{PAYLOAD_BYTES} B payload, best of {TURNS} turns of {seconds} s");
    let turn = Duration::from_secs_f64(seconds);
    let mut best = |window| (0..TURNS).map(|_| flood(&mut io, window, turn)).fold(0f64, f64::max);
    println!("ping-pong mean, µs: {:.3}", 1e6 / best(1));
    println!("echo rate, window 32, M/s: {:.3}", best(32) / 1e6);
    println!("echo rate, window 64, M/s: {:.3}", best(64) / 1e6);
}

/// Kills the server when dropped: memif peers may hang when they exit by themselves.
struct Server {
    child: Child,
    socket: String,
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Err(error) = self.child.kill().and_then(|()| self.child.wait()) {
            eprintln!("cannot end the server: {error}");
        }
        // The file does not exist if the server did not get that far.
        let _ = std::fs::remove_file(&self.socket);
    }
}

/// The client's end. The driver tries to connect once, when the port is opened.
fn connect(socket: &str) -> DpdkIo {
    let clock = Clock::system();
    for _ in 0..10 {
        let end = clock.now() + Duration::from_secs(2);
        while !Path::new(socket).exists() && clock.now() < end {
            std::thread::sleep(Duration::from_millis(10));
        }
        let io = open(2, "client", socket);
        while clock.now() < end {
            if io.is_up() {
                return io;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
    panic!("the server does not answer");
}

fn address(number: u8) -> SocketAddr {
    SocketAddr::from(([10, 77, 0, number], 4000))
}

fn open(number: u8, role: &str, socket: &str) -> DpdkIo {
    let device = format!("net_memif0,role={role},socket={socket},socket-abstract=no");
    let mac = |number| [2, 0x77, 0, 0, 0, number];
    let config = DpdkConfig {
        neighbours: [1, 2].map(|number| (address(number).ip(), mac(number))).to_vec(),
        mac: Some(mac(number)),
        mtu: Some(1500),
        ..DpdkConfig::for_device(&device)
    };
    DpdkIo::bind(address(number), &config).unwrap_or_else(|error| panic!("{role}: {error}"))
}

/// Sends every packet back, for at most two minutes.
fn serve(socket: &str) {
    pin(1);
    let mut io = open(1, "server", socket);
    let clock = Clock::system();
    let stop = deadline(&clock, Duration::from_secs(120));
    let echoed = packet_echo(&mut io, address(2), PAYLOAD_BYTES, &clock, stop);
    echoed.expect("the client's address is configured");
}

/// Echoes per second in one turn.
fn flood(io: &mut DpdkIo, window: usize, turn: Duration) -> f64 {
    let clock = Clock::system();
    let stop = deadline(&clock, turn);
    let asked = packet_flood(io, address(1), (window, PAYLOAD_BYTES), &clock, stop);
    asked.expect("the server's address is configured").ops_per_s()
}

/// Best effort: on a machine with one core, the processes share it.
fn pin(core: usize) {
    let mut set = rustix::thread::CpuSet::new();
    set.set(core);
    if let Err(error) = rustix::thread::sched_setaffinity(None, &set) {
        eprintln!("cannot pin to core {core}: {error}");
    }
}
