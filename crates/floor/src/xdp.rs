//! The same measurements for AF_XDP: a bare ping-pong, and a bare echo with a window of frames.
//!
//! Bare means that frames are built once, only a tag and the length are checked, and headers are
//! reversed instead of built anew. What remains is copying a frame, the rings, and the system's
//! calls. Both ends use [`XdpIo`] only to find each other and to have their frames steered to them;
//! the turns move frames directly through the socket below it.

use std::net::SocketAddr;

use petasos_base::Clock;
use petasos_netio::PacketIo;
use petasos_netio_xdp::{TxHalf, XdpIo};

use crate::FloorError;
use crate::pace::{Idle, Pace, deadline};
use crate::turn::{Turn, thread_cpu_s};

/// The client's end: a socket, and one frame to the peer.
pub struct XdpClient<'a> {
    io: &'a mut XdpIo,
    request: Vec<u8>,
    /// Where the payload starts in a frame; its first byte is the tag.
    payload_at: usize,
    tag: u8,
}

impl<'a> XdpClient<'a> {
    /// A client that sends datagrams of `datagram_bytes` to `peer`.
    ///
    /// # Errors
    /// [`FloorError::Socket`] if the peer cannot be reached, [`FloorError::DatagramBytes`] if the
    /// datagram does not fit.
    pub fn new(
        io: &'a mut XdpIo,
        peer: SocketAddr,
        datagram_bytes: usize,
    ) -> Result<XdpClient<'a>, FloorError> {
        let route = io.route(peer).map_err(std::io::Error::other)?;
        let request = io.frame(route, &vec![0; datagram_bytes]);
        io.release_route(route);
        let request = request.ok_or(FloorError::DatagramBytes { asked: datagram_bytes })?;
        let payload_at = request.len() - datagram_bytes;
        Ok(XdpClient { io, request, payload_at, tag: 0 })
    }

    /// Sends one datagram at a time and waits for its echo, until `stop`. Timed as
    /// [`ping`](crate::ping) is.
    pub fn ping(&mut self, clock: &Clock, stop: impl FnMut() -> bool) -> Turn {
        self.start();
        let (cpu_start, start) = (thread_cpu_s(), clock.now());
        let (mut turn, mut pace) = (Turn::default(), Pace::new(clock, stop));
        loop {
            self.retag();
            let sent = clock.now();
            self.send(1);
            match self.wait(&mut pace) {
                Idle::Wait => turn.latency.record_ns(clock.now().nanos_since(sent)),
                Idle::Silent => turn.lost += 1,
                Idle::Stop => break,
            }
            if pace.progress_ends() {
                break;
            }
        }
        turn.datagrams = turn.latency.count();
        self.finish(turn, clock.now().nanos_since(start), thread_cpu_s() - cpu_start)
    }

    /// Keeps `window` datagrams outstanding and counts their echoes, until `stop`.
    pub fn flood(&mut self, window: usize, clock: &Clock, stop: impl FnMut() -> bool) -> Turn {
        self.start();
        self.retag();
        let (cpu_start, start) = (thread_cpu_s(), clock.now());
        let (mut turn, mut pace) = (Turn::default(), Pace::new(clock, stop));
        let mut outstanding = self.send(window);
        loop {
            let echoes = self.receive().min(outstanding);
            if echoes > 0 {
                turn.datagrams += echoes as u64;
                outstanding -= echoes;
                outstanding += self.send(window - outstanding);
                if pace.progress_ends() {
                    break;
                }
                continue;
            }
            match pace.idle() {
                Idle::Wait => {}
                Idle::Silent => {
                    turn.lost += outstanding as u64;
                    self.retag();
                    outstanding = self.send(window);
                }
                Idle::Stop => break,
            }
        }
        let turn = self.finish(turn, clock.now().nanos_since(start), thread_cpu_s() - cpu_start);
        let mut late = deadline(clock, std::time::Duration::from_micros(crate::SILENCE_MAX_US));
        while outstanding > 0 && !late() {
            outstanding -= self.receive().min(outstanding);
        }
        turn
    }

    /// Discards what is left over from an earlier turn.
    fn start(&mut self) {
        while !self.io.socket().halves().0.receive().1.is_empty() {}
    }

    fn finish(&self, mut turn: Turn, elapsed_ns: u64, cpu_s: f64) -> Turn {
        turn.elapsed_s = elapsed_ns as f64 / 1e9;
        turn.cpu_s = cpu_s;
        turn.bytes = turn.datagrams * (self.request.len() - self.payload_at) as u64;
        turn
    }

    fn retag(&mut self) {
        self.tag = self.tag.wrapping_add(1);
        self.request[self.payload_at] = self.tag;
    }

    /// Sends up to `count` requests; returns how many.
    #[inline]
    fn send(&mut self, count: usize) -> usize {
        let (_, tx) = self.io.socket().halves();
        let sent = (0..count).take_while(|_| push(tx, &self.request)).count();
        tx.flush();
        sent
    }

    /// Counts the echoes of this turn that have come.
    #[inline]
    fn receive(&mut self) -> usize {
        let (at, tag, len) = (self.payload_at, self.tag, self.request.len());
        let (memory, descs) = self.io.socket().halves().0.receive();
        let tags = descs.iter().filter(|desc| desc.len as usize == len);
        tags.filter(|desc| memory[desc.offset as usize + at] == tag).count()
    }

    #[inline]
    fn wait(&mut self, pace: &mut Pace<impl FnMut() -> bool>) -> Idle {
        loop {
            if self.receive() > 0 {
                return Idle::Wait;
            }
            match pace.idle() {
                Idle::Wait => {}
                end => return end,
            }
        }
    }
}

/// Sends back every frame that is steered to `io`, with the addresses exchanged, until `stop`.
pub fn xdp_echo(io: &mut XdpIo, clock: &Clock, stop: impl FnMut() -> bool) -> Turn {
    let (cpu_start, start) = (thread_cpu_s(), clock.now());
    let (mut turn, mut pace) = (Turn::default(), Pace::new(clock, stop));
    loop {
        let (rx, tx) = io.socket().halves();
        let (memory, descs) = rx.receive();
        if descs.is_empty() {
            if pace.idle() == Idle::Stop {
                break;
            }
            continue;
        }
        for desc in descs {
            let start = desc.offset as usize;
            let frame = &memory[start..start + desc.len as usize];
            match send_back(tx, frame) {
                true => turn.datagrams += 1,
                false => turn.lost += 1,
            }
        }
        tx.flush();
        if pace.progress_ends() {
            break;
        }
    }
    turn.elapsed_s = clock.now().nanos_since(start) as f64 / 1e9;
    turn.cpu_s = thread_cpu_s() - cpu_start;
    turn
}

#[inline]
fn push(tx: &mut TxHalf, bytes: &[u8]) -> bool {
    let Some(frame) = tx.frame() else { return false };
    frame[..bytes.len()].copy_from_slice(bytes);
    tx.push(bytes.len());
    true
}

/// Swaps sender and receiver on all layers, which changes no checksum.
#[inline]
fn send_back(tx: &mut TxHalf, bytes: &[u8]) -> bool {
    let (addresses, len) = match bytes.get(12..14) {
        Some([0x08, 0x00]) => (26, 4),
        _ => (22, 16),
    };
    let ports = addresses + 2 * len;
    let (Some(frame), true) = (tx.frame(), bytes.len() >= ports + 8) else { return false };
    let frame = &mut frame[..bytes.len()];
    frame.copy_from_slice(bytes);
    for (at, len) in [(0, 6), (addresses, len), (ports, 2)] {
        let (first, second) = frame[at..at + 2 * len].split_at_mut(len);
        first.swap_with_slice(second);
    }
    tx.push(bytes.len());
    true
}
