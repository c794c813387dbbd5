//! A router, workers and a gateway on one link, and a client behind the gateway, each a network
//! namespace.
//!
//! ```text
//! router v0 ─┐
//! workers v0 ─┤ bridge ├─ v0 gateway v1 ── v0 client
//! ```

use std::net::IpAddr;

use crate::namespace::Namespace;

pub struct Network {
    pub router: Namespace,
    pub workers: Namespace,
    pub client: Namespace,
    _gateway: Namespace,
    _switch: Namespace,
}

impl Network {
    /// The network, or `None` if this system gives none; the skip is recorded.
    pub fn new() -> Option<Network> {
        Network::with_queues(1)
    }

    /// The same; the router's interface has so many queues.
    pub fn with_queues(queues: u32) -> Option<Network> {
        let made: Result<Vec<_>, _> = (0..5).map(|_| Namespace::new()).collect();
        let made = made.map_err(|error| {
            petasos_skips::skip("root", format!("cannot make a network namespace: {error}"));
        });
        let made: [Namespace; 5] = made.ok()?.try_into().ok().expect("there are five");
        let [router, workers, client, gateway, switch] = made;
        switch.ip("link add bridge type bridge forward_delay 0 mcast_snooping 0");
        switch.ip("link set bridge up");
        for (host, number) in [(&router, 1), (&workers, 2), (&gateway, 254)] {
            let path = switch.path();
            let queues = format!("numrxqueues {queues} numtxqueues {queues}");
            // As many at both ends: else the driver takes no program.
            let peer = format!("type veth peer name port{number} {queues}");
            host.ip(&format!("link add v0 {queues} {peer} netns {path}"));
            switch.ip(&format!("link set port{number} master bridge up"));
            configure(host, "v0", &format!("10.78.0.{number}/24"));
        }
        client.ip(&format!("link add v0 type veth peer name v1 netns {}", gateway.path()));
        configure(&gateway, "v1", "10.79.0.254/24");
        configure(&client, "v0", "10.79.0.1/24");
        client.ip("route add default via 10.79.0.254");
        for host in [&router, &workers] {
            host.ip("route add 10.79.0.0/24 via 10.78.0.254");
        }
        Some(Network { router, workers, client, _gateway: gateway, _switch: switch })
    }

    /// Addresses of router, workers and client.
    pub fn addresses() -> [IpAddr; 3] {
        ["10.78.0.1", "10.78.0.2", "10.79.0.1"].map(|ip| ip.parse().expect("it is one"))
    }
}

fn configure(host: &Namespace, name: &str, address: &str) {
    host.ip(&format!("addr add {address} dev {name}"));
    host.ask_neighbours_often(name);
    host.ip(&format!("link set {name} up"));
}
