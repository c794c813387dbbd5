//! An address that moves between hosts: namespaces that are joined by a bridge, with the kernel's
//! own tables of neighbours as the witness.

mod segment;

use std::net::IpAddr;
use std::time::Duration;

use petasos_netlink::{AddressError, VirtualAddress};
use segment::{Namespace, Segment, until};

const LONG: Duration = Duration::from_secs(600);

fn mac(host: &Namespace) -> String {
    let link = host.ip("-o link show dev v0");
    link.split("link/ether ").nth(1).expect("it is Ethernet")[..17].to_owned()
}

/// What `host` believes about where `address` is.
fn believes(host: &Namespace, address: IpAddr) -> String {
    host.ip(&format!("neigh show {address} dev v0"))
}

fn moves(address: &str) {
    let Some(segment) = Segment::new(3) else { return };
    let [first, second, third] = &segment.hosts[..] else { panic!("there are three") };
    let address: IpAddr = address.parse().expect("an address");
    let bits = if address.is_ipv4() { 24 } else { 64 };
    let shared = VirtualAddress::new("v0", address, bits).expect("it is right");
    first.run(|| shared.take(LONG)).expect("root may");
    // The third host asks for it, since it sends something there.
    let ask = || {
        let any = if address.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
        let socket = std::net::UdpSocket::bind(any).expect("there are ports");
        let _ = socket.send_to(&[0], (address, 9));
    };
    until("it is found", || {
        third.run(ask);
        believes(third, address).contains(&mac(first))
    });
    // Both have it, as when the first one's process was killed: who has announced it last counts.
    second.run(|| shared.take(LONG)).expect("root may");
    second.run(|| shared.announce()).expect("root may");
    until("the announcement is believed", || believes(third, address).contains(&mac(second)));
    assert!(first.run(|| shared.give_up()).expect("root may"));
    assert!(!first.run(|| shared.give_up()).expect("root may"), "it is not there any more");
    assert!(second.ip("addr show dev v0").contains(&format!("{address}/")));
    // It is taken again before its time is over, and then not any more.
    second.run(|| shared.take(Duration::from_secs(1))).expect("root may");
    until("it goes by itself", || !second.ip("addr show dev v0").contains(&format!("{address}/")));
}

#[test]
fn an_ipv4_address_moves_by_an_announcement_and_goes_by_itself() {
    moves("10.78.0.100");
}

#[test]
fn an_ipv6_address_moves_by_an_announcement_and_goes_by_itself() {
    moves("fd78::100");
}

#[test]
fn a_host_does_not_begin_connections_at_an_address_that_moves() {
    let Some(segment) = Segment::new(3) else { return };
    for (address, peer) in [("10.78.0.100", "10.78.0.3:9"), ("fd78::100", "[fd78::3]:9")] {
        let address: IpAddr = address.parse().expect("an address");
        let bits = if address.is_ipv4() { 24 } else { 64 };
        let shared = VirtualAddress::new("v0", address, bits).expect("it is right");
        let from = segment.hosts[0].run(|| {
            shared.take(LONG).expect("root may");
            let any = if address.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
            let socket = std::net::UdpSocket::bind(any).expect("there are ports");
            socket.connect(peer).expect("there is a route");
            socket.local_addr().expect("it is connected").ip()
        });
        assert_ne!(from, address);
    }
}

#[test]
fn what_cannot_be_is_said() {
    let address = IpAddr::from([10, 78, 0, 100]);
    let long = VirtualAddress::new("v0", address, 33);
    assert!(matches!(long, Err(AddressError::Prefix(33))));
    let nowhere = VirtualAddress::new("there-is-none", address, 24).expect("it is right");
    for error in [nowhere.take(LONG).err(), nowhere.announce().err()] {
        let text = error.expect("there is no such interface").to_string();
        assert!(text.contains("no Ethernet interface there-is-none"), "{text}");
    }
    // Loopback is none that can be announced at.
    let local = VirtualAddress::new("lo", address, 32).expect("it is right");
    assert!(matches!(local.take(LONG), Err(AddressError::NoInterface(_))));
}
