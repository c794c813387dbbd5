//! A network for the measurement: client and server each in a new network namespace, connected by a
//! veth pair with two queues, one for Petasos and one for its floor.
//!
//! The namespaces have no names. They and their interfaces disappear with the processes, however
//! those end. The host's own network is not affected.

use std::net::{IpAddr, SocketAddr};
use std::process::Command;

use nix::sched::{CloneFlags, unshare};

use crate::error::BenchError;

const CLIENT: (&str, [u8; 4]) = ("petasos0", [10, 77, 0, 1]);
const SERVER: (&str, [u8; 4]) = ("petasos1", [10, 77, 0, 2]);

/// The client's address, with any port.
pub fn client() -> SocketAddr {
    SocketAddr::new(IpAddr::from(CLIENT.1), 0)
}

/// The server's address, with any port.
pub fn server() -> SocketAddr {
    SocketAddr::new(IpAddr::from(SERVER.1), 0)
}

/// Moves this thread, and the threads that it starts later, into a new namespace.
pub fn leave_host() -> Result<(), BenchError> {
    unshare(CloneFlags::CLONE_NEWNET).map_err(|error| {
        format!(
            "cannot make a network namespace to measure in ({error}); run as root, or measure \
             between two hosts with --interface and --connect"
        )
    })?;
    Ok(ip("link set lo up")?)
}

/// Makes the veth pair, with its other end in the namespace of process `server`.
pub fn join(server: u32) -> Result<(), BenchError> {
    let (name, other) = (CLIENT.0, SERVER.0);
    let queues = "numrxqueues 2 numtxqueues 2";
    ip(&format!("link add {name} {queues} type veth peer name {other} {queues} netns {server}"))?;
    configure(CLIENT)
}

/// Configures the server's end, once it exists.
pub fn configure_server() -> Result<(), BenchError> {
    configure(SERVER)
}

fn configure((name, address): (&str, [u8; 4])) -> Result<(), BenchError> {
    ip(&format!("addr add {}/24 dev {name}", IpAddr::from(address)))?;
    Ok(ip(&format!("link set {name} up"))?)
}

/// Runs `ip`, in this thread's namespace.
pub fn ip(arguments: &str) -> Result<(), String> {
    let output = Command::new("ip").args(arguments.split(' ')).output();
    let output = output.map_err(|error| {
        format!(
            "cannot run `ip`, which makes the network to measure in ({error}); install iproute2"
        )
    })?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!("`ip {arguments}` failed ({}); see `petasos doctor`", said.trim_end()))
}
