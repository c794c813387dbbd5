//! Servers that join groups of workers.

use std::net::SocketAddr;

use petasos_endpoint::{Node, ServeConfig};
use petasos_rpc::settings::{Resolver, Routers};

use super::error::StartError;

/// How a server joins a group of workers: the group's routers give it requests. Each of its loops
/// is a worker.
///
/// ```
/// # use petasos::Join;
/// let join = Join::new("router://10.0.0.1:7000,10.0.0.2:7000").bound(3);
/// ```
#[derive(Debug)]
#[must_use = "it is for `ServerBuilder::join`"]
pub struct Join {
    target: String,
    /// Finds the routers instead of the target.
    resolver: Option<Box<dyn Resolver>>,
    bound: u16,
    idle_threads: Option<u16>,
    weight: u16,
    is_primary: bool,
}

impl Join {
    /// The group with these routers: `router://HOST:PORT[,HOST:PORT…]`, at most 8. Names are looked
    /// up again every 30 s: routers that come are joined, and those that are gone are left.
    pub fn new(target: impl Into<String>) -> Join {
        let ServeConfig { bound, weight, is_primary, .. } = ServeConfig::default();
        let target = target.into();
        Join { target, resolver: None, bound, idle_threads: None, weight, is_primary }
    }

    /// Uses `resolver` to find the routers, at most 8. The target is then only a name for them. The
    /// server starts without waiting for the resolver, joins routers when it finds them, and leaves
    /// those that are gone. While it finds none, or fails, the server stays with those it has.
    pub fn resolver(mut self, resolver: impl Resolver) -> Join {
        self.resolver = Some(Box::new(resolver));
        self
    }

    /// Sets how many requests each loop takes at a time from each router, 1 to 4095; the default is
    /// 16. The router's policy may give fewer.
    pub fn bound(mut self, requests: u16) -> Join {
        self.bound = requests;
        self
    }

    /// Lets each loop choose how many requests it takes at a time from its idle time, up to
    /// [`Join::bound`]: as few as keep so many threads busy that run its handlers (1: the loop
    /// itself; with handlers on workers, those of the server divided by its loops). So requests
    /// wait at the router, which gives them to whoever is free first. The handlers should compute:
    /// to those that wait for others, too few would be given.
    pub fn by_idle_time(mut self, threads: u16) -> Join {
        self.idle_threads = Some(threads);
        self
    }

    /// Sets the part of the requests that each loop gets, in percent of what a worker of full
    /// weight gets: 1 to 100, which is the default. If one worker is to get three times as much as
    /// the others, these have the weight 33.
    pub fn weight(mut self, weight: u16) -> Join {
        self.weight = weight;
        self
    }

    /// Joins as primary, for calls that are routed to that one.
    pub fn primary(mut self) -> Join {
        self.is_primary = true;
        self
    }

    /// The routers, and their addresses as far as they are known. This is asked once.
    pub(crate) fn look_up(&mut self) -> Result<(Routers, Vec<SocketAddr>), StartError> {
        if self.bound == 0 || self.idle_threads == Some(0) {
            return Err(StartError::JoinBound);
        }
        // More would count as 100 at the router, and 0 as 1.
        if !(1..=100).contains(&self.weight) {
            return Err(StartError::JoinWeight(self.weight));
        }
        let routers = match self.resolver.take() {
            Some(resolver) => Routers::Resolved(resolver),
            None => Routers::parse(&self.target)?,
        };
        let found = routers.look_up();
        let found = found.map_err(|error| StartError::Address(self.target.clone(), error))?;
        Ok((routers, found))
    }

    /// What the loops of a server are told.
    pub(crate) fn config(&self, routers: Vec<SocketAddr>, node: &Node) -> ServeConfig {
        ServeConfig {
            routers,
            bound: self.bound,
            idle_threads: self.idle_threads,
            weight: self.weight,
            is_primary: self.is_primary,
            dial_port: node.local_address().map(|address| address.port()),
            methods: None,
        }
    }
}

impl From<&str> for Join {
    fn from(target: &str) -> Join {
        Join::new(target)
    }
}

impl From<String> for Join {
    fn from(target: String) -> Join {
        Join::new(target)
    }
}
