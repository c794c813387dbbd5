//! The roles of the shared-memory floor. They correspond to [`crate::ping`], [`crate::echo`],
//! [`crate::flood`], [`crate::blast`] and [`crate::drain`] over sockets.

use petasos_base::Clock;

use crate::flood::Flood;
use crate::pace::{Idle, Pace};
use crate::ring::RingLink;
use crate::turn::{Turn, thread_cpu_s};
use crate::{DATAGRAM_BYTES_MAX, FloorError};

/// Sends records of `bytes` one at a time and waits for each echo, until `stop`.
///
/// # Errors
/// See [`FloorError`].
pub fn ring_ping(
    link: &mut RingLink,
    bytes: usize,
    clock: &Clock,
    stop: impl FnMut() -> bool,
) -> Result<Turn, FloorError> {
    check_bytes(bytes)?;
    let (mut request, mut buffer) = (vec![0; bytes], link.buffer());
    link.prepare(&mut buffer)?;
    let mut turn = Timed::start(clock);
    let mut pace = Pace::new(clock, stop);
    'turn: loop {
        request[0] = link.next_tag();
        let sent = clock.now();
        if link.push(&request, bytes)? {
            link.ends.producer.publish();
            loop {
                if link.pop(&mut buffer)?.is_some() && buffer[0] == request[0] {
                    turn.turn.latency.record_ns(clock.now().nanos_since(sent));
                    break;
                }
                match pace.idle() {
                    Idle::Wait => {}
                    Idle::Silent => {
                        turn.turn.lost += 1;
                        break;
                    }
                    Idle::Stop => break 'turn,
                }
            }
        }
        if pace.progress_ends() {
            break;
        }
    }
    let datagrams = turn.turn.latency.count();
    turn.turn.datagrams = datagrams;
    turn.turn.bytes = datagrams * bytes as u64;
    Ok(turn.end(clock))
}

/// Echoes records, trains as trains, until `stop`.
///
/// # Errors
/// See [`FloorError`].
pub fn ring_echo(
    link: &mut RingLink,
    clock: &Clock,
    stop: impl FnMut() -> bool,
) -> Result<Turn, FloorError> {
    let mut buffer = link.buffer();
    link.prepare(&mut buffer)?;
    let (mut turn, mut pace) = (Timed::start(clock), Pace::new(clock, stop));
    loop {
        let Some((len, segment_bytes)) = link.pop(&mut buffer)? else {
            if pace.idle() == Idle::Stop {
                break;
            }
            continue;
        };
        let datagrams = len.div_ceil(segment_bytes) as u64;
        if link.push(&buffer[..len], segment_bytes)? {
            link.ends.producer.publish();
            turn.turn.datagrams += datagrams;
            turn.turn.bytes += len as u64;
        } else {
            turn.turn.lost += datagrams;
        }
        if pace.progress_ends() {
            break;
        }
    }
    Ok(turn.end(clock))
}

/// Keeps a window of datagrams outstanding, with each batch in one record, and counts their echoes,
/// until `stop`.
///
/// # Errors
/// See [`FloorError`].
pub fn ring_flood(
    link: &mut RingLink,
    flood: Flood,
    clock: &Clock,
    stop: impl FnMut() -> bool,
) -> Result<Turn, FloorError> {
    flood.check()?;
    let Flood { datagram_bytes, window, batch } = flood;
    let (mut request, mut buffer) = (vec![0; datagram_bytes * batch], link.buffer());
    link.prepare(&mut buffer)?;
    request[0] = link.next_tag();
    let (mut turn, mut pace) = (Timed::start(clock), Pace::new(clock, stop));
    let mut outstanding = 0;
    loop {
        while window - outstanding >= batch && link.push(&request, datagram_bytes)? {
            outstanding += batch;
            link.ends.producer.publish();
        }
        let end = match link.pop(&mut buffer)? {
            Some((len, segment_bytes)) if buffer[0] == request[0] => {
                let datagrams = len.div_ceil(segment_bytes).min(outstanding);
                outstanding -= datagrams;
                turn.turn.datagrams += datagrams as u64;
                pace.progress_ends()
            }
            Some(_) => false,
            None => match pace.idle() {
                Idle::Wait => false,
                Idle::Stop => true,
                Idle::Silent => {
                    turn.turn.lost += outstanding as u64;
                    outstanding = 0;
                    request[0] = link.next_tag();
                    false
                }
            },
        };
        if end {
            break;
        }
    }
    turn.turn.bytes = turn.turn.datagrams * datagram_bytes as u64;
    Ok(turn.end(clock))
}

/// Copies `memory` into the ring repeatedly, in records of `chunk_bytes`, until `stop`.
///
/// # Errors
/// See [`FloorError`].
pub fn ring_blast(
    link: &mut RingLink,
    chunk_bytes: usize,
    memory: &[u8],
    clock: &Clock,
    stop: impl FnMut() -> bool,
) -> Result<Turn, FloorError> {
    check_bytes(chunk_bytes)?;
    if memory.is_empty() {
        return Err(FloorError::Memory { bytes: 0 });
    }
    let (mut turn, mut pace) = (Timed::start(clock), Pace::new(clock, stop));
    'turn: for chunk in memory.chunks(chunk_bytes).cycle() {
        while !link.push(chunk, chunk.len())? {
            if pace.idle() == Idle::Stop {
                break 'turn;
            }
        }
        link.ends.producer.publish();
        turn.turn.datagrams += 1;
        turn.turn.bytes += chunk.len() as u64;
        if pace.progress_ends() {
            break;
        }
    }
    Ok(turn.end(clock))
}

/// Copies records out of the ring to consecutive places of `memory` until `stop`. Starts again at
/// its beginning when the longest record no longer fits. Time runs from the first arrival to the
/// last.
///
/// # Errors
/// See [`FloorError`].
pub fn ring_drain(
    link: &mut RingLink,
    memory: &mut [u8],
    clock: &Clock,
    stop: impl FnMut() -> bool,
) -> Result<Turn, FloorError> {
    let record_bytes_max = link.ends.consumer.record_bytes_max();
    if memory.len() < record_bytes_max {
        return Err(FloorError::Memory { bytes: memory.len() });
    }
    link.prepare(&mut memory[..record_bytes_max])?;
    let cpu_start = thread_cpu_s();
    let (mut turn, mut pace) = (Turn::default(), Pace::new(clock, stop));
    let (mut at, mut first, mut last) = (0, None, clock.now());
    loop {
        let Some((len, _)) = link.pop(&mut memory[at..])? else {
            if pace.idle() == Idle::Stop {
                break;
            }
            continue;
        };
        last = clock.now();
        if first.is_none() {
            first = Some(last);
        } else {
            turn.datagrams += 1;
            turn.bytes += len as u64;
        }
        at += len;
        if at + record_bytes_max > memory.len() {
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

/// A turn in progress.
struct Timed {
    turn: Turn,
    cpu_start_s: f64,
    start: petasos_base::Time,
}

impl Timed {
    fn start(clock: &Clock) -> Timed {
        Timed { turn: Turn::default(), cpu_start_s: thread_cpu_s(), start: clock.now() }
    }

    fn end(mut self, clock: &Clock) -> Turn {
        self.turn.elapsed_s = clock.now().nanos_since(self.start) as f64 / 1e9;
        self.turn.cpu_s = thread_cpu_s() - self.cpu_start_s;
        self.turn
    }
}

fn check_bytes(asked: usize) -> Result<(), FloorError> {
    let possible = (1..=DATAGRAM_BYTES_MAX).contains(&asked);
    if possible { Ok(()) } else { Err(FloorError::DatagramBytes { asked }) }
}
