//! Workers: servers of typed calls, each with one loop, that join groups and can be called directly
//! as well.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use petasos::{Join, LoopConfig, Request, Response, Security, Server, Status, block_on};
use petasos_base::random_seed;
use petasos_base::sync::{AtomicU64, Ordering};
use petasos_endpoint::{LocalPolicy, Polling};
use petasos_pacing::Deadlines;
use petasos_queueing::Service;

use super::messages::generated::{Answer, Ask, Work, WorkServer};
use super::part_args::{PartArgs, say};
use super::sleeping::{Queue, Times};
use crate::error::BenchError;

/// What a worker says it takes at a time. The router's policy gives fewer.
pub const BOUND: u16 = 512;
/// The most bytes of an answer.
const ANSWER_BYTES_MAX: usize = 8 << 20;
/// From here on, bytes are shared and not copied.
const SHARED_BYTES_MIN: usize = 4096;
/// How long workers may take to become members.
pub(super) const JOIN_MAX: Duration = Duration::from_secs(20);
/// How long they may take to end what they have begun.
const GRACE: Duration = Duration::from_secs(5);

/// Running workers.
pub struct Workers {
    /// Where they can be called directly.
    pub addresses: Vec<SocketAddr>,
    servers: Vec<Server>,
    ran: Arc<AtomicU64>,
}

struct Worker {
    queue: Mutex<Queue>,
    deadlines: Arc<Deadlines>,
    bytes: Bytes,
    ran: Arc<AtomicU64>,
    tells: bool,
}

impl Work for Worker {
    async fn get(&self, request: Request<Ask>) -> Result<Response<Answer>, Status> {
        self.serve(&request).await
    }

    async fn put(&self, request: Request<Ask>) -> Result<Response<Answer>, Status> {
        if self.tells {
            let what = String::from_utf8_lossy(request.data()).into_owned();
            say(&format!("ran {what}")).map_err(|error| Status::internal(error.to_string()))?;
        }
        self.serve(&request).await
    }
}

impl Worker {
    async fn serve(&self, request: &Ask) -> Result<Response<Answer>, Status> {
        let now = self.deadlines.now();
        self.ran.fetch_add(1, Ordering::Relaxed);
        let queue = self.queue.lock();
        let at = queue.unwrap_or_else(PoisonError::into_inner).answered_at(now, request.sleep_ns());
        if at > now {
            self.deadlines.until(at).await;
        }
        self.answer(request)
    }

    fn answer(&self, request: &Ask) -> Result<Response<Answer>, Status> {
        let wanted = request.wanted_bytes() as usize;
        if wanted > self.bytes.len() {
            return Err(Status::invalid_argument("more bytes than there are"));
        }
        let mut answer = Answer::new();
        let mut edit = answer.edit();
        match wanted {
            ..SHARED_BYTES_MIN => edit.set_data(&self.bytes[..wanted]),
            _ => edit.set_data(self.bytes.slice(..wanted)),
        };
        Ok(Response::new(answer))
    }
}

/// A service that answers at once, with so many bytes at most.
pub fn at_once(answer_bytes_max: usize) -> WorkServer<impl Work> {
    let times = Times { service: Service::Deterministic, mean_ns: 0, way_ns: 0 };
    WorkServer::new(Worker {
        queue: Mutex::new(Queue::new(times, random_seed())),
        deadlines: Deadlines::start(),
        bytes: vec![2; answer_bytes_max].into(),
        ran: Arc::default(),
        tells: false,
    })
}

/// Starts workers, and waits until all routers have them as members.
///
/// # Errors
/// If one cannot serve, or no router takes it.
pub fn start(args: &PartArgs) -> Result<Workers, BenchError> {
    let (deadlines, ran) = (Deadlines::start(), Arc::new(AtomicU64::new(0)));
    let bytes = Bytes::from(vec![2; ANSWER_BYTES_MAX]);
    let mut servers = Vec::new();
    for _ in 0..args.workers {
        let worker = Worker {
            queue: Mutex::new(Queue::new(args.times(), random_seed())),
            deadlines: deadlines.clone(),
            bytes: bytes.clone(),
            ran: ran.clone(),
            tells: args.tells,
        };
        let listen = SocketAddr::new(args.ip, 0).to_string();
        let mut server = Server::builder().add(WorkServer::new(worker)).listen(&listen);
        if !args.router.is_empty() {
            server = server.join(Join::new(target(&args.router)).bound(args.bound));
        }
        servers.push(server.loop_config(config(args.spin_us)).start()?);
    }
    wait_until_members(&servers, &deadlines)?;
    let addresses = servers.iter().filter_map(Server::local_address).collect();
    Ok(Workers { addresses, servers, ran })
}

impl Workers {
    /// Leaves the groups, and ends what was begun.
    pub fn end(&self) {
        for server in &self.servers {
            block_on(server.drain(GRACE));
        }
    }

    /// How many requests were run.
    pub fn run(&self) -> u64 {
        self.ran.load(Ordering::Relaxed)
    }
}

/// The target of a group.
pub fn target(routers: &[SocketAddr]) -> String {
    let routers: Vec<_> = routers.iter().map(SocketAddr::to_string).collect();
    format!("router://{}", routers.join(","))
}

/// The configuration of a loop that talks to others by sockets only.
pub fn config(spin_us: u64) -> LoopConfig {
    // Networks are of the measurement alone.
    let mut config = LoopConfig { security: Security::Plaintext, ..LoopConfig::default() };
    config.io.local = LocalPolicy::Never;
    config.endpoint.polling = Polling::Adaptive { spin: Duration::from_micros(spin_us) };
    config
}

fn wait_until_members(servers: &[Server], deadlines: &Deadlines) -> Result<(), BenchError> {
    let give_up_at = deadlines.now() + JOIN_MAX;
    loop {
        let at_routers: Vec<_> = servers.iter().flat_map(Server::routers).collect();
        if at_routers.iter().all(|at| at.is_member) {
            return Ok(());
        }
        if deadlines.now() > give_up_at {
            let failed = at_routers.iter().find(|at| !at.is_member);
            let reason = failed.map(|at| format!("{:?}", at.failure)).unwrap_or_default();
            return Err(format!("a router does not take a worker: {reason}").into());
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}
