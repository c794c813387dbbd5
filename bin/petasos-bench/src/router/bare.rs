//! Datagrams without any protocol: what a hop takes at least.
//!
//! A client sends them to an echo, or to a forwarder that passes them on to it. The echo answers
//! the client directly, whose port is in the datagram, as a worker does.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::OwnedFd;
use std::time::Duration;

use petasos_base::SystemClock;
use petasos_load::{Answers, Target, TargetError, wait_readable};

use super::part_args::PartArgs;
use crate::error::BenchError;

/// A slot and a port, beside 8 bytes of whoever asks.
pub(super) const BYTES: usize = 16;
pub(super) const LOCALHOST: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
/// How long a forwarder looks for datagrams before it sleeps: as long as the router.
const SPIN: Duration = Duration::from_micros(50);

/// The client's end.
pub struct BareTarget {
    socket: UdpSocket,
    descriptor: OwnedFd,
    to: SocketAddr,
    port: u16,
    outstanding_max: u32,
}

impl BareTarget {
    /// Sends to an echo or a forwarder.
    ///
    /// # Errors
    /// The system's.
    pub fn new(to: SocketAddr, outstanding_max: u32) -> Result<BareTarget, BenchError> {
        // What is across a link does not reach the loopback address.
        let any = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
        let own = if to.ip().is_loopback() { LOCALHOST } else { any };
        let socket = UdpSocket::bind((own, 0))?;
        socket.set_nonblocking(true)?;
        let (port, descriptor) = (socket.local_addr()?.port(), socket.try_clone()?.into());
        Ok(BareTarget { socket, descriptor, to, port, outstanding_max })
    }
}

impl Target for BareTarget {
    fn outstanding_max(&self) -> usize {
        self.outstanding_max as usize
    }

    fn send(&mut self, slot: u32) -> Result<(), TargetError> {
        let mut datagram = [0; BYTES];
        datagram[..4].copy_from_slice(&slot.to_ne_bytes());
        datagram[4..6].copy_from_slice(&self.port.to_ne_bytes());
        let sent = self.socket.send_to(&datagram, self.to);
        sent.map(drop).map_err(|error| TargetError(format!("a datagram was not sent: {error}")))
    }

    fn poll(&mut self, answers: &mut Answers) -> Result<(), TargetError> {
        let mut datagram = [0; BYTES];
        while let Ok((BYTES, _)) = self.socket.recv_from(&mut datagram) {
            let slot = [datagram[0], datagram[1], datagram[2], datagram[3]];
            answers.push(u32::from_ne_bytes(slot), Ok(()));
        }
        Ok(())
    }

    fn wait(&mut self, timeout: Duration) {
        wait_readable(&self.descriptor, timeout);
    }
}

/// Starts an echo at an address, for who sends from there. Returns where it is.
///
/// # Errors
/// The system's.
pub fn echo(ip: IpAddr) -> Result<SocketAddr, BenchError> {
    start(ip, Duration::ZERO, move |datagram| {
        SocketAddr::new(ip, u16::from_ne_bytes([datagram[4], datagram[5]]))
    })
}

/// Starts a forwarder to the first of the addresses that `args` name. Returns where it is.
///
/// # Errors
/// The system's.
pub fn forwarder(args: &PartArgs) -> Result<SocketAddr, BenchError> {
    let to = *args.router.first().ok_or("--router names nobody to forward to")?;
    start(args.ip, SPIN, move |_| to)
}

fn start(
    ip: IpAddr,
    spin: Duration,
    next: impl Fn(&[u8; BYTES]) -> SocketAddr + Send + 'static,
) -> Result<SocketAddr, BenchError> {
    let socket = UdpSocket::bind((ip, 0))?;
    socket.set_nonblocking(true)?;
    let (address, descriptor) = (socket.local_addr()?, OwnedFd::from(socket.try_clone()?));
    std::thread::spawn(move || {
        let clock = SystemClock::default();
        let mut busy_at = clock.now();
        loop {
            let mut datagram = [0; BYTES];
            if let Ok((BYTES, _)) = socket.recv_from(&mut datagram) {
                // It may be lost, as any datagram.
                let _ = socket.send_to(&datagram, next(&datagram));
                busy_at = clock.now();
            } else if clock.now() - busy_at >= spin {
                wait_readable(&descriptor, Duration::from_secs(3600));
                busy_at = clock.now();
            }
        }
    });
    Ok(address)
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use petasos_base::Clock;
    use petasos_load::closed_loop;

    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        part: PartArgs,
    }

    #[test]
    fn datagrams_come_back_by_way_of_a_forwarder() {
        let echo = echo(LOCALHOST).expect("loopback has ports").to_string();
        let line = ["part", "forwarder", "--core", "0", "--router", &echo];
        let forwarder = forwarder(&Cli::parse_from(line).part).expect("loopback has ports");
        let mut target = BareTarget::new(forwarder, 4).expect("loopback has ports");
        let clock = Clock::system();
        let some = Duration::from_millis(5);
        let closed = closed_loop(&mut target, &clock, 4, some, false).expect("nothing is lost");
        assert!(closed.answered > 0);
    }
}
