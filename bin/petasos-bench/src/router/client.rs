//! What makes the calls of a measurement: typed calls in this thread's loop, or HTTP requests.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use petasos::{Channel, Join, Loop, LoopConfig, Msg, Request, Security};
use petasos_base::{Rng, SystemClock, random_seed};
use petasos_cli::in_loop::InLoop;
use petasos_load::{Calls, Http, Target, TcpTarget};

use super::messages::generated::{Ask, WorkClient};
use super::workers::{self, BOUND};
use crate::error::BenchError;

/// How long connecting may take.
const CONNECT_MAX: Duration = Duration::from_secs(10);
/// How long a call may take.
const TIMEOUT: Duration = Duration::from_secs(30);
/// How long the loop spins before it sleeps.
const SPIN_US: u64 = 50;

/// A call as it is made each time.
#[derive(Clone, Debug)]
pub struct Asked {
    /// 0: as the worker's distribution says.
    pub sleep_ns: u64,
    pub wanted_bytes: u32,
    /// The request's own bytes.
    pub bytes: Bytes,
    /// Whether it asks for a worker first.
    pub asks_first: bool,
}

impl Asked {
    /// 8 bytes there and back.
    pub fn short(sleep_ns: u64) -> Asked {
        Asked { sleep_ns, wanted_bytes: 8, bytes: vec![1; 8].into(), asks_first: false }
    }

    pub fn message(&self) -> Msg<Ask> {
        let mut ask = Ask::new();
        let mut edit = ask.edit();
        edit.set_sleep_ns(self.sleep_ns);
        edit.set_wanted_bytes(self.wanted_bytes);
        edit.set_data(&self.bytes[..]);
        ask
    }
}

/// The loop of this thread, of which there is one.
#[derive(Clone)]
pub struct Client {
    event_loop: Rc<Loop>,
}

/// The most bytes of an answer of a loop that is a worker, too.
const OWN_ANSWER_BYTES_MAX: usize = 4096;

impl Client {
    /// Makes the loop.
    ///
    /// # Errors
    /// If it has no sockets.
    pub fn new() -> Result<Client, BenchError> {
        Ok(Client { event_loop: Rc::new(Loop::new(workers::config(SPIN_US))?) })
    }

    /// Makes one that is a worker as well, at an address of this host, and answers at once.
    ///
    /// # Errors
    /// If it has no sockets.
    pub fn that_serves(ip: IpAddr) -> Result<Client, BenchError> {
        let listen = Some(SocketAddr::new(ip, 0));
        // Who else it calls may be elsewhere.
        let any = Some(Ipv4Addr::UNSPECIFIED.into());
        let config = LoopConfig { listen, ip: any, ..workers::config(SPIN_US) };
        let event_loop = Rc::new(Loop::new(config)?);
        event_loop.serve(workers::at_once(OWN_ANSWER_BYTES_MAX))?;
        Ok(Client { event_loop })
    }

    /// Where its worker can be called.
    ///
    /// # Panics
    /// If it does not serve.
    pub fn address(&self) -> SocketAddr {
        let mut address = self.event_loop.local_address().expect("it serves");
        if address.ip().is_unspecified() {
            address.set_ip(Ipv4Addr::LOCALHOST.into());
        }
        address
    }

    /// Lets its worker join a router's group, and waits until it is a member.
    ///
    /// # Errors
    /// If the router does not take it.
    pub fn join(&self, router: SocketAddr) -> Result<(), BenchError> {
        self.event_loop.join(Join::new(workers::target(&[router])).bound(BOUND))?;
        let clock = SystemClock::default();
        let give_up_at = clock.now() + workers::JOIN_MAX;
        while !self.event_loop.routers().iter().all(|at| at.is_member) {
            if clock.now() > give_up_at {
                return Err("the router does not take the client's own worker".into());
            }
            self.event_loop.run_turns(1);
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// Calls to groups so far, and how many of these had a session with their worker: those that
    /// asked for one first, and few others.
    pub fn asked(&self) -> (u64, u64) {
        let pairs = self.event_loop.runtime().endpoint_stats().pairs;
        (pairs.asked, pairs.bound)
    }

    /// A stub of a group.
    ///
    /// # Errors
    /// If no router can be reached.
    pub fn group(&self, routers: &[SocketAddr]) -> Result<WorkClient, BenchError> {
        self.connect(&workers::target(routers))
    }

    /// A stub of each server.
    ///
    /// # Errors
    /// If one cannot be reached.
    pub fn servers(&self, servers: &[SocketAddr]) -> Result<Vec<WorkClient>, BenchError> {
        servers.iter().map(|server| self.connect(&format!("petasos://{server}"))).collect()
    }

    /// A channel to a group.
    ///
    /// # Errors
    /// If no router can be reached.
    pub fn channel_of(&self, routers: &[SocketAddr]) -> Result<Channel, BenchError> {
        self.channel(&workers::target(routers))
    }

    fn connect(&self, target: &str) -> Result<WorkClient, BenchError> {
        Ok(WorkClient::new(self.channel(target)?))
    }

    /// A channel to a server or a group.
    ///
    /// # Errors
    /// If nobody can be reached.
    pub fn channel(&self, target: &str) -> Result<Channel, BenchError> {
        let builder = Channel::builder(target).connect_timeout(CONNECT_MAX).timeout(TIMEOUT);
        let builder = builder.security(Security::Plaintext);
        Ok(self.event_loop.block_on(builder.connect())?)
    }

    /// Calls of this loop as a target of closed loops: those that are made in one turn leave
    /// together.
    ///
    /// # Errors
    /// If the system has no descriptor left.
    pub fn calls_in_turns<F: Future<Output = Result<(), String>> + 'static>(
        &self,
        make: impl FnMut() -> F + 'static,
        outstanding_max: u32,
    ) -> Result<Box<dyn Target>, BenchError> {
        let driver = InLoop::new(self.event_loop.clone())?;
        Ok(Box::new(Calls::new(make, driver, outstanding_max).lazy()))
    }

    /// Calls as a target of load, each by one of the stubs, at random.
    ///
    /// # Errors
    /// If the system has no descriptor left.
    pub fn target(
        &self,
        stubs: Vec<WorkClient>,
        asked: Asked,
        outstanding_max: u32,
    ) -> Result<Box<dyn Target>, BenchError> {
        let mut rng = Rng::new(random_seed());
        let make = move || {
            let stub = &stubs[rng.below(stubs.len() as u64) as usize];
            call(stub, &asked)
        };
        self.target_of(make, outstanding_max)
    }

    /// Whatever calls as a target of load. `make` begins a call.
    ///
    /// # Errors
    /// If the system has no descriptor left.
    pub fn target_of<F>(
        &self,
        make: impl FnMut() -> F + 'static,
        outstanding_max: u32,
    ) -> Result<Box<dyn Target>, BenchError>
    where
        F: Future<Output = Result<(), String>> + 'static,
    {
        let driver = InLoop::new(self.event_loop.clone())?;
        Ok(Box::new(Calls::new(make, driver, outstanding_max)))
    }
}

/// Begins a call at once, so that the loop's next turn sends it. The future waits for the answer.
fn call(stub: &WorkClient, asked: &Asked) -> impl Future<Output = Result<(), String>> + use<> {
    let request = Request::new(asked.message());
    let wanted = asked.wanted_bytes as usize;
    let call = if asked.asks_first { stub.put(request) } else { stub.get(request) };
    async move {
        let answer = call.await.map_err(|status| status.to_string())?;
        match answer.data().len() {
            bytes if bytes == wanted => Ok(()),
            bytes => Err(format!("an answer has {bytes} bytes")),
        }
    }
}

/// HTTP requests as a target of load, each to one of the servers, at random.
///
/// # Errors
/// If a server cannot be reached.
pub fn http(
    servers: &[SocketAddr],
    asked: &Asked,
    outstanding_max: u32,
) -> Result<Box<dyn Target>, BenchError> {
    let path = format!("/{}/{}", asked.sleep_ns, asked.wanted_bytes);
    http_of(servers, &[&path], outstanding_max)
}

/// The same, for each of these paths in turn.
///
/// # Errors
/// As of [`http`].
pub fn http_of(
    servers: &[SocketAddr],
    paths: &[&str],
    outstanding_max: u32,
) -> Result<Box<dyn Target>, BenchError> {
    let http = Http::get_each(&servers[0].to_string(), paths, &[])?;
    let connections = outstanding_max as usize;
    let target = match servers {
        [_] => TcpTarget::connect(http, servers, connections, CONNECT_MAX),
        _ => TcpTarget::connect_at_random(http, servers, connections, CONNECT_MAX),
    };
    Ok(Box::new(target?))
}
