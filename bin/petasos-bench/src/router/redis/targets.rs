//! Requests of a mix, as targets of load.

use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::time::Duration;

use petasos::{Request, Routing};
use petasos_base::{Rng, random_seed};
use petasos_load::{Answers, Protocol, Reply, Resp, Target, TargetError, TcpTarget};
use petasos_redis::{RedisClient, encode};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::nodes::{KEYS, Nodes, commands};
use super::{BenchError, Client, Mix};

const CONNECT_MAX: Duration = Duration::from_secs(10);
/// Connections to each node for reads, and to the primary for writes. With more requests than
/// these, TCP clients pipeline, which is cheaper for them than more connections.
const CONNECTIONS: usize = 32;
const WRITE_CONNECTIONS: usize = 8;

/// Connects a client.
///
/// # Errors
/// If nobody answers.
pub fn connect(
    client: &Client,
    nodes: &Nodes,
    mix: Mix,
    outstanding_max: usize,
) -> Result<Box<dyn Target>, BenchError> {
    match &nodes.router {
        None => Ok(Box::new(AtRandom::connect(&nodes.addresses, mix, outstanding_max)?)),
        Some(router) => routed(client, &[router.address], mix, outstanding_max),
    }
}

fn routed(
    client: &Client,
    routers: &[SocketAddr],
    mix: Mix,
    outstanding_max: usize,
) -> Result<Box<dyn Target>, BenchError> {
    let stub = RedisClient::new(client.channel_of(routers)?);
    let all: Vec<_> = (0..KEYS).map(commands).collect();
    let mut rng = Rng::new(random_seed());
    let make = move || {
        let [get, set] = &all[rng.below(KEYS as u64) as usize];
        let call = match rng.below(1000) < mix.writes_per_1000 {
            false => stub.read(Request::new(encode([&get[..]]))),
            true => {
                let request = Request::new(encode([&set[..]]));
                stub.write(request.with_routing(Routing::to_primary()))
            }
        };
        async move {
            let replies = call.await.map_err(|status| status.to_string())?;
            match replies.resp().first() {
                Some(b'$' | b'+') => Ok(()),
                _ => Err(String::from_utf8_lossy(replies.resp()).into_owned()),
            }
        }
    };
    client.calls_in_turns(make, outstanding_max as u32)
}

/// Commands that follow each other in turn.
struct Cycle {
    commands: Vec<Vec<u8>>,
    next: usize,
}

impl Protocol for Cycle {
    type Reader = <Resp as Protocol>::Reader;
    const OUTSTANDING_MAX: usize = Resp::OUTSTANDING_MAX;

    fn request(&mut self) -> &[u8] {
        let at = self.next;
        self.next = (at + 1) % self.commands.len();
        &self.commands[at]
    }

    fn read(reader: &mut Self::Reader, input: &[u8]) -> Result<(usize, Option<Reply>), String> {
        Resp::read(reader, input)
    }

    fn read_end(reader: &mut Self::Reader) -> Option<Reply> {
        Resp::read_end(reader)
    }
}

/// TCP clients that read from any node, and write to the primary.
struct AtRandom {
    reads: Vec<TcpTarget<Cycle>>,
    writes: TcpTarget<Cycle>,
    writes_per_1000: u64,
    outstanding_max: usize,
    rng: Rng,
}

impl AtRandom {
    fn connect(
        nodes: &[SocketAddr],
        mix: Mix,
        outstanding_max: usize,
    ) -> Result<AtRandom, BenchError> {
        let cycle = |which: usize, from: usize| {
            let of = |number| commands((number + from) % KEYS)[which].clone();
            Cycle { commands: (0..KEYS).map(of).collect(), next: 0 }
        };
        let reads = nodes.iter().enumerate().map(|(at, node)| {
            let cycle = cycle(0, at * KEYS / nodes.len());
            TcpTarget::connect(cycle, &[*node], CONNECTIONS, CONNECT_MAX)
        });
        let writes = [nodes[0]];
        let writes = TcpTarget::connect(cycle(1, 0), &writes, WRITE_CONNECTIONS, CONNECT_MAX)?;
        Ok(AtRandom {
            reads: reads.collect::<Result<_, _>>()?,
            writes,
            writes_per_1000: mix.writes_per_1000,
            outstanding_max,
            rng: Rng::new(random_seed()),
        })
    }
}

impl Target for AtRandom {
    fn outstanding_max(&self) -> usize {
        // Fewer than each part takes: so the number of a slot is free in each.
        self.outstanding_max.min(self.writes.outstanding_max())
    }

    fn send(&mut self, slot: u32) -> Result<(), TargetError> {
        if self.rng.below(1000) < self.writes_per_1000 {
            return self.writes.send(slot);
        }
        let node = self.rng.below(self.reads.len() as u64) as usize;
        self.reads[node].send(slot)
    }

    fn poll(&mut self, answers: &mut Answers) -> Result<(), TargetError> {
        self.reads.iter_mut().try_for_each(|part| part.poll(answers))?;
        self.writes.poll(answers)
    }

    fn wait(&mut self, timeout: Duration) {
        let all = self.reads.iter().chain([&self.writes]);
        let mut fds: Vec<_> =
            all.map(|part| PollFd::from_borrowed_fd(part.as_fd(), PollFlags::IN)).collect();
        let timeout = Timespec {
            tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: timeout.subsec_nanos().into(),
        };
        // Whatever ends it early is found out by who reads.
        let _ = poll(&mut fds, Some(&timeout));
    }
}
