//! Measures this machine's floors, with both ends as pinned threads, one second each.
//!
//! `cargo run --release -p petasos-floor --example floor`

use std::error::Error;
use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::Duration;

use petasos_base::Clock;
use petasos_floor::{
    Flood, FloorError, Link, Path, SocketState, Turn, blast, deadline, drain, echo,
};
use petasos_floor::{flood, ping};
use petasos_report::{Column, Machine, Table, duration_us, significant, with_si_prefix};
use rustix::thread::{CpuSet, sched_setaffinity};

fn main() -> Result<(), Box<dyn Error>> {
    println!("{}", Machine::read());
    let mut table = Table::new([
        Column::text("Floor"),
        Column::number("p50", ""),
        Column::number("p99", ""),
        Column::number("Rate", "1/s"),
        Column::number("Payload", "Gbit/s"),
        Column::number("Lost", ""),
        Column::number("CPU", "s/s"),
    ]);
    for state in [SocketState::Connected, SocketState::Unconnected] {
        for bytes in [32, 1472] {
            let turn = beside(
                state,
                |link, clock| ping(link, bytes, clock, second(clock)),
                Path::Singles,
            )?;
            push(&mut table, &format!("ping {bytes} B, {state:?}"), &turn);
        }
    }
    for batch in [1, 16, 32, 64] {
        let shape = Flood { datagram_bytes: 32 + 24, window: 64, batch };
        let run = |link: &mut Link, clock: &Clock| flood(link, shape, clock, second(clock));
        let turn = beside(SocketState::Connected, run, shape.path())?;
        push(&mut table, &format!("flood 56 B, batch {batch}"), &turn);
    }
    for bytes in [1472, 4096, 65_000] {
        let turn = transfer(bytes)?;
        push(&mut table, &format!("bulk {bytes} B"), &turn);
    }
    Ok(table.print()?)
}

fn push(table: &mut Table, name: &str, turn: &Turn) {
    let at = |quantile| turn.latency.quantile_us(quantile).map_or("–".to_owned(), duration_us);
    table.push([
        name.to_owned(),
        at(0.5),
        at(0.99),
        with_si_prefix(turn.ops_per_s()),
        significant(turn.gbit_per_s()),
        turn.lost.to_string(),
        significant(turn.cpu_s / turn.elapsed_s),
    ]);
}

fn second(clock: &Clock) -> impl FnMut() -> bool + use<> {
    deadline(clock, Duration::from_secs(1))
}

fn until_hung_up(ended: Receiver<()>) -> impl FnMut() -> bool {
    move || ended.try_recv() == Err(TryRecvError::Disconnected)
}

fn joined(state: SocketState) -> Result<(Link, Link), FloorError> {
    let bind = || Link::bind(SocketAddr::from(([127, 0, 0, 1], 0)), BUFFER_BYTES);
    let (mut client, mut server) = (bind()?, bind()?);
    client.join(server.local_address(), state)?;
    server.join(client.local_address(), state)?;
    Ok((client, server))
}

/// Runs `client` on one core beside an echo on another.
fn beside(
    state: SocketState,
    client: impl FnOnce(&mut Link, &Clock) -> Result<Turn, FloorError>,
    path: Path,
) -> Result<Turn, FloorError> {
    let (mut near, mut far) = joined(state)?;
    let (running, ended) = channel();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            pin(1);
            echo(&mut far, path, &Clock::system(), until_hung_up(ended))
        });
        pin(0);
        let turn = client(&mut near, &Clock::system());
        drop(running);
        turn
    })
}

fn transfer(bytes: usize) -> Result<Turn, FloorError> {
    let (mut near, mut far) = joined(SocketState::Connected)?;
    let (running, ended) = channel();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            pin(1);
            let memory = vec![1; BUFFER_BYTES];
            blast(&mut far, bytes, &memory, &Clock::system(), until_hung_up(ended))
        });
        pin(0);
        let (clock, mut memory) = (Clock::system(), vec![1; BUFFER_BYTES]);
        let turn = drain(&mut near, bytes, &mut memory, &clock, second(&clock));
        drop(running);
        turn
    })
}

/// Best effort: on a machine with one core, the threads share it.
fn pin(core: usize) {
    let mut set = CpuSet::new();
    set.set(core);
    if let Err(error) = sched_setaffinity(None, &set) {
        eprintln!("cannot pin to core {core}: {error}");
    }
}

const BUFFER_BYTES: usize = 8 << 20;
