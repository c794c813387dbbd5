//! Measures the backend over the `udp` provider on loopback, next to bare kernel sockets.
//!
//! `cargo run --release -p petasos-netio-fabric --features fabric --example fabric_floor [SECONDS]`
//!
//! Each figure is the best of many short turns, which alternate, because on a shared machine the
//! speed varies. Client and server share a process and have a core each.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::mpsc::{TryRecvError, channel};
use std::time::Duration;

use petasos_base::Clock;
use petasos_floor::{deadline, packet_echo, packet_flood};
use petasos_netio::PacketIo;
use petasos_netio_fabric::{FabricConfig, FabricIo};
use petasos_netio_udp::{UdpConfig, UdpIo};

const PAYLOAD_BYTES: usize = 32 + 24;
const WINDOW: usize = 64;
const TURNS: usize = 100;

fn main() {
    let seconds = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(0.005);
    println!("{PAYLOAD_BYTES} B payload, window {WINDOW}, best of {TURNS} turns of {seconds} s");
    let turn = Duration::from_secs_f64(seconds);
    let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let provider = Some("udp".to_owned());
    let config = FabricConfig { provider, wakeups: false, ..FabricConfig::default() };
    let from_memory = FabricConfig { inject_bytes_max: 0, ..config.clone() };
    let fabric = |config| FabricIo::bind(any, config).expect("loopback has free ports");
    // Without segmentation offload, a kernel socket does the same as the provider.
    let plain = UdpConfig { gso: false, gro: false, ..UdpConfig::default() };
    let udp = || UdpIo::bind(any, plain).expect("loopback has free ports");
    let mut ports =
        [(fabric(&config), fabric(&config)), (fabric(&from_memory), fabric(&from_memory))];
    let mut sockets = (udp(), udp());
    for (name, window) in [("ping-pong mean, µs", 1), ("echo rate, M/s", WINDOW)] {
        let mut best = [0f64; 3];
        for _ in 0..TURNS {
            let [injected, from_memory] = &mut ports;
            let rates = [
                beside(&mut sockets.0, &mut sockets.1, window, turn),
                beside(&mut injected.0, &mut injected.1, window, turn),
                beside(&mut from_memory.0, &mut from_memory.1, window, turn),
            ];
            best.iter_mut().zip(rates).for_each(|(best, rate)| *best = best.max(rate));
        }
        let shown = best.map(|rate| if window == 1 { 1e6 / rate } else { rate / 1e6 });
        let [udp, injected, from_memory] = shown;
        println!("{name}: sockets {udp:.3}, injected {injected:.3}, from memory {from_memory:.3}");
    }
}

/// Echoes per second in one turn.
fn beside<Io: PacketIo + Send>(
    left: &mut Io,
    right: &mut Io,
    window: usize,
    turn: Duration,
) -> f64 {
    let (running, ended) = channel::<()>();
    let (peer, back) = (right.local_address(), left.local_address());
    std::thread::scope(|scope| {
        scope.spawn(move || {
            pin(1);
            let stop = || ended.try_recv() == Err(TryRecvError::Disconnected);
            let echoed = packet_echo(right, back, PAYLOAD_BYTES, &Clock::system(), stop);
            echoed.expect("loopback is reachable");
        });
        pin(0);
        let clock = Clock::system();
        let stop = deadline(&clock, turn);
        let asked = packet_flood(left, peer, (window, PAYLOAD_BYTES), &clock, stop);
        drop(running);
        asked.expect("loopback is reachable").ops_per_s()
    })
}

/// Best effort: on a machine with one core, the threads share it.
fn pin(core: usize) {
    let mut set = rustix::thread::CpuSet::new();
    set.set(core);
    if let Err(error) = rustix::thread::sched_setaffinity(None, &set) {
        eprintln!("cannot pin to core {core}: {error}");
    }
}
