//! Servers of the tests' service, each the only worker of a group, and channels to their groups.
#![allow(dead_code, reason = "each test file uses its own part")]

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Mutex;

use petasos::{Join, Server, ServerBuilder, block_on};

pub use crate::routers::Router;

#[path = "../servers/mod.rs"]
mod direct;

use crate::greeter::generated::GreeterClient;
use crate::greeter::{Service, blob};
pub use direct::{connect, release, runtime, until};

/// The routers of the servers of this program, by the servers' addresses.
static ROUTERS: Mutex<Option<HashMap<SocketAddr, Router>>> = Mutex::new(None);

/// RT13: first packets are repeated if no answer comes soon.
pub const MAY_RUN_AGAIN: bool = true;

pub fn start(service: &Service) -> Server {
    let router = Router::start();
    let join = Join::new(router.target()).bound(4095);
    let server = direct::builder(service).join(join).start().expect("loopback has ports");
    until_served(&router.target());
    let address = server.local_address().expect("it listens");
    let mut routers = ROUTERS.lock().expect("no test panics under the lock");
    routers.get_or_insert_default().insert(address, router);
    server
}

/// A server that joins the router's group, and is a member when this returns.
pub fn join(service: &Service, router: &Router) -> Server {
    let server = builder(service, router).start().expect("loopback has ports");
    until_served(&router.target());
    server
}

pub fn builder(service: &Service, router: &Router) -> ServerBuilder {
    builder_with(service, Join::new(router.target()))
}

pub fn builder_with(service: &Service, join: Join) -> ServerBuilder {
    direct::builder(service).join(join)
}

/// Waits until a group has a worker.
pub fn until_served(target: &str) {
    let client = GreeterClient::new(connect(target));
    until(|| block_on(client.echo(blob(b"is anybody there?"))).is_ok());
}

pub fn target(server: &Server) -> String {
    let address = server.local_address().expect("it listens");
    let routers = ROUTERS.lock().expect("no test panics under the lock");
    routers.as_ref().and_then(|routers| routers.get(&address)).expect("it was started").target()
}

pub fn client(server: &Server) -> GreeterClient {
    GreeterClient::new(connect(&target(server)))
}
