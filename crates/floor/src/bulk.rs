//! Bandwidth: one end sends as fast as it can, and the receiver counts.

use petasos_base::Clock;

use crate::FloorError;
use crate::limits::{DATAGRAM_BYTES_MAX, RECEIVE_BYTES_MAX, SEGMENTS_MAX};
use crate::link::{Link, Path, check_datagram_bytes};
use crate::pace::{Idle, Pace};
use crate::turn::{Turn, thread_cpu_s};

/// Sends `memory` repeatedly until `stop`, as datagrams of `datagram_bytes` in the longest trains
/// that the kernel takes. Counts what was sent; some of it may not arrive.
///
/// # Errors
/// See [`FloorError`].
pub fn blast(
    link: &mut Link,
    datagram_bytes: usize,
    memory: &[u8],
    clock: &Clock,
    stop: impl FnMut() -> bool,
) -> Result<Turn, FloorError> {
    check_datagram_bytes(datagram_bytes)?;
    if memory.is_empty() {
        return Err(FloorError::Memory { bytes: 0 });
    }
    link.prepare(Path::Trains { datagram_bytes }, &mut vec![0; RECEIVE_BYTES_MAX])?;
    let segments = (DATAGRAM_BYTES_MAX / datagram_bytes).min(SEGMENTS_MAX);
    let (cpu_start, start) = (thread_cpu_s(), clock.now());
    let (mut turn, mut pace) = (Turn::default(), Pace::new(clock, stop));
    for train in memory.chunks(segments * datagram_bytes).cycle() {
        let datagrams = train.len().div_ceil(datagram_bytes) as u64;
        if link.send(train)? {
            turn.datagrams += datagrams;
            turn.bytes += train.len() as u64;
        } else {
            turn.lost += datagrams;
        }
        if pace.progress_ends() {
            break;
        }
    }
    turn.elapsed_s = clock.now().nanos_since(start) as f64 / 1e9;
    turn.cpu_s = thread_cpu_s() - cpu_start;
    Ok(turn)
}

/// Receives trains of datagrams of `datagram_bytes` until `stop`. They are received directly into
/// consecutive places of `memory`, which start again at its beginning when the longest train no
/// longer fits.
///
/// The elapsed time runs from the first arrival, which is not counted, to the last. So it does not
/// matter which role starts or stops first.
///
/// # Errors
/// See [`FloorError`]; `memory` must hold at least one receive of 64 KiB.
pub fn drain(
    link: &mut Link,
    datagram_bytes: usize,
    memory: &mut [u8],
    clock: &Clock,
    stop: impl FnMut() -> bool,
) -> Result<Turn, FloorError> {
    if memory.len() < RECEIVE_BYTES_MAX {
        return Err(FloorError::Memory { bytes: memory.len() });
    }
    link.prepare(Path::Trains { datagram_bytes }, &mut memory[..RECEIVE_BYTES_MAX])?;
    let cpu_start = thread_cpu_s();
    let (mut turn, mut pace) = (Turn::default(), Pace::new(clock, stop));
    let (mut at, mut first, mut last) = (0, None, clock.now());
    loop {
        let Some(arrival) = link.receive(&mut memory[at..at + RECEIVE_BYTES_MAX])? else {
            if pace.idle() == Idle::Stop {
                break;
            }
            continue;
        };
        last = clock.now();
        if first.is_none() {
            first = Some(last);
        } else {
            turn.datagrams += arrival.datagrams() as u64;
            turn.bytes += arrival.len as u64;
        }
        at += arrival.len;
        if at + RECEIVE_BYTES_MAX > memory.len() {
            at = 0;
        }
        if pace.progress_ends() {
            break;
        }
    }
    turn.elapsed_s = first.map_or(0.0, |first| last.nanos_since(first) as f64 / 1e9);
    turn.cpu_s = thread_cpu_s() - cpu_start;
    Ok(turn)
}
