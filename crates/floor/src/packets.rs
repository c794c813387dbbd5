//! The same measurements over any packet I/O: what a backend reaches by itself.
//!
//! Unlike the other floors, these turns use the backend as Petasos does, with all its checks.

use std::io;
use std::net::SocketAddr;

use petasos_base::Clock;
use petasos_netio::{PacketIo, Route, TX_BATCH_MAX, TxPacket};

use crate::FloorError;
use crate::pace::{Idle, Pace};
use crate::turn::{Turn, thread_cpu_s};

/// Keeps `window` datagrams of `datagram_bytes` to `peer` outstanding, at most [`TX_BATCH_MAX`],
/// and counts their echoes, until `stop`.
///
/// # Errors
/// [`FloorError::Socket`] if the peer cannot be reached, [`FloorError::DatagramBytes`] if the
/// datagram does not fit.
pub fn packet_flood(
    io: &mut impl PacketIo,
    peer: SocketAddr,
    (window, datagram_bytes): (usize, usize),
    clock: &Clock,
    stop: impl FnMut() -> bool,
) -> Result<Turn, FloorError> {
    let route = io.route(peer).map_err(io::Error::other)?;
    if !(1..=io.datagram_bytes_max(route)).contains(&datagram_bytes) {
        io.release_route(route);
        return Err(FloorError::DatagramBytes { asked: datagram_bytes });
    }
    let window = window.clamp(1, TX_BATCH_MAX);
    let mut request = vec![0; datagram_bytes];
    // Discards what is left over from an earlier turn.
    while io.receive().frames().next().is_some() {}
    let (cpu_start, start) = (thread_cpu_s(), clock.now());
    let (mut turn, mut pace) = (Turn::default(), Pace::new(clock, stop));
    let mut outstanding = 0;
    loop {
        outstanding += send(io, route, &request, window - outstanding);
        let echoes = receive(io, &request).min(outstanding);
        turn.datagrams += echoes as u64;
        outstanding -= echoes;
        let idle = if echoes > 0 { Idle::Wait } else { pace.idle() };
        if idle == Idle::Silent {
            turn.lost += outstanding as u64;
            outstanding = 0;
            request[0] = request[0].wrapping_add(1);
        }
        if idle == Idle::Stop || (echoes > 0 && pace.progress_ends()) {
            break;
        }
    }
    turn.elapsed_s = clock.now().nanos_since(start) as f64 / 1e9;
    turn.cpu_s = thread_cpu_s() - cpu_start;
    turn.bytes = turn.datagrams * datagram_bytes as u64;
    io.release_route(route);
    Ok(turn)
}

/// Sends every datagram of `datagram_bytes` that comes back to `peer`, until `stop`.
///
/// # Errors
/// [`FloorError::Socket`] if the peer cannot be reached.
pub fn packet_echo(
    io: &mut impl PacketIo,
    peer: SocketAddr,
    datagram_bytes: usize,
    clock: &Clock,
    stop: impl FnMut() -> bool,
) -> Result<Turn, FloorError> {
    let route = io.route(peer).map_err(io::Error::other)?;
    let mut copies = vec![0; TX_BATCH_MAX * datagram_bytes];
    let (cpu_start, start) = (thread_cpu_s(), clock.now());
    let (mut turn, mut pace) = (Turn::default(), Pace::new(clock, stop));
    loop {
        let frames = io.receive();
        let frames = frames.frames().filter(|frame| frame.bytes.len() == datagram_bytes);
        let mut count = 0;
        for (copy, frame) in copies.chunks_mut(datagram_bytes).zip(frames) {
            copy.copy_from_slice(frame.bytes);
            count += 1;
        }
        if count == 0 {
            if pace.idle() == Idle::Stop {
                break;
            }
            continue;
        }
        let sent = io.transmit_train(route, &copies[..count * datagram_bytes], datagram_bytes);
        turn.datagrams += sent as u64;
        turn.lost += (count - sent) as u64;
        if pace.progress_ends() {
            break;
        }
    }
    turn.elapsed_s = clock.now().nanos_since(start) as f64 / 1e9;
    turn.cpu_s = thread_cpu_s() - cpu_start;
    turn.bytes = turn.datagrams * datagram_bytes as u64;
    io.release_route(route);
    Ok(turn)
}

/// Sends up to `count` requests; returns how many.
#[inline]
fn send(io: &mut impl PacketIo, route: Route, request: &[u8], count: usize) -> usize {
    if count == 0 {
        return 0;
    }
    let packets = [TxPacket { route, head: request, body: &[] }; TX_BATCH_MAX];
    io.transmit(&packets[..count])
}

/// Counts the echoes of `request` that have come.
#[inline]
fn receive(io: &mut impl PacketIo, request: &[u8]) -> usize {
    let like = |bytes: &[u8]| bytes.len() == request.len() && bytes[0] == request[0];
    io.receive().frames().filter(|frame| like(frame.bytes)).count()
}

#[cfg(test)]
mod tests {
    use petasos_netio_udp::{UdpConfig, UdpIo};

    use super::*;

    fn open() -> UdpIo {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        UdpIo::bind(any, UdpConfig::default()).expect("loopback has free ports")
    }

    /// Sends back all that has arrived.
    fn send_back(io: &mut UdpIo, route: Route) -> usize {
        let frames: Vec<_> = io.receive().frames().map(|frame| frame.bytes.to_vec()).collect();
        frames
            .iter()
            .filter(|head| io.transmit(&[TxPacket { route, head, body: &[] }]) == 1)
            .count()
    }

    #[test]
    fn a_window_is_kept_and_every_echo_counted_once() {
        let (mut near, mut far) = (open(), open());
        let peer = far.local_address();
        let route = far.route(near.local_address()).expect("loopback is reachable");
        let (mut sent_back, mut checks) = (Vec::new(), 0);
        // `stop` takes the place of a second thread: each time it is called, the peer runs.
        let stop = || {
            sent_back.push(send_back(&mut far, route));
            checks += 1;
            checks == 10
        };
        let turn = packet_flood(&mut near, peer, (8, 56), &Clock::system(), stop);
        let turn = turn.expect("loopback is reachable");
        assert!(sent_back.iter().all(|count| *count <= 8), "{sent_back:?}");
        let counted = sent_back[..9].iter().sum::<usize>() as u64;
        assert_eq!((turn.datagrams, turn.bytes), (counted, 56 * counted));
        assert!(counted >= 8);
    }

    #[test]
    fn datagrams_of_the_length_come_back() {
        let (mut near, mut far) = (open(), open());
        let back = near.local_address();
        let route = near.route(far.local_address()).expect("loopback is reachable");
        let mut echoes = 0;
        let stop = || {
            for head in [&[7; 56][..], &[7; 55]] {
                near.transmit(&[TxPacket { route, head, body: &[] }]);
            }
            echoes += near.receive().frames().filter(|frame| frame.bytes == [7; 56]).count();
            echoes >= 5
        };
        let turn = packet_echo(&mut far, back, 56, &Clock::system(), stop);
        let turn = turn.expect("loopback is reachable");
        assert!(turn.datagrams >= 5 && turn.lost == 0, "{turn:?}");
    }

    #[test]
    fn a_peer_that_is_not_there_ends_no_turn_early_and_hangs_none() {
        let mut near = open();
        let gone = open().local_address();
        let mut checks = 0;
        let stop = || {
            checks += 1;
            checks == 10
        };
        let turn = packet_flood(&mut near, gone, (4, 56), &Clock::system(), stop);
        assert_eq!(turn.expect("loopback is reachable").datagrams, 0);
        let long = packet_flood(&mut near, gone, (1, 1 << 20), &Clock::system(), || true);
        assert!(matches!(long, Err(FloorError::DatagramBytes { asked }) if asked == 1 << 20));
    }
}
