//! Latency: a spinning ping-pong with one datagram outstanding.

use std::io;

use petasos_base::Clock;

use crate::FloorError;
use crate::limits::RECEIVE_BYTES_MAX;
use crate::link::{Link, Path, check_datagram_bytes};
use crate::pace::{Idle, Pace};
use crate::turn::{Turn, thread_cpu_s};

/// Sends datagrams of `datagram_bytes` one at a time and waits for each echo, until `stop`.
///
/// Each round trip is timed from before its send to after its receive. The time between round
/// trips, in which the histogram is updated, is not part of any.
///
/// # Errors
/// See [`FloorError`].
pub fn ping(
    link: &mut Link,
    datagram_bytes: usize,
    clock: &Clock,
    stop: impl FnMut() -> bool,
) -> Result<Turn, FloorError> {
    check_datagram_bytes(datagram_bytes)?;
    let (mut request, mut buffer) = (vec![0; datagram_bytes], vec![0; RECEIVE_BYTES_MAX]);
    link.prepare(Path::Singles, &mut buffer)?;
    let (cpu_start, start) = (thread_cpu_s(), clock.now());
    let (mut turn, mut pace) = (Turn::default(), Pace::new(clock, stop));
    loop {
        request[0] = link.next_tag();
        let sent = clock.now();
        if link.send(&request)? {
            match wait(link, request[0], &mut buffer, &mut pace)? {
                Idle::Wait => turn.latency.record_ns(clock.now().nanos_since(sent)),
                Idle::Silent => turn.lost += 1,
                Idle::Stop => break,
            }
        }
        if pace.progress_ends() {
            break;
        }
    }
    turn.elapsed_s = clock.now().nanos_since(start) as f64 / 1e9;
    turn.cpu_s = thread_cpu_s() - cpu_start;
    turn.datagrams = turn.latency.count();
    turn.bytes = turn.datagrams * datagram_bytes as u64;
    Ok(turn)
}

/// Spins until the echo with `tag` has arrived. Returns `Wait` in that case.
#[inline]
fn wait(
    link: &Link,
    tag: u8,
    buffer: &mut [u8],
    pace: &mut Pace<impl FnMut() -> bool>,
) -> io::Result<Idle> {
    loop {
        if link.receive(buffer)?.is_some_and(|arrival| arrival.len > 0 && buffer[0] == tag) {
            return Ok(Idle::Wait);
        }
        match pace.idle() {
            Idle::Wait => {}
            end => return Ok(end),
        }
    }
}
