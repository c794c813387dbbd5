//! Measures the backend against the bare socket below it, across a veth pair between namespaces.
//!
//! `cargo run --release -p petasos-netio-xdp --example veth_floor [SECONDS [Native|Generic]]`
//!
//! Needs root. Each figure is the best of many short turns, which alternate between both, because
//! on a shared machine the speed varies.

use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::Duration;

use petasos_base::Clock;
use petasos_floor::xdp::{XdpClient, xdp_echo};
use petasos_floor::{SILENCE_MAX_US, Turn, deadline};
use petasos_netio::{PacketIo, TX_BATCH_MAX, TxPacket};
use petasos_netio_xdp::{AttachMode, XdpConfig, XdpIo};

#[path = "../tests/rig/mod.rs"]
mod rig;

const PAYLOAD_BYTES: usize = 32 + 24;
const WINDOW: usize = 64;
const TURNS: usize = 40;

/// The layer whose cost is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Layer {
    Bare,
    PacketIo,
}

fn main() {
    if !rig::available() {
        return;
    }
    let seconds = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(0.05);
    println!("{PAYLOAD_BYTES} B payload, window {WINDOW}, best of {TURNS} turns of {seconds} s");
    let only = std::env::args().nth(2);
    for attach in [AttachMode::Native, AttachMode::Generic] {
        if only.as_ref().is_some_and(|only| *only != format!("{attach:?}")) {
            continue;
        }
        let pair = rig::Pair::new();
        let config = XdpConfig { attach, resolve_wait_ms: 10_000, ..XdpConfig::default() };
        let bind = |number| XdpIo::bind(rig::any_port(rig::v4(number)), &config);
        let mut left = pair.left.run(|| bind(1)).expect("a fresh interface is free");
        let mut right = pair.right.run(|| bind(2)).expect("a fresh interface is free");
        let mut measure = |ping: bool| {
            let turns: Vec<[f64; 2]> = (0..TURNS)
                .map(|_| {
                    [Layer::Bare, Layer::PacketIo].map(|layer| {
                        let turn = beside(layer, &mut left, &mut right, ping, seconds);
                        let p50 = turn.latency.quantile_us(0.5);
                        if ping { p50.unwrap_or(f64::NAN) } else { turn.ops_per_s() / 1e6 }
                    })
                })
                .collect();
            let better = |a: f64, b: f64| if ping { a.min(b) } else { a.max(b) };
            [0, 1]
                .map(|layer| turns.iter().map(|turn| turn[layer]).reduce(better))
                .map(|best| best.expect("there was a turn"))
        };
        for (name, ping) in [("ping-pong p50, µs", true), ("echo rate, M/s", false)] {
            let [bare, io] = measure(ping);
            println!("{attach:?} {name}: bare {bare:.3}, PacketIo {io:.3}, {:.3} of it", io / bare);
        }
    }
}

/// One turn: the client on one core, the server on another.
fn beside(layer: Layer, left: &mut XdpIo, right: &mut XdpIo, ping: bool, seconds: f64) -> Turn {
    let (running, ended) = channel();
    let (peer, back) = (right.local_address(), left.local_address());
    std::thread::scope(|scope| {
        scope.spawn(move || {
            pin(1);
            let stop = until_hung_up(ended);
            match layer {
                Layer::Bare => drop(xdp_echo(right, &Clock::system(), stop)),
                Layer::PacketIo => echo(right, back, stop),
            }
        });
        pin(0);
        let clock = Clock::system();
        let stop = deadline(&clock, Duration::from_secs_f64(seconds));
        let turn = match layer {
            Layer::Bare => {
                let mut client = XdpClient::new(left, peer, PAYLOAD_BYTES).expect("on the link");
                if ping { client.ping(&clock, stop) } else { client.flood(WINDOW, &clock, stop) }
            }
            Layer::PacketIo => flood(left, peer, if ping { 1 } else { WINDOW }, &clock, stop),
        };
        drop(running);
        turn
    })
}

/// Keeps `window` packets outstanding; with one, their round trips are timed.
fn flood(
    io: &mut XdpIo,
    peer: std::net::SocketAddr,
    window: usize,
    clock: &Clock,
    mut stop: impl FnMut() -> bool,
) -> Turn {
    let route = io.route(peer).expect("on the link");
    // Packets left over from an earlier turn are recognised by their first byte.
    let tag = io.stats().tx_frames as u8;
    let bytes = [tag; PAYLOAD_BYTES];
    let packets = [TxPacket { route, head: &bytes[..24], body: &bytes[24..] }; TX_BATCH_MAX];
    while io.receive().frames().count() > 0 {}
    let (mut turn, start) = (Turn::default(), clock.now());
    let (mut outstanding, mut sent, mut idle) = (0, start, 0u32);
    for turns in 1u64.. {
        if outstanding < window {
            sent = if window == 1 { clock.now() } else { sent };
            outstanding += io.transmit(&packets[..window - outstanding]);
        }
        let frames = io.receive().frames();
        let echoes = frames.filter(|frame| frame.bytes[0] == tag).count().min(outstanding);
        if echoes > 0 {
            idle = 0;
            turn.datagrams += echoes as u64;
            outstanding -= echoes;
            if window == 1 {
                turn.latency.record_ns(clock.now().nanos_since(sent));
            }
        } else {
            idle += 1;
            if idle.is_multiple_of(1 << 20) {
                turn.lost += outstanding as u64;
                outstanding = 0;
            }
        }
        if turns.is_multiple_of(64) && stop() {
            break;
        }
    }
    turn.elapsed_s = clock.now().nanos_since(start) as f64 / 1e9;
    let mut late = deadline(clock, Duration::from_micros(SILENCE_MAX_US));
    while outstanding > 0 && !late() {
        outstanding -= io.receive().frames().count().min(outstanding);
    }
    io.release_route(route);
    turn
}

/// Sends every packet back.
fn echo(io: &mut XdpIo, peer: std::net::SocketAddr, mut stop: impl FnMut() -> bool) {
    let route = io.route(peer).expect("on the link");
    let mut copies = [0; TX_BATCH_MAX * PAYLOAD_BYTES];
    for turns in 1u64.. {
        let mut count = 0;
        for (copy, frame) in copies.chunks_mut(PAYLOAD_BYTES).zip(io.receive().frames()) {
            copy.copy_from_slice(frame.bytes);
            count += 1;
        }
        if count > 0 {
            io.transmit_train(route, &copies[..count * PAYLOAD_BYTES], PAYLOAD_BYTES);
        }
        if turns.is_multiple_of(64) && stop() {
            break;
        }
    }
    io.release_route(route);
}

fn until_hung_up(ended: Receiver<()>) -> impl FnMut() -> bool {
    move || ended.try_recv() == Err(TryRecvError::Disconnected)
}

/// Best effort: on a machine with one core, the threads share it.
fn pin(core: usize) {
    let mut set = rustix::thread::CpuSet::new();
    set.set(core);
    if let Err(error) = rustix::thread::sched_setaffinity(None, &set) {
        eprintln!("cannot pin to core {core}: {error}");
    }
}
