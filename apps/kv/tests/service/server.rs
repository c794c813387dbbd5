//! A server whose loops are threads of the test, and its clients.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use petasos_base::sync::{AtomicBool, Ordering};
use petasos_endpoint::{Clock, Endpoint, EndpointConfig, Node, NodeConfig, Notifier};
use petasos_kv::{Answers, Client, Seat, Service};
use petasos_netio_udp::{UdpConfig, UdpIo};
use petasos_store::{Config, Mode};

const LOOPBACK: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
/// Longer than anything in these tests takes.
pub const PATIENCE: Duration = Duration::from_secs(30);

fn node(listen: Option<SocketAddr>) -> Node {
    let config = NodeConfig { listen, ..NodeConfig::default() };
    Node::start(config).expect("loopback has free ports")
}

fn udp() -> UdpIo {
    UdpIo::bind(LOOPBACK, UdpConfig::default()).expect("loopback has free ports")
}

pub struct Server {
    pub service: Service,
    /// Of its loops.
    pub addresses: Vec<SocketAddr>,
    is_over: Arc<AtomicBool>,
    loops: Vec<(Notifier, JoinHandle<()>)>,
}

pub fn config(mode: Mode, partitions: u16) -> Config {
    let log_bytes = u64::from(partitions) << 20;
    let usual = Config::for_items(mode, 10_000, 16, 32);
    Config { partitions, log_bytes, value_bytes_max: 4096, ..usual }
}

impl Server {
    pub fn start(config: &Config, loops: u16) -> Server {
        let (service, seats) = Service::new(config, loops).expect("there can be such a table");
        let is_over = Arc::new(AtomicBool::new(false));
        let started = seats.into_iter().map(|seat| start_loop(seat, is_over.clone()));
        let (addresses, loops): (Vec<_>, Vec<_>) = started.unzip();
        service.set_addresses(addresses.clone());
        Server { service, addresses, is_over, loops }
    }

    /// A client that begins at this loop.
    pub fn client(&self, of: usize) -> (Client, Node) {
        let (endpoint, node) = endpoint(Answers::default());
        let client = Client::connect(endpoint, self.addresses[of], PATIENCE);
        (client.expect("the server listens"), node)
    }

    /// A client that asks this loop alone.
    pub fn client_of_one(&self, of: usize) -> (Client, Node) {
        let (endpoint, node) = endpoint(Answers::default());
        let client = Client::connect_to_one(endpoint, self.addresses[of], PATIENCE);
        (client.expect("the server listens"), node)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Release);
        for (notifier, thread) in self.loops.drain(..) {
            notifier.notify();
            let ended = thread.join();
            assert!(ended.is_ok() || std::thread::panicking(), "no loop fails");
        }
    }
}

fn start_loop(seat: Seat, is_over: Arc<AtomicBool>) -> (SocketAddr, (Notifier, JoinHandle<()>)) {
    let (ready, started) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        let node = node(Some(LOOPBACK));
        let endpoint = seat.open(EndpointConfig::default(), udp(), Clock::system());
        let mut endpoint = endpoint.expect("there are descriptors");
        endpoint.attach(&node).expect("the node runs");
        let notifier = endpoint.notifier().expect("there are descriptors");
        let address = node.local_address().expect("it listens");
        ready.send((address, notifier)).expect("the test waits");
        endpoint.run(|_, _| is_over.load(Ordering::Acquire));
    });
    let (address, notifier) = started.recv().expect("the loop starts");
    (address, (notifier, thread))
}

/// An endpoint of a client.
pub fn endpoint<S>(state: S) -> (Endpoint<S>, Node) {
    let node = node(None);
    let mut endpoint = Endpoint::new(EndpointConfig::default(), udp(), Clock::system(), state);
    endpoint.attach(&node).expect("the node runs");
    (endpoint, node)
}
