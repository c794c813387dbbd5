//! Measures the cost of the shared-memory backend: bare rings and `ShmIo` take turns, with both
//! ends as pinned threads. Each slice is so short that many are undisturbed even on a busy machine.
//! The best tenth of the slices counts.
//!
//! `cargo run --release -p petasos-floor --example shm`, with the bytes of a datagram and of a
//! ring's data part as optional arguments.

use std::error::Error;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::Duration;

use petasos_base::Clock;
use petasos_floor::{
    Flood, FloorError, RingLink, Turn, deadline, ring_blast, ring_drain, ring_echo, ring_flood,
    ring_ping,
};
use petasos_netio::{PacketIo, Route, TxPacket};
use petasos_netio_shm::{ShmConfig, ShmIo};
use petasos_report::Machine;
use rustix::thread::{CpuSet, sched_setaffinity};

const PAIRS: usize = 30;
const SLICE: Duration = Duration::from_millis(12);
const SMALL_BYTES: usize = 56;
const WINDOW: usize = 64;
const HEADER_BYTES: usize = 24;
const BUFFER_BYTES: usize = 8 << 20;

fn main() -> Result<(), Box<dyn Error>> {
    println!("{}", Machine::read());
    let config = config()?;
    println!("datagrams of {} bytes, {:?}", config.datagram_bytes_max, config.rings);
    let p50 = |turn: &Turn| turn.latency.quantile_us(0.5).unwrap_or(f64::NAN);
    compare(
        "ping-pong 56 B, p50 µs",
        || bare_ping(config).map(|turn| p50(&turn)),
        || Ok(ping(config)),
    )?;
    for batch in [1, 8, 32] {
        let flood = Flood { datagram_bytes: SMALL_BYTES, window: WINDOW, batch };
        let rate = |turn: Turn| turn.ops_per_s() / 1e6;
        let name = format!("echo 56 B, 64 outstanding, batch {batch}, M/s");
        compare(&name, || bare_flood(config, flood).map(rate), || Ok(echo(config, batch, false)))?;
        let name = format!("the same in trains, batch {batch}, M/s");
        compare(&name, || bare_flood(config, flood).map(rate), || Ok(echo(config, batch, true)))?;
    }
    compare(
        "bulk, Gbit/s",
        || bare_bulk(config).map(|turn| turn.gbit_per_s()),
        || Ok(bulk(config)),
    )?;
    Ok(())
}

fn config() -> Result<ShmConfig, Box<dyn Error>> {
    let mut config = ShmConfig::default();
    let mut arguments = std::env::args().skip(1);
    if let Some(bytes) = arguments.next() {
        config.datagram_bytes_max = bytes.parse()?;
        config.rings.record_bytes_max = bytes.parse()?;
    }
    if let Some(bytes) = arguments.next() {
        config.rings.data_bytes = bytes.parse()?;
    }
    Ok(config)
}

/// Runs the two in turn, and prints the best tenth of each: the lowest times or the highest rates.
fn compare(
    name: &str,
    mut bare: impl FnMut() -> Result<f64, FloorError>,
    mut built: impl FnMut() -> Result<f64, FloorError>,
) -> Result<(), FloorError> {
    let mut figures = [Vec::new(), Vec::new()];
    for _ in 0..PAIRS {
        figures[0].push(bare()?);
        figures[1].push(built()?);
    }
    let [bare, built] = figures.map(|mut figures| {
        figures.sort_by(f64::total_cmp);
        figures[if name.ends_with("µs") { PAIRS / 10 } else { PAIRS - 1 - PAIRS / 10 }]
    });
    let ratio = built / bare;
    println!("{name:45} bare {bare:8.3}   backend {built:8.3}   ratio {ratio:.3}");
    Ok(())
}

fn slice(clock: &Clock) -> impl FnMut() -> bool + use<> {
    deadline(clock, SLICE)
}

fn until_hung_up(ended: Receiver<()>) -> impl FnMut() -> bool {
    move || ended.try_recv() == Err(TryRecvError::Disconnected)
}

/// Runs `near` on one core while `far` runs on another. `far` is told to stop after that.
fn beside<T>(near: impl FnOnce() -> T, far: impl FnOnce(Receiver<()>) + Send) -> T {
    let (running, ended) = channel();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            pin(1);
            far(ended);
        });
        pin(0);
        let turn = near();
        drop(running);
        turn
    })
}

fn bare_ping(config: ShmConfig) -> Result<Turn, FloorError> {
    let [mut near, mut far] = RingLink::pair(config.rings)?;
    let clock = Clock::system();
    beside(
        || ring_ping(&mut near, SMALL_BYTES, &clock, slice(&clock)),
        |ended| _ = ring_echo(&mut far, &Clock::system(), until_hung_up(ended)),
    )
}

fn bare_flood(config: ShmConfig, flood: Flood) -> Result<Turn, FloorError> {
    let [mut near, mut far] = RingLink::pair(config.rings)?;
    let clock = Clock::system();
    beside(
        || ring_flood(&mut near, flood, &clock, slice(&clock)),
        |ended| _ = ring_echo(&mut far, &Clock::system(), until_hung_up(ended)),
    )
}

fn bare_bulk(config: ShmConfig) -> Result<Turn, FloorError> {
    let [mut near, mut far] = RingLink::pair(config.rings)?;
    let chunk_bytes = config.datagram_bytes_max;
    let (clock, mut memory) = (Clock::system(), vec![1; BUFFER_BYTES]);
    beside(
        || ring_drain(&mut near, &mut memory, &clock, slice(&clock)),
        |ended| {
            let memory = vec![1; BUFFER_BYTES];
            _ = ring_blast(&mut far, chunk_bytes, &memory, &Clock::system(), until_hung_up(ended));
        },
    )
}

/// Two backends, each with its route to the other.
fn joined(config: ShmConfig) -> [(ShmIo, Route); 2] {
    let bind =
        || ShmIo::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), config).expect("a name is free");
    let (mut near, mut far) = (bind(), bind());
    let there = near.route(far.local_address()).expect("it listens");
    let back = far.route(near.local_address()).expect("it listens");
    [(near, there), (far, back)]
}

fn serve((mut io, route): (ShmIo, Route), trains: bool, mut stop: impl FnMut() -> bool) {
    let (mut copy, mut turns) = (Vec::new(), 0u32);
    loop {
        copy.clear();
        io.receive().frames().for_each(|frame| copy.extend_from_slice(frame.bytes));
        if !copy.is_empty() {
            send(&mut io, route, &copy, trains);
        }
        turns = turns.wrapping_add(1);
        if turns.is_multiple_of(1024) && stop() {
            return;
        }
    }
}

fn send(io: &mut ShmIo, route: Route, bytes: &[u8], trains: bool) {
    let count = bytes.len() / SMALL_BYTES;
    if count == 1 {
        let (head, body) = bytes.split_at(HEADER_BYTES);
        assert_eq!(io.transmit(&[TxPacket { route, head, body }]), 1, "the window fits");
        return;
    }
    if trains {
        assert_eq!(io.transmit_train(route, bytes, SMALL_BYTES), count, "the window fits");
        return;
    }
    let mut packets = [TxPacket { route, head: &[], body: &[] }; WINDOW];
    for (packet, bytes) in packets.iter_mut().zip(bytes.chunks(SMALL_BYTES)) {
        (packet.head, packet.body) = bytes.split_at(HEADER_BYTES);
    }
    assert_eq!(io.transmit(&packets[..count]), count, "the window fits");
}

/// Median round trip, in microseconds.
fn ping(config: ShmConfig) -> f64 {
    let [(mut io, route), far] = joined(config);
    let clock = Clock::system();
    let mut turn = Turn::default();
    beside(
        || {
            let mut stop = slice(&clock);
            while !stop() {
                for _ in 0..64 {
                    let sent = clock.now();
                    send(&mut io, route, &[1; SMALL_BYTES], false);
                    while io.receive().chunks.is_empty() {}
                    turn.latency.record_ns(clock.now().nanos_since(sent));
                }
            }
        },
        |ended| serve(far, false, until_hung_up(ended)),
    );
    turn.latency.quantile_us(0.5).unwrap_or(f64::NAN)
}

/// Millions of round trips per second.
fn echo(config: ShmConfig, batch: usize, trains: bool) -> f64 {
    let [(mut io, route), far] = joined(config);
    let clock = Clock::system();
    beside(
        || {
            let request = [1; SMALL_BYTES * WINDOW];
            let (start, mut stop) = (clock.now(), slice(&clock));
            let (mut outstanding, mut done) = (0, 0u64);
            while !stop() {
                for _ in 0..64 {
                    while WINDOW - outstanding >= batch {
                        send(&mut io, route, &request[..batch * SMALL_BYTES], trains);
                        outstanding += batch;
                    }
                    let count = io.receive().frames().count();
                    outstanding -= count;
                    done += count as u64;
                }
            }
            done as f64 * 1e3 / clock.now().nanos_since(start) as f64
        },
        |ended| serve(far, trains, until_hung_up(ended)),
    )
}

/// Gigabits per second of payload.
fn bulk(config: ShmConfig) -> f64 {
    let [(mut near, _), far] = joined(config);
    let payload_bytes = config.datagram_bytes_max - HEADER_BYTES;
    let (clock, mut memory) = (Clock::system(), vec![1u8; BUFFER_BYTES]);
    beside(
        || {
            let (mut start, mut stop) = (None, slice(&clock));
            let (mut at, mut bytes) = (0, 0);
            while !stop() {
                for frame in near.receive().frames() {
                    let payload = &frame.bytes[HEADER_BYTES..];
                    if at + payload.len() > memory.len() {
                        at = 0;
                    }
                    memory[at..at + payload.len()].copy_from_slice(payload);
                    at += payload.len();
                    bytes += payload.len();
                    start.get_or_insert_with(|| clock.now());
                }
            }
            start.map_or(0.0, |start| bytes as f64 * 8.0 / clock.now().nanos_since(start) as f64)
        },
        |ended| blast(far, payload_bytes, until_hung_up(ended)),
    )
}

/// Sends a buffer over and over, a header before each part of it.
fn blast((mut io, route): (ShmIo, Route), payload_bytes: usize, mut stop: impl FnMut() -> bool) {
    let (memory, head) = (vec![1u8; BUFFER_BYTES], [2; HEADER_BYTES]);
    let packets: Vec<_> =
        memory.chunks(payload_bytes).map(|body| TxPacket { route, head: &head, body }).collect();
    loop {
        for packets in packets.chunks(8) {
            let mut rest = packets;
            while !rest.is_empty() {
                rest = &rest[io.transmit(rest)..];
            }
            if stop() {
                return;
            }
        }
    }
}

/// Best effort: on a machine with one core, the threads share it.
fn pin(core: usize) {
    let mut set = CpuSet::new();
    set.set(core);
    if let Err(error) = sched_setaffinity(None, &set) {
        eprintln!("cannot pin to core {core}: {error}");
    }
}
