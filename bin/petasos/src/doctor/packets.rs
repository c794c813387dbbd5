//! The transports for packets.

use std::net::{Ipv4Addr, SocketAddr};

use petasos_netio::{Ecn, PacketIo};
use petasos_netio_shm::{ShmConfig, ShmIo};
use petasos_netio_udp::{GsoSocket, UdpConfig, UdpIo};
use petasos_netio_xdp::{InterfaceProbe, Probe, probe};

use super::{Facility, State, optional};

/// All findings about packets.
pub fn findings() -> Vec<Facility> {
    let mut findings = udp();
    findings.push(shm());
    findings.extend(xdp(&probe()));
    findings.push(optional::dpdk());
    findings.extend(optional::fabric());
    findings
}

fn loopback() -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, 0))
}

fn udp() -> Vec<Facility> {
    let io = match UdpIo::bind(loopback(), UdpConfig::default()) {
        Ok(io) => io,
        Err(error) => return vec![Facility::no("udp", error, "bring loopback up")],
    };
    let offload = |name, on, what| match on {
        true => Facility::yes(name, what),
        false => Facility::new(
            name,
            State::No,
            "the kernel has none; small messages cost a system call each",
            "Linux 5.0 and later have it",
        ),
    };
    let buffer_bytes = io.receive_buffer_bytes();
    let wanted = UdpConfig::default().receive_buffer_bytes;
    let found = format!("{} KiB per socket, of {} wanted", buffer_bytes >> 10, wanted >> 10);
    let enough = if buffer_bytes >= wanted { State::Yes } else { State::Limited };
    let advice = format!("`sysctl net.core.rmem_max={wanted}`, or grant CAP_NET_ADMIN");
    vec![
        Facility::yes("udp", "kernel sockets"),
        offload("udp-gso", io.gso(), "one system call sends a train of up to 64 packets"),
        offload("udp-gro", io.gro(), "one system call receives a train"),
        Facility::new("udp-receive-buffer", enough, found, &advice),
        ecn(),
    ]
}

fn ecn() -> Facility {
    let tried = GsoSocket::bind(loopback(), 1 << 16).map_err(|error| error.to_string());
    let tried = tried.and_then(|mut socket| {
        let set = socket.report_ecn(true).and_then(|()| socket.set_ecn(Ecn::Capable0));
        set.map_err(|error| error.to_string())
    });
    match tried {
        Ok(()) => Facility::yes("udp-ecn", "marks of congested switches are read and sent"),
        Err(error) => {
            let advice = "congestion control works from delays and losses alone";
            Facility::no("udp-ecn", error, advice)
        }
    }
}

/// Connects two backends of this process, which tests everything that two processes need.
fn shm() -> Facility {
    let tried = || -> Result<(), String> {
        let open = || ShmIo::bind(loopback(), ShmConfig::default()).map_err(|e| e.to_string());
        let (mut near, far) = (open()?, open()?);
        near.route(far.local_address()).map(drop).map_err(|error| error.to_string())
    };
    match tried() {
        Ok(()) => Facility::yes("shm", "sealed memory between processes of this host and user"),
        Err(error) => {
            let advice = "needs memfd_create with seals (Linux 3.17), abstract Unix sockets and \
                          memory; until then local sessions go over UDP";
            Facility::no("shm", error, advice)
        }
    }
}

fn xdp(probe: &Probe) -> Vec<Facility> {
    let advice = "until then use --transport udp";
    let whole = match (&probe.socket, &probe.program) {
        (Err(error), _) | (_, Err(error)) => Facility::no("xdp", error, advice),
        _ if !probe.usable() => Facility::new(
            "xdp",
            State::Limited,
            "sockets and programs work, and no interface is usable",
            "see the interfaces below",
        ),
        _ => Facility::yes("xdp", "AF_XDP sockets and steering programs"),
    };
    let mut findings = vec![whole];
    match &probe.interfaces {
        Ok(interfaces) => findings.extend(interfaces.iter().map(interface)),
        Err(error) => findings.push(Facility::no("xdp-interfaces", error, advice)),
    }
    findings
}

fn interface(probe: &InterfaceProbe) -> Facility {
    let name = format!("xdp:{}", probe.name);
    match &probe.usable {
        Ok(()) => {
            let kind = probe.kind.as_deref().unwrap_or("hardware");
            let queues = match probe.queues {
                1 => "1 queue".to_owned(),
                queues => format!("{queues} queues"),
            };
            Facility::yes(&name, format!("{kind}, {queues}, MTU {}", probe.mtu))
        }
        Err(error) => Facility::no(&name, error, "other transports are not affected"),
    }
}
