//! A loop whose peers are all on loopback does not hear other hosts. In a network of the test's
//! own, which takes root: both ends of it are network namespaces with addresses of their own.

#[path = "../../endpoint/tests/routers/mod.rs"]
#[allow(dead_code, reason = "other tests narrow the paths")]
mod routers;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use petasos::{Loop, LoopConfig, Security};
use routers::Routers;

/// A loop in one namespace.
struct World {
    routers: Routers,
    event_loop: Loop,
}

impl World {
    fn new(config: LoopConfig) -> Option<World> {
        let routers = Routers::new()?;
        let event_loop = routers.client.run(|| Loop::new(config)).expect("it has a network");
        Some(World { routers, event_loop })
    }

    /// How many more packets the loop has heard after somebody in the other namespace has sent one
    /// to its port, at the address of its namespace.
    fn hears_from_elsewhere(&self, v6: bool) -> u64 {
        let before = self.heard();
        let mut scouts = self.routers.scouts(v6);
        let [here, there] = Routers::addresses(v6);
        let port = self.event_loop.runtime().endpoint_address().port();
        let stranger = self.routers.server.run(|| UdpSocket::bind((there, 0)));
        let stranger = stranger.expect("the address is there");
        stranger.send_to(b"hear me", SocketAddr::new(here, port)).expect("there is a route");
        scouts.there_and_back();
        self.event_loop.run_turns(10);
        self.heard() - before
    }

    /// The same for somebody on loopback.
    fn hears_from_loopback(&self, ip: IpAddr) -> u64 {
        let before = self.heard();
        let port = self.event_loop.runtime().endpoint_address().port();
        let neighbour = self.routers.client.run(|| UdpSocket::bind((ip, 0)));
        let neighbour = neighbour.expect("loopback has ports");
        neighbour.send_to(b"hear me", (ip, port)).expect("loopback takes it");
        // It arrives before what is sent after it.
        neighbour.send_to(b"scout", neighbour.local_addr().expect("it is bound")).expect("it goes");
        neighbour.recv(&mut [0; 8]).expect("the scout arrives");
        self.event_loop.run_turns(10);
        self.heard() - before
    }

    fn heard(&self) -> u64 {
        self.event_loop.runtime().with_endpoint(|endpoint| endpoint.stats().io.rx_frames)
    }
}

#[test]
fn a_loop_on_loopback_hears_no_other_host() {
    let Some(world) = World::new(LoopConfig::default()) else { return };
    assert_eq!(world.hears_from_elsewhere(false), 0);
    assert_eq!(world.hears_from_loopback(Ipv4Addr::LOCALHOST.into()), 1);
}

/// No address of one family reaches both, so its socket is bound to the wildcard address.
#[test]
fn a_loop_on_loopback_of_both_families_hears_no_other_host() {
    if UdpSocket::bind((Ipv6Addr::LOCALHOST, 0)).is_err() {
        return petasos_skips::skip("ipv6", "this host has no ::1");
    }
    let config = LoopConfig { ip: Some(Ipv6Addr::UNSPECIFIED.into()), ..LoopConfig::default() };
    let Some(world) = World::new(config) else { return };
    assert_eq!([false, true].map(|v6| world.hears_from_elsewhere(v6)), [0, 0]);
    let loopback: [IpAddr; 2] = [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
    assert_eq!(loopback.map(|ip| world.hears_from_loopback(ip)), [1, 1]);
}

/// Were the network or the test at fault, nobody would hear anything.
#[test]
fn a_loop_that_agrees_to_plaintext_hears_other_hosts() {
    let config = LoopConfig { security: Security::Plaintext, ..LoopConfig::default() };
    let Some(world) = World::new(config) else { return };
    assert_eq!(world.hears_from_elsewhere(false), 1);
}
