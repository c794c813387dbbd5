//! `--transport`: how `serve`, `raw` and `demo` transport packets.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};

use clap::{Args, ValueEnum};
use petasos_endpoint::{Backend, LocalConfig, LocalIo, TcpConfig, TcpIo};
use petasos_netio_shm::{ShmConfig, ShmIo};
use petasos_netio_udp::{UdpConfig, UdpIo};
use petasos_netio_xdp::{XdpConfig, XdpIo};

use crate::failure::Failure;
use dpdk::DpdkArgs;
use fabric::FabricArgs;

mod dpdk;
mod fabric;

/// The transport of packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Transport {
    /// Shared memory for processes of this host that support it, kernel sockets for all others.
    #[default]
    Auto,
    /// Kernel sockets.
    Udp,
    /// TCP connections, for networks that let nothing else through.
    Tcp,
    /// Shared memory: processes of this host only.
    Shm,
    /// AF_XDP sockets: UDP past the kernel's stack; needs privileges.
    Xdp,
    /// DPDK's poll-mode drivers, with no kernel beside them; needs the cargo feature `dpdk`.
    Dpdk,
    /// libfabric's datagram endpoints, so RDMA NICs; needs the cargo feature `fabric`.
    Fabric,
}

impl Transport {
    /// The word on the command line.
    pub fn word(self) -> &'static str {
        match self {
            Transport::Auto => "auto",
            Transport::Udp => "udp",
            Transport::Tcp => "tcp",
            Transport::Shm => "shm",
            Transport::Xdp => "xdp",
            Transport::Dpdk => "dpdk",
            Transport::Fabric => "fabric",
        }
    }
}

/// The options of transports.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq)]
pub struct TransportArgs {
    /// How packets are transported.
    #[arg(long, value_enum, default_value_t, global = true)]
    pub transport: Transport,
    /// With `xdp`: the interface [default: the one that has the address].
    #[arg(long, value_name = "NAME", global = true)]
    pub interface: Option<String>,
    /// With `xdp`: the interface's queue; of several endpoints the first one's.
    #[arg(long, value_name = "N", default_value_t = 0, global = true)]
    pub queue: u32,
    /// Of `dpdk`.
    #[command(flatten)]
    pub dpdk: DpdkArgs,
    /// Of `fabric`.
    #[command(flatten)]
    pub fabric: FabricArgs,
}

impl TransportArgs {
    /// The same options as command-line words, for another process of this program on this host.
    /// DPDK's options are omitted: two processes cannot share a port.
    pub fn words(&self) -> Vec<String> {
        let mut words = vec!["--transport".to_owned(), self.transport.word().to_owned()];
        if let Some(interface) = &self.interface {
            words.extend(["--interface".to_owned(), interface.clone()]);
        }
        words.extend(["--queue".to_owned(), self.queue.to_string()]);
        words.extend(self.fabric.words());
        words
    }

    /// Opens the packet I/O of endpoint number `index` at `ip`, with any port.
    ///
    /// # Errors
    /// If the packet I/O is not available. The error contains advice.
    pub fn open(&self, ip: IpAddr, index: u32) -> Result<Backend, Failure> {
        self.check()?;
        let address = SocketAddr::new(ip, 0);
        Ok(match self.transport {
            Transport::Auto => LocalIo::bind(address, &LocalConfig::default())?.into(),
            Transport::Udp => UdpIo::bind(address, UdpConfig::default())?.into(),
            Transport::Tcp => TcpIo::bind(address, TcpConfig::default())?.into(),
            Transport::Shm => {
                let name = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
                let opened = ShmIo::bind(name, ShmConfig::default());
                opened.map_err(|error| Failure::of_transport("shared memory", &error))?.into()
            }
            Transport::Xdp => {
                let (interface, queue) = (self.interface.clone(), self.queue + index);
                let config = XdpConfig { interface, queue, ..XdpConfig::default() };
                let opened = XdpIo::bind(self.own_address(address)?, &config);
                opened.map_err(|error| Failure::of_transport("AF_XDP", &error))?.into()
            }
            Transport::Dpdk => self.dpdk.open(address, index)?,
            Transport::Fabric => self.fabric.open(address)?,
        })
    }

    /// Checks that all options belong to the transport.
    fn check(&self) -> Result<(), Failure> {
        let interface = self.interface.as_ref().map(|_| "--interface");
        let given = [
            (interface, Transport::Xdp, "AF_XDP"),
            (self.dpdk.given(), Transport::Dpdk, "DPDK"),
            (self.fabric.given(), Transport::Fabric, "libfabric"),
        ];
        for (option, transport, name) in given {
            if let Some(option) = option.filter(|_| self.transport != transport) {
                let word = transport.word();
                let advice = format!("add --transport {word}, or leave it away");
                return Err(Failure::with_advice(format!("{option} is for {name} only"), advice));
            }
        }
        Ok(())
    }

    /// Returns `address`. If it is unspecified and an interface was given, returns the interface's
    /// address, which AF_XDP needs.
    ///
    /// # Errors
    /// If the interface has no address.
    pub fn own_address(&self, address: SocketAddr) -> Result<SocketAddr, Failure> {
        let Some(name) = self.interface.as_ref().filter(|_| address.ip().is_unspecified()) else {
            return Ok(address);
        };
        let interfaces = petasos_netio_xdp::probe().interfaces;
        let interfaces = interfaces.map_err(|error| Failure::of_transport("AF_XDP", &error))?;
        let found = interfaces.into_iter().find(|each| each.name == *name);
        let family = |ip: &IpAddr| ip.is_ipv4() == address.is_ipv4();
        let ip = found.map(|each| each.addresses.into_iter().find(family));
        match ip {
            Some(Some(ip)) => Ok(SocketAddr::new(ip, 0)),
            Some(None) => Err(Failure::with_advice(
                format_args!("interface {name} has no address of the server's family"),
                format_args!("give it one: `ip addr add ADDRESS/PREFIX dev {name}`"),
            )),
            None => Err(Failure::with_advice(
                format_args!("there is no interface {name}"),
                "`ip link` and `petasos doctor` list those of this network namespace",
            )),
        }
    }

    /// The local IP address from which a client can reach `server`. An endpoint on a loopback
    /// address only reaches this host.
    pub fn ip_towards(&self, server: SocketAddr) -> IpAddr {
        let any = match server.is_ipv4() {
            true => IpAddr::from([0; 4]),
            false => IpAddr::from([0; 16]),
        };
        match self.transport {
            Transport::Xdp if self.interface.is_some() => any,
            Transport::Xdp | Transport::Dpdk | Transport::Fabric => {
                own_ip_towards(server).unwrap_or(any)
            }
            _ if server.ip().is_loopback() && server.is_ipv4() => Ipv4Addr::LOCALHOST.into(),
            _ if server.ip().is_loopback() => std::net::Ipv6Addr::LOCALHOST.into(),
            _ => any,
        }
    }
}

/// The source address that the system would use for `server`. Sends nothing.
fn own_ip_towards(server: SocketAddr) -> Option<IpAddr> {
    let any = if server.is_ipv4() { IpAddr::from([0; 4]) } else { IpAddr::from([0; 16]) };
    let socket = UdpSocket::bind((any, 0)).ok()?;
    socket.connect(server).ok()?;
    socket.local_addr().ok().map(|address| address.ip())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn towards(transport: Transport, server: &str) -> IpAddr {
        let args = TransportArgs { transport, ..TransportArgs::default() };
        args.ip_towards(server.parse().expect("it is an address"))
    }

    #[test]
    fn a_client_of_this_host_is_deaf_to_others() {
        assert!(towards(Transport::Auto, "127.0.0.9:1").is_loopback());
        assert!(towards(Transport::Udp, "[::1]:1").is_loopback());
        assert!(towards(Transport::Udp, "192.0.2.1:1").is_unspecified());
    }

    #[test]
    fn af_xdp_is_opened_at_the_address_that_the_system_would_take() {
        assert_eq!(towards(Transport::Xdp, "127.0.0.1:9"), IpAddr::from([127, 0, 0, 1]));
    }

    #[test]
    fn every_option_is_for_its_transport() {
        let refusal = |args: TransportArgs| {
            let refused = args.open(Ipv4Addr::LOCALHOST.into(), 0).err().expect("it is refused");
            refused.to_string()
        };
        let name = || Some("x".to_owned());
        let args = TransportArgs { interface: name(), ..TransportArgs::default() };
        assert_eq!(
            refusal(args),
            "--interface is for AF_XDP only; add --transport xdp, or leave it away"
        );
        let dpdk = DpdkArgs { device: name(), ..DpdkArgs::default() };
        let args = TransportArgs { dpdk, transport: Transport::Xdp, ..TransportArgs::default() };
        assert!(refusal(args).contains("add --transport dpdk"));
        let fabric = FabricArgs { domain: name(), ..FabricArgs::default() };
        let args = TransportArgs { fabric, ..TransportArgs::default() };
        assert!(refusal(args).starts_with("--domain is for libfabric only"));
    }

    #[test]
    fn another_process_gets_the_same_fabric() {
        let fabric = FabricArgs { provider: Some("udp".to_owned()), domain: None };
        let args =
            TransportArgs { fabric, transport: Transport::Fabric, ..TransportArgs::default() };
        assert_eq!(args.words(), ["--transport", "fabric", "--queue", "0", "--provider", "udp"]);
    }
}
