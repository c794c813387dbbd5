//! Petasos's endpoint without the typed layer, for measuring the cost of that layer.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use petasos_base::Clock;
use petasos_endpoint::{
    Backend, Endpoint, EndpointConfig, LocalConfig, LocalIo, LocalPolicy, Node, NodeConfig, Polling,
};

use super::args::{Carrier, RpcArgs};
use super::ends::{Client, Server};
use super::phase::{Phase, Turn};
use super::stop::Stop;
use super::typed::polling;
use crate::error::BenchError;
use crate::load::{self, Load};
use petasos_cli::service::{SIZED, sized};

/// Slots of a session.
const SLOTS: usize = 8;

/// Opens the same kind of sockets as a loop.
fn open(args: &RpcArgs) -> Result<Backend, BenchError> {
    let local = match args.transport {
        Carrier::Udp => LocalPolicy::Never,
        Carrier::Auto => LocalPolicy::Auto,
    };
    let config = LocalConfig { local, ..LocalConfig::default() };
    let loopback = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    Ok(LocalIo::bind(loopback, &config)?.into())
}

/// The default configuration, except for how the loop waits.
fn config(sleeping: bool) -> EndpointConfig {
    EndpointConfig { polling: polling(sleeping), ..EndpointConfig::default() }
}

fn endpoint<S>(
    args: &RpcArgs,
    config: EndpointConfig,
    state: S,
) -> Result<Endpoint<S>, BenchError> {
    Ok(Endpoint::new(config, open(args)?, Clock::system(), state))
}

fn node(args: &RpcArgs, listen: Option<SocketAddr>) -> Result<Node, BenchError> {
    let tls = args.certificates()?.map(|certificates| certificates.datagrams());
    Ok(Node::start(NodeConfig { listen, tls, ..NodeConfig::default() })?)
}

/// The server's side.
pub struct DirectServer {
    endpoint: Endpoint<()>,
    address: SocketAddr,
    polling: Polling,
    _node: Node,
}

impl DirectServer {
    pub fn new(args: &RpcArgs, sleeping: bool) -> Result<DirectServer, BenchError> {
        DirectServer::configured(args, config(sleeping))
    }

    /// A server with this configuration.
    pub fn configured(args: &RpcArgs, config: EndpointConfig) -> Result<DirectServer, BenchError> {
        let loopback = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let node = node(args, Some(loopback))?;
        let polling = config.polling;
        let mut endpoint = endpoint(args, config, ())?;
        endpoint.register(SIZED, sized);
        endpoint.attach(&node)?;
        let address = node.local_address().ok_or("the node does not listen")?;
        Ok(DirectServer { endpoint, address, polling, _node: node })
    }
}

impl Server for DirectServer {
    fn addresses(&self) -> Vec<SocketAddr> {
        vec![self.address]
    }

    fn serve(&mut self, _: Phase, stop: &Stop) -> Result<Turn, BenchError> {
        while !stop.take() {
            if self.polling != Polling::Spin {
                // The end of the turn does not wake a sleeping loop, so the timeout is short.
                self.endpoint.run_for(Duration::from_millis(5), |_, _| false);
            } else {
                for _ in 0..64 {
                    self.endpoint.run_once();
                }
            }
        }
        Ok(Turn::default())
    }
}

/// The client's side: one endpoint per phase, because their windows differ.
pub struct DirectClient {
    node: Node,
    args: RpcArgs,
    config: EndpointConfig,
    endpoints: BTreeMap<Phase, Endpoint<Load>>,
}

impl DirectClient {
    pub fn new(args: &RpcArgs, sleeping: bool) -> Result<DirectClient, BenchError> {
        DirectClient::configured(args, config(sleeping))
    }

    /// A client with this configuration.
    pub fn configured(args: &RpcArgs, config: EndpointConfig) -> Result<DirectClient, BenchError> {
        let node = node(args, None)?;
        Ok(DirectClient { node, args: args.clone(), config, endpoints: BTreeMap::new() })
    }

    fn connect(&self, phase: Phase) -> Result<Endpoint<Load>, BenchError> {
        let (args, window) = (&self.args, self.window(phase));
        let server = *args.server.first().ok_or("--server names no server")?;
        let (request, response) = (args.size.max(4), args.response_bytes());
        let mut load = Load::new(request, response, window, phase != Phase::Window);
        load.adaptive = self.config.polling != Polling::Spin;
        let mut client = endpoint(args, self.config.clone(), load)?;
        client.attach(&self.node)?;
        for _ in 0..window.div_ceil(SLOTS) {
            let session = client.connect_and_wait(server, Duration::from_secs(5))?;
            client.state_mut().sessions.push(session);
        }
        load::prepare(&mut client, window)?;
        Ok(client)
    }

    fn window(&self, phase: Phase) -> usize {
        if phase == Phase::Window { self.args.window() } else { 1 }
    }
}

impl Client for DirectClient {
    fn turn(&mut self, phase: Phase, duration: Duration) -> Result<Turn, BenchError> {
        if !self.endpoints.contains_key(&phase) {
            let endpoint = self.connect(phase)?;
            self.endpoints.insert(phase, endpoint);
        }
        let endpoint = self.endpoints.get_mut(&phase).expect("it was just connected");
        let turn = load::turn(endpoint, duration)?;
        let (completed, elapsed_s, latency) = (turn.completed, turn.elapsed_s, turn.latency);
        Ok(Turn { completed, elapsed_s, latency, ..Turn::default() })
    }
}
