//! Servers of HTTP/1.1 for proxies to stand before: workers as `sleeping` has them, each at a port
//! of its own, all in one thread.
//!
//! They know as much of HTTP as proxies send. `GET /SLEEP_NS/BYTES` asks for an answer of so many
//! bytes, after so long, or with 0 after as long as the worker's distribution says. Whatever else
//! comes closes the connection.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use petasos_base::sync::{AtomicU64, Ordering};
use petasos_base::{SystemClock, Time, random_seed};
use petasos_load::wait_readable;
use petasos_pacing::wake_up_in_time;
use rustix::event::epoll::{self, EventData, EventFlags};

use super::part_args::PartArgs;
use super::sleeping::Queue;
use crate::error::BenchError;

/// A request is no longer.
const HEAD_BYTES_MAX: usize = 16 << 10;
/// The most bytes of an answer.
const ANSWER_BYTES_MAX: usize = 8 << 20;
/// Events that are taken at once.
const EVENTS: usize = 64;
/// In events, listeners have this bit, beside their worker's number.
const LISTENER: u64 = 1 << 32;
/// Without a deadline.
const SLEEP_MAX: Duration = Duration::from_secs(3600);

/// Running servers.
pub struct Servers {
    /// One of each worker.
    pub addresses: Vec<SocketAddr>,
    ran: Arc<AtomicU64>,
}

impl Servers {
    /// How many requests were run.
    pub fn run(&self) -> u64 {
        self.ran.load(Ordering::Relaxed)
    }
}

/// Starts the servers.
///
/// # Errors
/// The system's.
pub fn start(args: &PartArgs) -> Result<Servers, BenchError> {
    let ran = Arc::new(AtomicU64::new(0));
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    let mut workers = Vec::new();
    for number in 0..args.workers as u64 {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        epoll::add(&epoll, &listener, EventData::new_u64(LISTENER | number), EventFlags::IN)?;
        workers.push(Worker { listener, queue: Queue::new(args.times(), random_seed()) });
    }
    let addresses = workers.iter().map(|worker| worker.listener.local_addr());
    let addresses = addresses.collect::<Result<_, _>>()?;
    let serving = Serving {
        clock: SystemClock::default(),
        epoll,
        workers,
        connections: Vec::new(),
        free: Vec::new(),
        due: BinaryHeap::new(),
        opened: 0,
        body: vec![b'2'; ANSWER_BYTES_MAX].into(),
        spin: Duration::from_micros(args.spin_us),
        ran: ran.clone(),
    };
    std::thread::spawn(move || serving.run());
    Ok(Servers { addresses, ran })
}

struct Worker {
    listener: TcpListener,
    queue: Queue,
}

struct Serving {
    clock: SystemClock,
    epoll: OwnedFd,
    workers: Vec<Worker>,
    connections: Vec<Option<Connection>>,
    free: Vec<usize>,
    /// When, on which connection with which serial, and how many bytes.
    due: BinaryHeap<Reverse<(Time, usize, u64, usize)>>,
    opened: u64,
    body: Box<[u8]>,
    /// How long it looks for work before it sleeps.
    spin: Duration,
    ran: Arc<AtomicU64>,
}

struct Connection {
    stream: TcpStream,
    worker: usize,
    /// No two connections have the same.
    serial: u64,
    input: Vec<u8>,
    /// Whether a request waits for its end.
    is_busy: bool,
    /// The rest of an answer: its head, and from where to where in the body.
    head: Vec<u8>,
    body: (usize, usize),
}

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    pub sleep_ns: u64,
    pub bytes: usize,
    /// How long the request is.
    pub length: usize,
}

impl Serving {
    fn run(mut self) {
        wake_up_in_time();
        let mut events: Vec<epoll::Event> = Vec::with_capacity(EVENTS);
        let none = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
        let mut busy_at = self.clock.now();
        loop {
            events.clear();
            let room = rustix::buffer::spare_capacity(&mut events);
            // It fails if a signal comes, and then there are no events.
            let _ = epoll::wait(&self.epoll, room, Some(&none));
            for event in &events {
                match event.data.u64() {
                    number if number & LISTENER != 0 => self.accept((number ^ LISTENER) as usize),
                    index => self.go_on(index as usize),
                }
            }
            let now = self.clock.now();
            let answered = self.answer_due(now);
            if answered || !events.is_empty() {
                busy_at = now;
            } else if now - busy_at >= self.spin {
                let first = self.due.peek().map(|Reverse((at, ..))| *at - now);
                wait_readable(&self.epoll, first.unwrap_or(SLEEP_MAX));
            }
        }
    }

    fn accept(&mut self, worker: usize) {
        while let Ok((stream, _)) = self.workers[worker].listener.accept() {
            let is_ready = stream.set_nonblocking(true).and_then(|()| stream.set_nodelay(true));
            let index = self.free.pop().unwrap_or_else(|| {
                self.connections.push(None);
                self.connections.len() - 1
            });
            let data = EventData::new_u64(index as u64);
            let events = EventFlags::IN | EventFlags::OUT | EventFlags::ET;
            if is_ready.is_err() || epoll::add(&self.epoll, &stream, data, events).is_err() {
                self.free.push(index);
                continue;
            }
            self.opened += 1;
            self.connections[index] = Some(Connection {
                stream,
                worker,
                serial: self.opened,
                input: Vec::new(),
                is_busy: false,
                head: Vec::new(),
                body: (0, 0),
            });
        }
    }

    /// Writes what is left of an answer, and reads requests.
    fn go_on(&mut self, index: usize) {
        let Some(connection) = self.connections[index].as_mut() else { return };
        let is_open = connection.write(&self.body) && connection.read();
        if !is_open || !self.begin(index) {
            self.connections[index] = None;
            self.free.push(index);
        }
    }

    /// Begins the next request, if there is one. Returns false if it is none.
    fn begin(&mut self, index: usize) -> bool {
        let Some(connection) = self.connections[index].as_mut() else { return true };
        if connection.is_busy || connection.is_writing() {
            return true;
        }
        let asked = match parse(&connection.input) {
            Ok(Some(asked)) => asked,
            Ok(None) => return true,
            Err(()) => return false,
        };
        connection.input.drain(..asked.length);
        connection.is_busy = true;
        self.ran.fetch_add(1, Ordering::Relaxed);
        let now = self.clock.now();
        let at = self.workers[connection.worker].queue.answered_at(now, asked.sleep_ns);
        self.due.push(Reverse((at, index, connection.serial, asked.bytes)));
        true
    }

    /// Answers what is due; returns whether there was something.
    fn answer_due(&mut self, now: Time) -> bool {
        let mut any = false;
        while let Some(Reverse((at, index, serial, bytes))) = self.due.peek().copied()
            && at <= now
        {
            any = true;
            self.due.pop();
            let connection = self.connections[index].as_mut();
            // Whoever asked may have gone.
            if let Some(connection) = connection.filter(|it| it.serial == serial) {
                connection.is_busy = false;
                connection.head =
                    format!("HTTP/1.1 200 OK\r\ncontent-length: {bytes}\r\n\r\n").into_bytes();
                connection.body = (0, bytes);
                self.go_on(index);
            }
        }
        any
    }
}

impl Connection {
    fn is_writing(&self) -> bool {
        !self.head.is_empty() || self.body.0 < self.body.1
    }

    /// Returns whether the connection is of use.
    fn write(&mut self, body: &[u8]) -> bool {
        while self.is_writing() {
            let rest = &body[self.body.0..self.body.1];
            let parts = [std::io::IoSlice::new(&self.head), std::io::IoSlice::new(rest)];
            match self.stream.write_vectored(&parts) {
                Ok(0) => return false,
                Ok(written) => {
                    let of_head = written.min(self.head.len());
                    self.head.drain(..of_head);
                    self.body.0 += written - of_head;
                }
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return true,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(_) => return false,
            }
        }
        true
    }

    /// The same.
    fn read(&mut self) -> bool {
        let mut room = [0; 4096];
        loop {
            match self.stream.read(&mut room) {
                Ok(0) => return false,
                Ok(read) => self.input.extend_from_slice(&room[..read]),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return true,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(_) => return false,
            }
            if self.input.len() > HEAD_BYTES_MAX {
                return false;
            }
        }
    }
}

/// A request without a body, if all of it is there.
///
/// # Errors
/// If it is something else.
pub fn parse(input: &[u8]) -> Result<Option<Asked>, ()> {
    let Some(end) = input.windows(4).position(|bytes| bytes == b"\r\n\r\n") else {
        return Ok(None);
    };
    let line = input.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let line = std::str::from_utf8(line).map_err(drop)?;
    let path = line.strip_prefix("GET /").and_then(|rest| rest.split(' ').next());
    let (sleep_ns, bytes) = path.and_then(|path| path.split_once('/')).ok_or(())?;
    let (sleep_ns, bytes) = (sleep_ns.parse().map_err(drop)?, bytes.parse().map_err(drop)?);
    if bytes > ANSWER_BYTES_MAX {
        return Err(());
    }
    Ok(Some(Asked { sleep_ns, bytes, length: end + 4 }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_read_when_they_are_complete() {
        let request = b"GET /5/70 HTTP/1.1\r\nhost: a\r\n\r\nGET";
        let length = request.len() - 3;
        assert_eq!(parse(request), Ok(Some(Asked { sleep_ns: 5, bytes: 70, length })));
        assert_eq!(parse(&request[..length - 1]), Ok(None));
        let wrong: [&[u8]; 4] =
            [b"PUT /5/70 H\r\n\r\n", b"GET / H\r\n\r\n", b"GET /1/x H\r\n\r\n", b"\xff\r\n\r\n"];
        assert!(wrong.into_iter().all(|request| parse(request).is_err()));
        assert!(parse(b"GET /0/99999999999 H\r\n\r\n").is_err());
    }
}
