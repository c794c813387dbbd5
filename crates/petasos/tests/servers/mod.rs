//! Servers of the tests' service, and waiting for what other threads do.
#![allow(dead_code, reason = "each test file uses its own part")]

mod until;

use std::time::Duration;

use petasos::{Channel, Server, ServerBuilder, block_on};

#[allow(unused_imports, reason = "each test file uses its own part")]
pub use until::until;

use crate::greeter::Service;
use crate::greeter::generated::{GreeterClient, GreeterServer};

/// How long anything may take before a test gives up.
pub const PATIENCE: Duration = Duration::from_secs(50);

/// Whether methods without side effects may run more than once for one call.
pub const MAY_RUN_AGAIN: bool = false;

pub fn builder(service: &Service) -> ServerBuilder {
    Server::builder().add(GreeterServer::new(service.clone())).listen("127.0.0.1:0")
}

pub fn start(service: &Service) -> Server {
    builder(service).start().expect("loopback has ports")
}

pub fn target(server: &Server) -> String {
    format!("petasos://{}", server.local_address().expect("it listens"))
}

pub fn connect(target: &str) -> Channel {
    block_on(Channel::connect(target)).expect("the server is up")
}

pub fn client(server: &Server) -> GreeterClient {
    GreeterClient::new(connect(&target(server)))
}

/// Lets held handlers go on.
pub fn release(service: &Service) {
    let held = {
        let mut seen = service.seen();
        seen.release = true;
        std::mem::take(&mut seen.held)
    };
    held.into_iter().for_each(std::task::Waker::wake);
}

/// A Tokio runtime with so many threads.
pub fn runtime(threads: usize) -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(threads).enable_all().build().expect("a runtime starts")
}
