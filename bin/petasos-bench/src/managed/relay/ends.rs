//! The applications: a client that keeps calls outstanding, and a server that answers them.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use petasos_base::{SystemClock, Time};

use super::frame::{FRAME_BYTES_MAX, HEADER_BYTES, Header, Kind, PART_BYTES_MAX};
use super::link::{Link, Waiting};
use crate::error::BenchError;
use crate::managed::shape::Shape;
use crate::rpc::ends::{Client, Server};
use crate::rpc::phase::{Phase, Turn};
use crate::rpc::stop::Stop;

/// In a window of calls, one of this many is timed, as for other contenders.
const SAMPLE: u64 = 32;
/// The longest sleep before the end of the turn is looked for.
const SLEEP_MAX: Duration = Duration::from_millis(5);
/// How long all calls may stay unanswered.
const PATIENCE: Duration = Duration::from_secs(5);

/// Makes calls.
pub struct RelayClient {
    link: Link,
    shape: Shape,
    clock: SystemClock,
    request: Vec<u8>,
    frame: Vec<u8>,
    /// The number of the next call.
    next: u64,
    /// The bytes of the request under way that are pushed, if there is one.
    pushed: Option<usize>,
    /// Calls without an answer, in order: when they began, if they are timed.
    outstanding: VecDeque<Option<Time>>,
}

impl RelayClient {
    /// A client of the service at `service`.
    ///
    /// # Errors
    /// If nobody is there, or responses are too long.
    pub fn connect(shape: Shape, service: SocketAddr) -> Result<RelayClient, BenchError> {
        check(shape)?;
        Ok(RelayClient {
            link: Link::connect(service)?,
            shape,
            clock: SystemClock::default(),
            request: vec![1; shape.request_bytes as usize],
            frame: vec![0; FRAME_BYTES_MAX],
            next: 0,
            pushed: None,
            outstanding: VecDeque::new(),
        })
    }

    /// Begins a call, which is timed if that is its turn.
    fn begin(&mut self, sample: u64) -> Option<Time> {
        let begun = self.next.is_multiple_of(sample).then(|| self.clock.now());
        self.outstanding.push_back(begun);
        self.next += 1;
        self.pushed = Some(0);
        begun
    }

    /// Pushes the rest of the request under way. Returns whether all of it is pushed.
    fn push_rest(&mut self) -> Result<bool, BenchError> {
        while let Some(pushed) = self.pushed {
            let part = (self.request.len() - pushed).min(PART_BYTES_MAX);
            let end = pushed + part;
            let kind = if end == self.request.len() { Kind::Last } else { Kind::Part };
            let (message_bytes, call) = (self.shape.request_bytes, self.next - 1);
            let mut head = [0; HEADER_BYTES];
            Header { app: 0, kind, message_bytes, call, credit: 0 }.write(&mut head);
            if !self.link.push(&head, &self.request[pushed..end])? {
                return Ok(false);
            }
            self.pushed = (kind == Kind::Part).then_some(end);
        }
        Ok(true)
    }

    /// Takes answers. Returns whether there were any.
    fn take_answers(&mut self, turn: &mut Turn) -> Result<bool, BenchError> {
        let before = turn.completed;
        while let Some(len) = self.link.pop(&mut self.frame)? {
            let header = Header::read(&self.frame[..len]).ok_or("an answer without a header")?;
            let expected = self.next - self.outstanding.len() as u64;
            let bytes = len - HEADER_BYTES;
            if header.call != expected || bytes != self.shape.response_bytes as usize {
                let call = header.call;
                return Err(format!("{bytes} bytes for call {call}, not {expected}").into());
            }
            let begun = self.outstanding.pop_front().ok_or("an answer without a call")?;
            if let Some(begun) = begun {
                turn.latency.record_ns(self.clock.now().nanos_since(begun));
            }
            turn.completed += 1;
        }
        self.link.release();
        Ok(turn.completed > before)
    }

    /// Begins calls as long as the window and the ring have room. Returns whether the turn is over.
    fn fill(&mut self, window: usize, ends_at: Time) -> Result<bool, BenchError> {
        let sample = if window == 1 { 1 } else { SAMPLE };
        while self.push_rest()? && self.outstanding.len() < window {
            if self.begin(sample).is_some_and(|now| now >= ends_at) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

impl Client for RelayClient {
    fn turn(&mut self, phase: Phase, duration: Duration) -> Result<Turn, BenchError> {
        let window = if phase == Phase::Window { self.shape.window } else { 1 };
        let begun = self.clock.now();
        let ends_at = begun + duration;
        let (mut turn, mut waiting) = (Turn::default(), Waiting::new());
        let (mut is_over, mut silent_since) = (false, None);
        loop {
            if is_over {
                self.push_rest()?;
            } else {
                is_over = self.fill(window, ends_at)?;
            }
            self.link.publish();
            if self.take_answers(&mut turn)? {
                waiting.worked();
                silent_since = None;
                if is_over && self.outstanding.is_empty() {
                    break;
                }
            } else if waiting.must_sleep() {
                let now = self.clock.now();
                if now - *silent_since.get_or_insert(now) > PATIENCE {
                    return Err("calls are not answered: a frame is lost".into());
                }
                is_over |= now >= ends_at;
                self.link.sleep(if self.pushed.is_some() { SLEEP_MAX / 5 } else { SLEEP_MAX })?;
            }
        }
        turn.elapsed_s = self.clock.now().nanos_since(begun) as f64 / 1e9;
        Ok(turn)
    }
}

/// Answers calls.
pub struct RelayServer {
    link: Link,
    shape: Shape,
    response: Vec<u8>,
    frame: Vec<u8>,
    /// Where the parts of a request are put together.
    request: Vec<u8>,
    /// Bytes of it that are there.
    received: usize,
    /// The call whose answer has no room in the ring.
    unanswered: Option<u64>,
}

impl RelayServer {
    /// A server of the service at `service`.
    ///
    /// # Errors
    /// If nobody is there, or responses are too long.
    pub fn connect(shape: Shape, service: SocketAddr) -> Result<RelayServer, BenchError> {
        check(shape)?;
        Ok(RelayServer {
            link: Link::connect(service)?,
            shape,
            response: vec![2; shape.response_bytes as usize],
            frame: vec![0; FRAME_BYTES_MAX],
            request: vec![0; shape.request_bytes as usize],
            received: 0,
            unanswered: None,
        })
    }

    /// Takes requests, and answers them. Returns whether there were any.
    fn answer(&mut self) -> Result<bool, BenchError> {
        let mut has_moved = false;
        while self.answer_last()? {
            let Some(len) = self.link.pop(&mut self.frame)? else { break };
            has_moved = true;
            let header = Header::read(&self.frame[..len]).ok_or("a request without a header")?;
            let part = &self.frame[HEADER_BYTES..len];
            let end = self.received + part.len();
            let place = self.request.get_mut(self.received..end).ok_or("a request is too long")?;
            place.copy_from_slice(part);
            self.received = end;
            if header.kind == Kind::Last {
                if end != self.request.len() {
                    return Err(format!("a request of {end} bytes").into());
                }
                self.received = 0;
                self.unanswered = Some(header.call);
            }
        }
        self.link.release();
        self.link.publish();
        Ok(has_moved)
    }

    /// Answers the last request, if it has no answer. Returns whether it has one now.
    fn answer_last(&mut self) -> Result<bool, BenchError> {
        let Some(call) = self.unanswered else { return Ok(true) };
        let message_bytes = self.shape.response_bytes;
        let mut head = [0; HEADER_BYTES];
        Header { app: 0, kind: Kind::Last, message_bytes, call, credit: 0 }.write(&mut head);
        let is_pushed = self.link.push(&head, &self.response)?;
        if is_pushed {
            self.unanswered = None;
        }
        Ok(is_pushed)
    }
}

impl Server for RelayServer {
    fn addresses(&self) -> Vec<SocketAddr> {
        Vec::new()
    }

    fn serve(&mut self, _: Phase, stop: &Stop) -> Result<Turn, BenchError> {
        let mut waiting = Waiting::new();
        while !stop.take() {
            if self.answer()? {
                waiting.worked();
            } else if waiting.must_sleep() {
                self.link.sleep(SLEEP_MAX)?;
            }
        }
        Ok(Turn::default())
    }
}

/// Responses are one frame.
fn check(shape: Shape) -> Result<(), BenchError> {
    match shape.response_bytes as usize {
        0..=PART_BYTES_MAX => Ok(()),
        bytes => Err(format!("responses of {bytes} bytes, more than {PART_BYTES_MAX}").into()),
    }
}
