//! A router's plane passes its suite over AF_XDP, around a switch.

use std::io::ErrorKind;
use std::net::SocketAddr;

use petasos_netio::RouteError;
use petasos_netio_conformance::turns;
use petasos_netio_xdp::{AttachMode, XdpConfig, XdpIo};
use petasos_router_conformance::{PlaneFactory, plane_tests};
use petasos_router_plane::{Plane, PlaneConfig, TableError};

mod rig;
mod veth;
use veth::{config, veth};

impl PlaneFactory for veth::Veth {}

mod v4_native {
    use super::*;
    plane_tests!(veth(rig::v4, config(AttachMode::Native), 1500));
}

mod v4_generic {
    use super::*;
    plane_tests!(veth(rig::v4, config(AttachMode::Generic), 1500));
}

mod v6_native {
    use super::*;
    plane_tests!(veth(rig::v6, config(AttachMode::Native), 1500));
}

/// As a router's process opens it: its thread waits for no neighbour while packets come.
#[test]
fn a_member_whose_neighbour_is_unknown_is_refused_at_once_and_taken_when_it_is_known() {
    if !rig::available() {
        return;
    }
    let pair = rig::Pair::new();
    let config = XdpConfig { resolve_wait_ms: 0, ..config(AttachMode::Auto) };
    let io = pair.left.run(|| XdpIo::bind(rig::any_port(rig::v4(1)), &config));
    let mut io = io.expect("a fresh interface is free");
    let mut plane = Plane::new(&PlaneConfig::default(), 1).expect("it is right");
    // Nobody has it yet.
    let address = SocketAddr::new(rig::v4(9), 9);
    let kind = |refused: Result<_, TableError>| match refused {
        Err(TableError::Unreachable(RouteError::Unreachable(error))) => Some(error.kind()),
        _ => None,
    };
    assert_eq!(kind(plane.attach(&mut io, address)), Some(ErrorKind::TimedOut));
    pair.right.ip(&format!("addr add {}/24 dev v1", rig::v4(9)));
    let is_taken = turns().any(|_| {
        std::thread::yield_now();
        plane.attach(&mut io, address).is_ok()
    });
    assert!(is_taken, "the kernel asks meanwhile");
    // No way leads there, so that nobody is asked.
    let nowhere = SocketAddr::from(([10, 99, 0, 1], 9));
    assert!(kind(plane.attach(&mut io, nowhere)).is_some());
}
