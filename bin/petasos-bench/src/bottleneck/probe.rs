//! Probes the round-trip time through the slow port with single packets.
//!
//! A probe is an ICMP echo request as long as a data packet. It goes from the switch to the server,
//! and waits in the queue like any other packet; the server's kernel answers. The kernel timestamps
//! the answer, so that waiting for a core does not count. The result is the round-trip time of the
//! path, without the hosts' share that is part of a session's round-trip time.

use std::io::IoSliceMut;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;
use std::thread::JoinHandle;

use nix::sys::socket::{
    AddressFamily, ControlMessageOwned, MsgFlags, SockFlag, SockProtocol, SockType, SockaddrIn,
    recvmsg, sendto, setsockopt, socket, sockopt,
};
use nix::sys::time::TimeSpec;
use petasos_base::sync::{AtomicBool, Ordering};
use petasos_report::Histogram;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::time::{ClockId, clock_gettime};

use super::{BottleneckArgs, switch};
use crate::error::BenchError;

/// Probes use at most this fraction of the port's rate.
const RATE_SHARE: u64 = 100;
/// Probing begins after the first bursts, or after a tenth of the run if that is earlier.
const SETTLING_NS: u64 = 500_000_000;
/// How long to wait for the last answers, and between checks of the flag.
const PATIENCE_NS: u64 = 100_000_000;

/// The results of probes.
#[derive(Clone, Debug, Default)]
pub struct Probed {
    pub rtt: Histogram,
    pub sent: u64,
    /// The probe or its answer was lost.
    pub lost: u64,
}

/// A thread that sends probes.
pub struct Probes {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<Probed, String>>,
}

impl Probes {
    /// Starts probing, from the thread's network namespace.
    pub fn start(args: &BottleneckArgs) -> Probes {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let payload_bytes = usize::from(args.datagram);
        let bits = (payload_bytes as u64 + 42) * 8;
        let interval_ns = bits * 1000 / args.rate_mbit * RATE_SHARE;
        let settling_ns = SETTLING_NS.min((args.seconds * 1e8) as u64);
        let thread = std::thread::spawn(move || {
            let mut prober = Prober::open(payload_bytes).map_err(|error| error.to_string())?;
            let probed = prober.run(settling_ns, interval_ns, &stopped);
            probed.map_err(|error| error.to_string())
        });
        Probes { stop, thread }
    }

    /// Stops probing, and returns the results.
    pub fn finish(self) -> Result<Probed, BenchError> {
        self.stop.store(true, Ordering::Relaxed);
        let probed = self.thread.join().map_err(|_| "the probing thread panicked")?;
        Ok(probed.map_err(|error| format!("cannot probe round trips: {error}"))?)
    }
}

struct Prober {
    socket: OwnedFd,
    packet: Vec<u8>,
    /// When each probe was sent, in nanoseconds of real time; 0 once it was answered.
    sent: Vec<u64>,
    rtt: Histogram,
}

impl Prober {
    fn open(payload_bytes: usize) -> Result<Prober, nix::Error> {
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let protocol = SockProtocol::Icmp;
        let socket = socket(AddressFamily::Inet, SockType::Raw, flags, protocol)?;
        setsockopt(&socket, sockopt::ReceiveTimestampns, &true)?;
        let packet = vec![0; payload_bytes + ICMP_BYTES];
        Ok(Prober { socket, packet, sent: Vec::new(), rtt: Histogram::new() })
    }

    fn run(
        &mut self,
        settling_ns: u64,
        interval_ns: u64,
        stop: &AtomicBool,
    ) -> Result<Probed, nix::Error> {
        let mut next = now_ns() + settling_ns;
        while !stop.load(Ordering::Relaxed) {
            let now = now_ns();
            if now >= next {
                self.send()?;
                next = now + interval_ns;
            }
            self.receive_for((next.saturating_sub(now_ns())).min(PATIENCE_NS))?;
        }
        let end = now_ns() + PATIENCE_NS;
        while now_ns() < end && self.unanswered() > 0 {
            self.receive_for(PATIENCE_NS / 10)?;
        }
        let (sent, lost) = (self.sent.len() as u64, self.unanswered());
        Ok(Probed { rtt: std::mem::take(&mut self.rtt), sent, lost })
    }

    fn unanswered(&self) -> u64 {
        self.sent.iter().filter(|at| **at != 0).count() as u64
    }

    fn send(&mut self) -> Result<(), nix::Error> {
        let number = self.sent.len() as u32;
        self.packet[..ICMP_BYTES].copy_from_slice(&[ECHO_REQUEST, 0, 0, 0, 0, 0, 0, 0]);
        self.packet[4..8].copy_from_slice(&number.to_be_bytes());
        // The rest of the packet is zero, and does not affect the checksum.
        let sum = checksum(&self.packet[..ICMP_BYTES]);
        self.packet[2..4].copy_from_slice(&sum.to_be_bytes());
        let [a, b, c, d] = switch::SERVER.octets();
        self.sent.push(now_ns());
        let to = SockaddrIn::new(a, b, c, d, 0);
        match sendto(self.socket.as_raw_fd(), &self.packet, &to, MsgFlags::empty()) {
            // The queue was full: the probe counts as lost.
            Ok(_) | Err(nix::Error::ENOBUFS) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn receive_for(&mut self, wait_ns: u64) -> Result<(), nix::Error> {
        let wait = Timespec { tv_sec: 0, tv_nsec: wait_ns as _ };
        let mut fds = [PollFd::from_borrowed_fd(self.socket.as_fd(), PollFlags::IN)];
        // An interrupted wait only makes the next check early.
        poll(&mut fds, Some(&wait)).ok();
        while self.receive()? {}
        Ok(())
    }

    /// Receives one packet; false if there was none.
    fn receive(&mut self) -> Result<bool, nix::Error> {
        let (mut bytes, mut control) = ([0; 64], nix::cmsg_space!(TimeSpec));
        let mut parts = [IoSliceMut::new(&mut bytes)];
        let flags = MsgFlags::empty();
        let fd = self.socket.as_raw_fd();
        let received = match recvmsg::<SockaddrIn>(fd, &mut parts, Some(&mut control), flags) {
            Ok(received) => received,
            Err(nix::Error::EAGAIN | nix::Error::EINTR) => return Ok(false),
            Err(error) => return Err(error),
        };
        let arrived = received.cmsgs()?.find_map(|message| match message {
            ControlMessageOwned::ScmTimestampns(at) => Some(at),
            _ => None,
        });
        let arrived_ns = arrived.map(|at| nanos(at.tv_sec() as u64, at.tv_nsec() as u64));
        if let (Some(at), Some(number)) = (arrived_ns, answered(&bytes)) {
            self.on_answer(number, at);
        }
        Ok(true)
    }

    fn on_answer(&mut self, number: u32, at_ns: u64) {
        let sent = self.sent.get_mut(number as usize).filter(|sent| **sent != 0);
        if let Some(sent) = sent {
            self.rtt.record_ns(at_ns.saturating_sub(*sent));
            *sent = 0;
        }
    }
}

/// The number of the probe that a received packet answers.
fn answered(packet: &[u8]) -> Option<u32> {
    let header_bytes = usize::from(packet.first()? & 15) * 4;
    let icmp = packet.get(header_bytes..header_bytes + ICMP_BYTES)?;
    let number = icmp.last_chunk().map(|bytes| u32::from_be_bytes(*bytes));
    number.filter(|_| icmp[0] == ECHO_REPLY)
}

/// The internet checksum (RFC 1071).
fn checksum(bytes: &[u8]) -> u16 {
    let words = bytes.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1]));
    let sum: u32 = words.sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    !((folded & 0xffff) + (folded >> 16)) as u16
}

/// The real time, which the kernel also uses for timestamps of packets.
fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Realtime);
    nanos(now.tv_sec as u64, now.tv_nsec as u64)
}

fn nanos(seconds: u64, nanos: u64) -> u64 {
    seconds * 1_000_000_000 + nanos
}

const ICMP_BYTES: usize = 8;
const ECHO_REQUEST: u8 = 8;
const ECHO_REPLY: u8 = 0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_that_of_rfc_1071() {
        let example = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(checksum(&example), !0xddf2);
    }

    #[test]
    fn only_answers_count() {
        let mut packet = [0; 64];
        packet[0] = 0x45;
        packet[24..28].copy_from_slice(&7u32.to_be_bytes());
        assert_eq!(answered(&packet), Some(7));
        packet[20] = ECHO_REQUEST;
        assert_eq!(answered(&packet), None);
        assert_eq!(answered(&packet[..20]), None);
        assert_eq!(answered(&[]), None);
    }
}
