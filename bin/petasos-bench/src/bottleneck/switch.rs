//! The network: a bridge in this process's namespace, a veth pair to each host, and the slow port.

use std::net::Ipv4Addr;
use std::process::Command;

use nix::sched::{CloneFlags, setns};
use petasos_netio_xdp::{Impair, ImpairStats};

use super::BottleneckArgs;
use crate::error::BenchError;
use crate::network::leave_host;

/// The server's address.
pub const SERVER: Ipv4Addr = Ipv4Addr::new(10, 78, 0, 1);
/// The switch's address, from which probes are sent.
pub const SWITCH: Ipv4Addr = Ipv4Addr::new(10, 78, 0, 254);

/// The interface of every host, in the host's namespace.
const HOST_INTERFACE: &str = "host0";
/// The port to the server.
const SLOW_PORT: &str = "slow0";
/// Bytes of an Ethernet header.
const ETHERNET_BYTES: u64 = 14;

/// A switch, in the namespace of the thread that made it.
pub struct Switch {
    mtu: u32,
    rate_mbit: u64,
    port: Option<Impair>,
    config: petasos_netio_xdp::ImpairConfig,
}

impl Switch {
    /// Moves this thread to a new namespace and makes a bridge there.
    pub fn new(args: &BottleneckArgs) -> Result<Switch, BenchError> {
        leave_host()?;
        // Without forward delay and multicast snooping, the bridge forwards at once.
        run("ip link add bridge0 type bridge forward_delay 0 mcast_snooping 0")?;
        run(&format!("ip addr add {SWITCH}/24 dev bridge0"))?;
        run("ip link set bridge0 up")?;
        let mtu = u32::from(args.datagram).max(1472) + 28;
        Ok(Switch { mtu, rate_mbit: args.rate_mbit, port: None, config: args.port() })
    }

    /// Connects the server, process `id`, through the slow port.
    pub fn add_server(&mut self, id: u32) -> Result<(), BenchError> {
        self.join(id, SLOW_PORT, SERVER)?;
        let bytes_per_s = self.rate_mbit * 125_000;
        // The burst that makes up for a late timer: 250 µs, and at least two packets.
        let burst = (bytes_per_s / 4000).max(2 * (u64::from(self.mtu) + ETHERNET_BYTES));
        // The queue is bounded at its entrance. The bucket's own limit is higher, so that it never
        // drops.
        let limit = 2 * u64::from(self.config.queue_bytes_max) + (1 << 20);
        run(&format!(
            "tc qdisc add dev {SLOW_PORT} root tbf rate {}mbit burst {burst} limit {limit}",
            self.rate_mbit
        ))?;
        let mut port = Impair::new(SLOW_PORT, &self.config)?;
        inside(id, || Ok(port.add_exit(HOST_INTERFACE)?))?;
        self.port = Some(port);
        Ok(())
    }

    /// Connects client `number`, process `id`, and returns its address.
    pub fn add_client(&mut self, id: u32, number: u16) -> Result<Ipv4Addr, BenchError> {
        let address = Ipv4Addr::from(SERVER.to_bits() + 1 + u32::from(number));
        self.join(id, &format!("port{number}"), address)?;
        Ok(address)
    }

    /// The counters of the slow port.
    pub fn stats(&self) -> Result<ImpairStats, BenchError> {
        Ok(self.port.as_ref().ok_or("the switch has no slow port")?.stats()?)
    }

    /// Checks that the token bucket has dropped no packet that passed the entrance.
    pub fn check_bucket(&self) -> Result<(), BenchError> {
        let said = run(&format!("tc -s qdisc show dev {SLOW_PORT} root"))?;
        let dropped = said.split("dropped ").nth(1).and_then(|rest| rest.split(',').next());
        match dropped.and_then(|count| count.trim().parse::<u64>().ok()) {
            Some(0) => Ok(()),
            _ => Err(format!("the token bucket dropped packets by itself: {}", said.trim()).into()),
        }
    }

    fn join(&self, id: u32, port: &str, address: Ipv4Addr) -> Result<(), BenchError> {
        let mtu = self.mtu;
        run(&format!(
            "ip link add {port} mtu {mtu} type veth peer name {HOST_INTERFACE} mtu {mtu} netns {id}"
        ))?;
        run(&format!("ip link set {port} master bridge0 up"))?;
        inside(id, || {
            run(&format!("ip addr add {address}/24 dev {HOST_INTERFACE}"))?;
            run(&format!("ip link set {HOST_INTERFACE} up"))?;
            Ok(())
        })
    }
}

/// Runs `act` on a thread in the network namespace of process `id`.
fn inside<T: Send>(
    id: u32,
    act: impl FnOnce() -> Result<T, BenchError> + Send,
) -> Result<T, BenchError> {
    let enter = || -> Result<T, String> {
        let namespace = std::fs::File::open(format!("/proc/{id}/ns/net"));
        let namespace = namespace.map_err(|error| format!("a process has ended: {error}"))?;
        setns(namespace, CloneFlags::CLONE_NEWNET)
            .map_err(|error| format!("cannot enter a network namespace: {error}"))?;
        act().map_err(|error| error.to_string())
    };
    let outcome = std::thread::scope(|scope| scope.spawn(enter).join());
    Ok(outcome.map_err(|_| "a thread of the measurement panicked")??)
}

/// Runs `ip` or `tc` in this thread's namespace, and returns the output.
fn run(command: &str) -> Result<String, BenchError> {
    let mut words = command.split(' ');
    let program = words.next().ok_or("a command has a name")?;
    let output = Command::new(program).args(words).output().map_err(|error| {
        format!("cannot run `{program}`, which makes the network ({error}); install iproute2")
    })?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("`{command}` failed: {}", said.trim_end()).into());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The capabilities that the measurement needs, by bit number.
const CAPABILITIES: [(&str, u32); 4] = [
    ("CAP_SYS_ADMIN (network namespaces)", 21),
    ("CAP_NET_ADMIN (interfaces and queues)", 12),
    ("CAP_NET_RAW (probes)", 13),
    ("CAP_BPF (marks and losses)", 39),
];

/// Returns an error that names the missing privileges, if any.
pub fn check_privileges() -> Result<(), BenchError> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let missing = missing_capabilities(&status);
    if missing.is_empty() {
        return Ok(());
    }
    Err(format!("skipped: this process lacks {}; run as root", missing.join(", ")).into())
}

fn missing_capabilities(status: &str) -> Vec<&'static str> {
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let effective = line.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok()).unwrap_or(0);
    let missing = CAPABILITIES.iter().filter(|(_, bit)| effective & (1 << bit) == 0);
    missing.map(|(name, _)| *name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_capabilities_are_named() {
        let all = "Name:\tpetasos\nCapEff:\t000001ffffffffff\n";
        assert_eq!(missing_capabilities(all), [""; 0]);
        let none = missing_capabilities("CapEff:\t0000000000000000");
        assert_eq!(none.len(), CAPABILITIES.len());
        let only = missing_capabilities("CapEff:\t0000008000203000");
        assert_eq!(only, [""; 0]);
        let only = missing_capabilities("CapEff:\t0000008000202000");
        assert_eq!(only, ["CAP_NET_ADMIN (interfaces and queues)"]);
    }
}
