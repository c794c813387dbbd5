//! One queue in a process, which its threads share: what a router is compared with.
//!
//! As many threads as there are workers elsewhere sleep through service times, each one request at
//! a time, as if each had a core. Requests come to whichever thread is free: by Petasos' own
//! dispatcher, or by Tokio, whose threads steal tasks from each other.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use petasos::{Placement, Request, Response, Server, Status};
use petasos_base::sync::{AtomicU64, Ordering};
use petasos_base::{Rng, SystemClock, random_seed};
use petasos_pacing::wake_up_in_time;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};

use super::http::{Asked, parse};
use super::messages::SERVICE;
use super::messages::generated::{Answer, Ask, Work, WorkServer};
use super::part_args::PartArgs;
use super::sleeping::Times;
use super::workers;
use crate::error::BenchError;

/// The most requests that wait or run.
const CALLS_MAX: usize = 4096;
/// A request is no longer.
const HEAD_BYTES_MAX: usize = 16 << 10;

/// Threads that each sleep through one request at a time.
#[derive(Clone)]
struct Threads {
    times: Times,
    rng: Arc<Mutex<Rng>>,
    ran: Arc<AtomicU64>,
}

impl Threads {
    fn new(times: Times) -> Threads {
        let rng = Arc::new(Mutex::new(Rng::new(random_seed())));
        Threads { times, rng, ran: Arc::default() }
    }

    /// Keeps this thread for as long as a request takes.
    fn serve(&self, sleep_ns: u64) {
        self.ran.fetch_add(1, Ordering::Relaxed);
        let drawn = || {
            let mut rng = self.rng.lock().unwrap_or_else(PoisonError::into_inner);
            (self.times.service.sample(&mut rng) * self.times.mean_ns as f64) as u64
        };
        let takes_ns = if sleep_ns > 0 { sleep_ns } else { drawn() };
        // The clock says when it is over: a sleep may end early.
        let clock = SystemClock::default();
        let end = clock.now().plus_nanos(takes_ns);
        wake_up_in_time();
        while clock.now() < end {
            std::thread::sleep(end - clock.now());
        }
    }
}

/// A running process.
pub struct Pool {
    pub addresses: Vec<SocketAddr>,
    ran: Arc<AtomicU64>,
    /// What ends with it.
    _serving: Serving,
}

enum Serving {
    Petasos { _server: Server },
    Tokio { _runtime: Runtime },
}

impl Pool {
    /// How many requests were run.
    pub fn run(&self) -> u64 {
        self.ran.load(Ordering::Relaxed)
    }
}

impl Work for Threads {
    async fn get(&self, request: Request<Ask>) -> Result<Response<Answer>, Status> {
        self.serve(request.sleep_ns());
        let mut answer = Answer::new();
        answer.edit().set_data(&vec![2; request.wanted_bytes() as usize][..]);
        Ok(Response::new(answer))
    }

    async fn put(&self, request: Request<Ask>) -> Result<Response<Answer>, Status> {
        self.get(request).await
    }
}

/// Petasos' dispatcher: one loop, whose handlers run on threads.
///
/// # Errors
/// If it cannot serve.
pub fn dispatcher(args: &PartArgs) -> Result<Pool, BenchError> {
    let threads = Threads::new(args.times());
    let ran = threads.ran.clone();
    let server = Server::builder()
        .add(WorkServer::new(threads))
        .place(&format!("{SERVICE}/Get"), Placement::Worker)
        .worker_threads(args.workers)
        .worker_calls_max(CALLS_MAX)
        .listen("127.0.0.1:0")
        .loop_config(workers::config(args.spin_us))
        .start()?;
    let addresses = server.local_address().into_iter().collect();
    Ok(Pool { addresses, ran, _serving: Serving::Petasos { _server: server } })
}

/// Tokio's threads, with HTTP/1.1 as [`http`](super::http) has it.
///
/// # Errors
/// If it cannot serve.
pub fn tokio(args: &PartArgs) -> Result<Pool, BenchError> {
    let threads = Threads::new(args.times());
    let ran = threads.ran.clone();
    let runtime = Builder::new_multi_thread().worker_threads(args.workers).enable_io().build()?;
    let listener = runtime.block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)))?;
    let addresses = vec![listener.local_addr()?];
    runtime.spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(answer(stream, threads.clone()));
        }
    });
    Ok(Pool { addresses, ran, _serving: Serving::Tokio { _runtime: runtime } })
}

/// Answers requests until the connection ends, or asks for something else.
async fn answer(mut stream: TcpStream, threads: Threads) -> Option<()> {
    stream.set_nodelay(true).ok()?;
    let mut input = Vec::new();
    loop {
        let Some(Asked { sleep_ns, bytes, length }) = parse(&input).ok()? else {
            let read = stream.read_buf(&mut input).await.ok()?;
            if read == 0 || input.len() > HEAD_BYTES_MAX {
                return None;
            }
            continue;
        };
        input.drain(..length);
        threads.serve(sleep_ns);
        let mut answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {bytes}\r\n\r\n").into_bytes();
        answer.resize(answer.len() + bytes, b'2');
        stream.write_all(&answer).await.ok()?;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use petasos_queueing::Service;

    use super::*;

    #[test]
    fn a_thread_is_kept_for_as_long_as_its_request_takes() {
        let times = Times { service: Service::Deterministic, mean_ns: 1_000_000, way_ns: 0 };
        let threads = Threads::new(times);
        let clock = SystemClock::default();
        let begun = clock.now();
        threads.serve(0);
        assert!(clock.now() - begun >= Duration::from_millis(1));
        threads.serve(1);
        assert_eq!(threads.ran.load(Ordering::Relaxed), 2);
    }
}
