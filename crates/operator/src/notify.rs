//! What whoever has started this process is told, in systemd's way: datagrams to the socket that
//! `NOTIFY_SOCKET` names. Without one nothing is said.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// This process serves.
pub fn ready() {
    say(&format!("READY=1\nMAINPID={}", std::process::id()));
}

/// This process reads its configuration again; [`ready`] says that it is done.
pub fn reloading() {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let now_us = now.tv_sec as u64 * 1_000_000 + now.tv_nsec as u64 / 1000;
    say(&format!("RELOADING=1\nMONOTONIC_USEC={now_us}"));
}

/// This process is about to end.
pub fn stopping() {
    say("STOPPING=1");
}

/// What it does, for people.
pub fn status(text: &str) {
    say(&format!("STATUS={text}"));
}

fn say(text: &str) {
    let Some(name) = std::env::var_os("NOTIFY_SOCKET") else { return };
    let name = name.as_encoded_bytes();
    let address = match name.strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name),
        None => SocketAddr::from_pathname(std::path::Path::new(&*String::from_utf8_lossy(name))),
    };
    // Nobody may listen any more.
    if let (Ok(address), Ok(socket)) = (address, UnixDatagram::unbound()) {
        let _ = socket.set_nonblocking(true);
        let _ = socket.send_to_addr(text.as_bytes(), &address);
    }
}
