//! What a server and a client of typed calls are made of: a loop on the only busy thread of the
//! process.

use std::net::SocketAddr;

use petasos::rt::Service;
use petasos::{Channel, Loop, LoopConfig};

use super::ends::Server;
use super::pace::Count;
use super::phase::{Phase, Turn};
use super::stop::Stop;
use crate::error::BenchError;

/// A loop that serves.
pub struct LoopServer {
    event_loop: Loop,
    address: SocketAddr,
}

impl LoopServer {
    /// Serves one service.
    ///
    /// # Errors
    /// If the address is taken, or the managed service refuses.
    pub fn start(config: LoopConfig, service: impl Service) -> Result<LoopServer, BenchError> {
        let event_loop = Loop::new(config)?;
        event_loop.serve(service)?;
        let address = event_loop.local_address().ok_or("the loop does not listen")?;
        event_loop.block_on(event_loop.served())?;
        Ok(LoopServer { event_loop, address })
    }
}

impl Server for LoopServer {
    fn addresses(&self) -> Vec<SocketAddr> {
        vec![self.address]
    }

    fn serve(&mut self, _: Phase, stop: &Stop) -> Result<Turn, BenchError> {
        self.event_loop.block_on(stop.raised());
        Ok(Turn::default())
    }
}

/// A loop that calls a server.
pub struct LoopClient {
    pub event_loop: Loop,
    pub channel: Channel,
}

impl LoopClient {
    /// A client of a server, to which it connects when it calls.
    ///
    /// # Errors
    /// If the loop cannot be made.
    pub fn new(config: LoopConfig, server: SocketAddr) -> Result<LoopClient, BenchError> {
        let event_loop = Loop::new(config)?;
        let channel = event_loop.channel(server);
        Ok(LoopClient { event_loop, channel })
    }

    /// A client of a gRPC server, which the managed service of the loop calls.
    ///
    /// # Errors
    /// If the loop cannot be made.
    pub fn of_grpc(config: LoopConfig, server: SocketAddr) -> Result<LoopClient, BenchError> {
        let event_loop = Loop::new(config)?;
        // The loop of this thread.
        let channel = Channel::builder(&format!("grpc://{server}")).connect_lazily()?;
        Ok(LoopClient { event_loop, channel })
    }

    /// Runs callers, each with its own clone of a stub, until all have ended. Gives what each has
    /// counted.
    ///
    /// # Errors
    /// The first caller's that has failed.
    pub fn run<S: Clone, F>(
        &self,
        callers: usize,
        stub: &S,
        caller: impl Fn(S) -> F,
    ) -> Result<Vec<Count>, BenchError>
    where
        F: Future<Output = Result<Count, String>> + 'static,
    {
        let calls = (0..callers).map(|_| self.event_loop.spawn(caller(stub.clone())));
        let calls: Vec<_> = calls.collect();
        self.event_loop.block_on(async {
            let mut counts = Vec::new();
            for call in calls {
                counts.push(call.await.ok_or("a caller has panicked")??);
            }
            Ok(counts)
        })
    }
}
