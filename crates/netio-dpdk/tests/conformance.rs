//! The backend passes the suite over packet sockets on veth pairs, and across a switch for tests
//! with three ports.
#![cfg(feature = "dpdk")]

use std::cell::RefCell;
use std::net::SocketAddr;

use petasos_netio_conformance::{
    BackendFactory, conformance_tests, delivery, failures, routes, trains,
};
use petasos_netio_dpdk::{DpdkConfig, DpdkIo};

mod common;
use common::{config, ip, mac, on_interface, rig};

struct Veth {
    v6: bool,
    /// Networks that ports use.
    stars: RefCell<Vec<rig::Star>>,
}

impl BackendFactory for Veth {
    type Io = DpdkIo;

    fn ports(&self, count: usize) -> Vec<DpdkIo> {
        let star = rig::Star::new(count);
        // Neighbours are configured: one thread polls all ports of a test, so nothing would answer
        // a question.
        let neighbours: Vec<_> =
            (1..=count as u8).map(|number| (ip(self.v6, number), mac(number))).collect();
        let open = |(at, host): (usize, &rig::Namespace)| {
            let number = at as u8 + 1;
            let address = SocketAddr::new(ip(self.v6, number), 4000);
            let config = DpdkConfig { neighbours: neighbours.clone(), ..config(number) };
            on_interface((host, "v0"), address, config).expect("a fresh interface is free")
        };
        let ports = star.hosts.iter().enumerate().map(open).collect();
        self.stars.borrow_mut().push(star);
        ports
    }

    fn foreign_address(&self) -> SocketAddr {
        SocketAddr::new(ip(!self.v6, 9), 9)
    }
}

fn veth(v6: bool) -> Option<Veth> {
    rig::available().then_some(Veth { v6, stars: RefCell::default() })
}

mod v4 {
    use super::*;
    conformance_tests!(veth(false));
}

/// Without the random batches: the kernel needs half a minute to make their three hundred ports.
#[test]
fn v6_passes_what_depends_on_headers() {
    let Some(veth) = veth(true) else { return };
    delivery::delivers_every_length(&veth);
    delivery::delivers_heads_and_bodies_split_anywhere(&veth);
    delivery::delivers_mixed_lengths_in_order(&veth);
    delivery::delivers_interleaved_peers_in_order(&veth);
    delivery::counts_what_it_moves(&veth);
    trains::delivers_trains_of_every_shape(&veth);
    trains::drops_oversized_trains_alone(&veth);
    routes::takes_a_released_address_again(&veth);
    routes::refuses_the_wrong_family(&veth);
    routes::names_a_useful_limit(&veth);
    failures::drops_oversized_packets_alone(&veth);
    failures::drops_empty_packets_alone(&veth);
    failures::survives_the_loss_of_a_peer(&veth);
}
