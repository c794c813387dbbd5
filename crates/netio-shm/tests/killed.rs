//! A peer process that is killed in the middle of traffic.

mod common;

use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Child, Command};

use common::{receive_until, send};
use petasos_netio::PacketIo;
use petasos_netio_shm::{ShmConfig, ShmIo};

/// Names the address that a child process is to flood.
const FLOOD: &str = "PETASOS_SHM_TEST_FLOOD";

fn bind() -> ShmIo {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    ShmIo::bind(address, ShmConfig::default()).expect("a name is free")
}

/// Not a test of its own: what a child process does.
#[test]
fn flood_as_a_child() {
    let Ok(address) = std::env::var(FLOOD) else { return };
    let mut io = bind();
    let route = io.route(address.parse().expect("an address")).expect("the parent listens");
    // Until killed.
    loop {
        send(&mut io, route, &[7; 1000]);
        send(&mut io, route, &[7; 10]);
        io.receive();
    }
}

fn spawn_flood(io: &ShmIo) -> Child {
    Command::new(std::env::current_exe().expect("a test has a file"))
        .args(["--exact", "flood_as_a_child", "--nocapture"])
        .env(FLOOD, io.local_address().to_string())
        .spawn()
        .expect("a process can be started")
}

#[test]
fn a_peer_killed_in_the_middle_of_traffic_costs_its_link_only() {
    let (mut io, mut other) = (bind(), bind());
    let to_io = other.route(io.local_address()).expect("it listens");
    for round in 1..=3 {
        let mut child = spawn_flood(&io);
        receive_until(&mut io, |_, frames| frames > 10_000);
        child.kill().expect("it runs");
        child.wait().expect("it was started here");
        receive_until(&mut io, |io, _| io.link_stats().links_lost == round);
        assert_eq!((io.links(), io.link_stats().links_broken), (1, 0), "the other's is left");
        assert_eq!(send(&mut other, to_io, &[1; 100]), 1);
        receive_until(&mut io, |_, frames| frames == 1);
    }
}
