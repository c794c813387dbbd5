//! What a group's packets come and go by: a socket of the kernel, or AF_XDP past its stack.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use petasos_netio_xdp::{XdpConfig, check};
use serde::Deserialize;

/// The packet I/O of a plane.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum PlaneKind {
    /// A socket of the kernel, anywhere.
    #[default]
    Udp,
    /// An AF_XDP socket, on one queue of an interface, for members on other hosts: needs privileges
    XdpSocket,
    /// A socket of the kernel, and a program in front of it, at an interface, that gives plain
    /// requests to workers by itself: needs privileges, an IPv4 address and members on other hosts
    Xdp,
}

/// Options about the plane.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq)]
pub struct PlaneOptions {
    /// What packets come and go by
    #[arg(long, value_enum, default_value_t)]
    pub plane: PlaneKind,

    /// With udp: a socket at this address, and a thread, for what workers tell the router. It takes
    /// work off the thread that has requests, where there are processors for both
    #[arg(long, value_name = "ADDR")]
    pub feedback: Option<SocketAddr>,

    /// With xdp-socket and xdp: the interface [default: the one that has --data's address]. It
    /// also gets --virtual-address
    #[arg(long, value_name = "NAME")]
    pub interface: Option<String>,

    /// With xdp-socket: the interface's queue, which this group has for itself [default: 0]
    #[arg(long, value_name = "N")]
    pub queue: Option<u32>,

    /// With xdp-socket and xdp: take packets of members' sockets whose checksum a virtual interface
    /// of this host (veth) has left for a device to compute
    #[arg(long)]
    pub partial_checksums: bool,

    /// With xdp: the socket of a holder (`--hold`), which keeps the program at the interface for
    /// ten seconds if this process is killed. One that is started meanwhile takes over
    #[arg(long, value_name = "PATH")]
    pub holder: Option<PathBuf>,
}

impl PlaneOptions {
    /// Checks what can be checked without the system.
    ///
    /// # Errors
    /// A text that says what is wrong.
    pub fn check(&self, data: SocketAddr) -> Result<(), String> {
        let given = [
            ("interface, without virtual_address,", self.interface.is_some()),
            ("partial_checksums", self.partial_checksums),
        ];
        let given = given.into_iter().find(|(_, is_given)| *is_given);
        if self.plane != PlaneKind::XdpSocket && self.queue.is_some() {
            return Err("queue is for plane xdp-socket only".to_owned());
        }
        if self.plane != PlaneKind::Udp && self.feedback.is_some() {
            return Err("feedback is for plane udp only".to_owned());
        }
        if self.plane != PlaneKind::Xdp && self.holder.is_some() {
            return Err("holder is for plane xdp only".to_owned());
        }
        let (name, ip) = (self.name(), data.ip());
        match (self.plane, given) {
            (PlaneKind::Udp, Some((option, _))) => {
                Err(format!("{option} is for planes xdp-socket and xdp only"))
            }
            (PlaneKind::Xdp, _) if !data.is_ipv4() => {
                Err(format!("plane xdp needs an IPv4 address in data, not {ip}"))
            }
            (PlaneKind::XdpSocket | PlaneKind::Xdp, _)
                if ip.is_unspecified() || ip.is_loopback() =>
            {
                Err(format!("plane {name} needs an interface's address in data, not {ip}"))
            }
            _ => Ok(()),
        }
    }

    fn name(&self) -> &'static str {
        match self.plane {
            PlaneKind::Udp => "udp",
            PlaneKind::XdpSocket => "xdp-socket",
            PlaneKind::Xdp => "xdp",
        }
    }

    /// Says whether the host can do it by AF_XDP, as far as can be known without taking the
    /// interface from who has it.
    ///
    /// # Errors
    /// A text that says what is wrong.
    pub fn try_out_socket(&self, data: SocketAddr) -> Result<(), String> {
        check(data.ip(), &self.xdp()).map_err(|error| format!("plane xdp-socket: {error}"))
    }

    /// The configuration of an AF_XDP socket.
    pub fn xdp(&self) -> XdpConfig {
        XdpConfig {
            interface: self.interface.clone(),
            queue: self.queue(),
            partial_checksums: self.partial_checksums,
            // The thread that has the packets finds routes: it waits for no neighbour. Members have
            // connections, so that theirs are known.
            resolve_wait_ms: 0,
            ..XdpConfig::default()
        }
    }

    /// The interface's queue.
    pub fn queue(&self) -> u32 {
        self.queue.unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_af_xdp_are_for_it_only_and_it_needs_an_address() {
        let data = "192.0.2.1:1".parse().expect("it is an address");
        let udp = PlaneOptions::default();
        udp.check(data).expect("it is right");
        let given = [
            PlaneOptions { interface: Some("eth0".to_owned()), ..udp.clone() },
            PlaneOptions { partial_checksums: true, ..udp.clone() },
            PlaneOptions { queue: Some(0), ..udp },
        ];
        let names = ["interface, without virtual_address,", "partial_checksums", "queue"];
        for (options, name) in given.into_iter().zip(names) {
            let refusal = options.check(data).expect_err("it is for others");
            assert!(refusal.starts_with(&format!("{name} is for plane")), "{refusal}");
            let socket = PlaneOptions { plane: PlaneKind::XdpSocket, ..options.clone() };
            socket.check(data).expect("it is right");
            assert_eq!(socket.xdp().resolve_wait_ms, 0, "no packet waits for a neighbour");
            let xdp = PlaneOptions { plane: PlaneKind::Xdp, ..options };
            assert_eq!(xdp.check(data).is_ok(), name != "queue");
            for wrong in ["0.0.0.0:1", "127.0.0.1:1", "[::]:1", "[::1]:1"] {
                let wrong = wrong.parse().expect("it is an address");
                socket.check(wrong).expect_err("no interface has it");
                xdp.check(wrong).expect_err("no interface has it");
            }
        }
        let feedback = "192.0.2.1:2".parse().ok();
        PlaneOptions { feedback, ..PlaneOptions::default() }.check(data).expect("it is right");
        for plane in [PlaneKind::Xdp, PlaneKind::XdpSocket] {
            let split = PlaneOptions { feedback, plane, ..PlaneOptions::default() };
            let refusal = split.check(data).expect_err("it has no socket");
            assert_eq!(refusal, "feedback is for plane udp only");
        }
        let holder = PlaneOptions { holder: Some("h".into()), ..PlaneOptions::default() };
        for plane in [PlaneKind::Udp, PlaneKind::XdpSocket] {
            let refusal = PlaneOptions { plane, ..holder.clone() }.check(data);
            assert!(refusal.is_err_and(|why| why.starts_with("holder is for plane xdp")));
        }
        PlaneOptions { plane: PlaneKind::Xdp, ..holder }.check(data).expect("it is right");
        let v6 = "[2001:db8::1]:1".parse().expect("it is an address");
        let xdp = PlaneOptions { plane: PlaneKind::Xdp, ..PlaneOptions::default() };
        xdp.check(v6).expect_err("the program knows IPv4 only");
    }
}
