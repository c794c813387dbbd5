//! A key-value server with one loop, for a chapter's example.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread::JoinHandle;

use petasos_endpoint::{Clock, Endpoint, EndpointConfig, Node, NodeConfig, Notifier};
use petasos_kv::{Owner, Seat, Service};
use petasos_netio_udp::{UdpConfig, UdpIo};
use petasos_store::{Config, Mode};

/// A server on a thread of its own, which ends with this.
pub struct KvServer {
    address: SocketAddr,
    notifier: Notifier,
    thread: Option<JoinHandle<()>>,
    is_wanted: Arc<()>,
}

impl KvServer {
    /// Starts one at a port that the system chooses.
    ///
    /// # Panics
    /// If loopback has no ports.
    pub fn start() -> KvServer {
        let config = Config::for_items(Mode::Store, 1000, 16, 100);
        let (service, mut seats) = Service::new(&config, 1).expect("there can be such a table");
        let seat = seats.pop().expect("there is one loop");
        let (ready, started) = channel();
        let is_wanted = Arc::new(());
        let wanted = Arc::downgrade(&is_wanted);
        let thread = std::thread::spawn(move || {
            let (mut endpoint, node) = open(seat);
            let address = node.local_address().expect("it listens");
            let notifier = endpoint.notifier().expect("there are descriptors");
            ready.send((address, notifier)).expect("it is waited for");
            endpoint.run(|_, _| wanted.strong_count() == 0);
        });
        let (address, notifier) = started.recv().expect("the loop starts");
        service.set_addresses(vec![address]);
        KvServer { address, notifier, thread: Some(thread), is_wanted }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

fn open(seat: Seat) -> (Endpoint<Owner>, Node) {
    let any_port: SocketAddr = "127.0.0.1:0".parse().expect("it is an address");
    let config = NodeConfig { listen: Some(any_port), ..NodeConfig::default() };
    let node = Node::start(config).expect("loopback has ports");
    let io = UdpIo::bind(any_port, UdpConfig::default()).expect("loopback has ports");
    let opened = seat.open(EndpointConfig::default(), io, Clock::system());
    let mut endpoint = opened.expect("there are descriptors");
    endpoint.attach(&node).expect("the node runs");
    (endpoint, node)
}

impl Drop for KvServer {
    fn drop(&mut self) {
        self.is_wanted = Arc::new(());
        self.notifier.notify();
        if let Some(thread) = self.thread.take() {
            // One that panicked has said so.
            let _ = thread.join();
        }
    }
}
