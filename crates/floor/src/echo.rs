//! The server for latency and rate: it sends back what it receives, unchanged.

use petasos_base::Clock;

use crate::FloorError;
use crate::limits::RECEIVE_BYTES_MAX;
use crate::link::{Link, Path};
use crate::pace::{Idle, Pace};
use crate::turn::{Turn, thread_cpu_s};

/// Echoes datagrams, or trains of them, until `stop`. The client must take the same path.
///
/// A train goes back from the memory that it was received into, as a train of the same shape.
///
/// # Errors
/// See [`FloorError`].
pub fn echo(
    link: &mut Link,
    path: Path,
    clock: &Clock,
    stop: impl FnMut() -> bool,
) -> Result<Turn, FloorError> {
    let mut buffer = vec![0; RECEIVE_BYTES_MAX];
    link.prepare(path, &mut buffer)?;
    let (cpu_start, start) = (thread_cpu_s(), clock.now());
    let (mut turn, mut pace) = (Turn::default(), Pace::new(clock, stop));
    loop {
        let Some(arrival) = link.receive(&mut buffer)? else {
            if pace.idle() == Idle::Stop {
                break;
            }
            continue;
        };
        let datagrams = arrival.datagrams() as u64;
        if link.send_back(&buffer[..arrival.len], &arrival)? {
            turn.datagrams += datagrams;
            turn.bytes += arrival.len as u64;
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
