//! A network for the AF_XDP pairs: two connected interfaces in a new namespace.
//!
//! Only the sockets hold the namespace. When they are closed, the namespace and its interfaces are
//! gone, however this process ends. The process itself stays in its namespace.

use nix::net::if_::if_nametoindex;
use nix::sched::{CloneFlags, unshare};
use petasos_floor::lab::Sender;

use crate::error::BenchError;
use crate::network::ip;

const NAMES: [&str; 2] = ["lab0", "lab1"];

/// A socket that sends into a new network.
pub fn sender() -> Result<Sender, BenchError> {
    senders(1)?.pop().ok_or_else(|| "no socket was opened".into())
}

/// One socket for each of `queues` queues of an interface in a new network.
pub fn senders(queues: usize) -> Result<Vec<Sender>, BenchError> {
    // Use a separate thread, because the thread leaves the host's network.
    let thread = std::thread::spawn(move || open(queues));
    let opened = thread.join().map_err(|_| "the thread that makes the network has died")?;
    Ok(opened?)
}

fn open(queues: usize) -> Result<Vec<Sender>, String> {
    unshare(CloneFlags::CLONE_NEWNET).map_err(|error| {
        format!("AF_XDP is measured in a network namespace of its own, which takes root ({error})")
    })?;
    let ([near, far], count) = (NAMES, format!("numrxqueues {queues} numtxqueues {queues}"));
    ip(&format!("link add {near} {count} type veth peer name {far} {count}"))?;
    ip(&format!("link set {far} up"))?;
    ip(&format!("link set {near} up"))?;
    let index = if_nametoindex(near).map_err(|error| format!("cannot find {near}: {error}"))?;
    let sender = |queue| Sender::open(index, queue as u32).map_err(|error| error.to_string());
    (0..queues).map(sender).collect()
}
