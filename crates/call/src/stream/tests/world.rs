//! One session between two processes: a link that delays and reorders everything, cancels that may
//! be lost, exchanges that fail, and an end.

use petasos_base::Rng;

use super::super::*;
use super::applications::{BLOB_BYTES_MAX, Blob, CallerApp, ServerApp};
use crate::tail::TAIL_BYTES_MAX;
use crate::{Code, Status};

/// What the session takes in one request or response.
pub const SESSION_BYTES_MAX: usize = BLOB_BYTES_MAX + 16;
/// R17: the limit, and two segments, which are longer here than what more may have together.
const HELD_BYTES_MAX: usize = FLOW_BYTES_MAX + 2 * SESSION_BYTES_MAX;

enum Packet {
    Exchange(u64, CallerSegment<Blob>),
    Answer(u64, ServerSegment<Blob>),
    Failure(u64),
    Cancel(u64),
}

pub struct CallerSide {
    pub stream: CallerStream<Blob>,
    pub app: CallerApp,
    /// Tokens of the exchanges under way.
    under_way: Vec<u64>,
    /// Of these, what the session has lent.
    lent: u32,
    pub exchanges: u32,
    pub gave_up: bool,
    freed: bool,
}

pub struct ServerSide {
    pub number: u32,
    stream: ServerStream<Blob, u64>,
    pub app: ServerApp,
}

pub struct World {
    pub rng: Rng,
    slots: u32,
    numbers: StreamNumbers,
    sessions: SessionStreams<usize>,
    pub callers: Vec<CallerSide>,
    pub servers: Vec<ServerSide>,
    net: Vec<Packet>,
    /// Exchanges that the server has not answered, and their streams.
    held: Vec<(u64, usize)>,
    next_token: u64,
    /// Chance that an exchange fails.
    fails: f64,
    /// Segments travel as bytes.
    as_bytes: bool,
    pub up: bool,
    /// Servers give slots back. Nothing may depend on that.
    gives_back: bool,
    /// The most exchanges that were under way in a stream.
    pub widest: usize,
}

impl World {
    pub fn new(seed: u64, slots: u32) -> World {
        let mut rng = Rng::new(seed);
        let fails = if rng.chance(0.1) { 0.02 } else { 0.0 };
        let as_bytes = rng.chance(0.05);
        let gives_back = rng.chance(0.5);
        World {
            rng,
            slots,
            numbers: StreamNumbers::new(slots),
            sessions: SessionStreams::new(slots),
            callers: Vec::new(),
            servers: Vec::new(),
            net: Vec::new(),
            held: Vec::new(),
            next_token: 0,
            fails,
            as_bytes,
            up: true,
            gives_back,
            widest: 0,
        }
    }

    /// Opens another stream if the session has room.
    pub fn open(&mut self) -> bool {
        let Some(number) = self.numbers.open() else { return false };
        let open = Open { time_left_us: u64::from(number), ..Open::default() };
        self.callers.push(CallerSide {
            stream: CallerStream::new(number, open, SESSION_BYTES_MAX),
            app: CallerApp::from_seed(&mut self.rng),
            under_way: Vec::new(),
            lent: 0,
            exchanges: 0,
            gave_up: false,
            freed: false,
        });
        true
    }

    pub fn is_over(&self) -> bool {
        self.net.is_empty() && self.callers.iter().all(|side| side.freed && side.app.end.is_some())
    }

    /// One step of one application, or of the network.
    pub fn step(&mut self) {
        match self.rng.below(4) {
            0 => {
                let index = self.rng.below(self.callers.len() as u64) as usize;
                self.step_caller(index);
            }
            1 if !self.servers.is_empty() => {
                let index = self.rng.below(self.servers.len() as u64) as usize;
                self.step_server(index);
            }
            _ if !self.net.is_empty() => {
                let index = self.rng.below(self.net.len() as u64) as usize;
                let packet = self.net.swap_remove(index);
                self.deliver(packet);
            }
            _ => {}
        }
    }

    /// The session ends: what is under way fails, at both ends.
    pub fn end_session(&mut self) {
        self.up = false;
        self.net.clear();
        for index in 0..self.callers.len() {
            for _ in std::mem::take(&mut self.callers[index].under_way) {
                self.callers[index].stream.handle_failure(Status::unavailable("gone"), false);
            }
            self.poll_caller(index);
        }
        let keys: Vec<usize> = self.sessions.keys().collect();
        for key in keys {
            self.servers[key].stream.handle_abandoned(|_| true);
            self.poll_server(key);
        }
    }

    /// Nothing is left behind at either end.
    pub fn check_empty(&self) {
        assert_eq!(self.sessions.keys().count(), 0, "the server forgets streams that are over");
        assert_eq!((self.numbers.open_streams(), self.numbers.lent()), (0, 0));
        assert!(self.callers.iter().all(|side| side.under_way.is_empty()), "all are answered");
        assert!(self.servers.iter().all(|side| side.stream.is_over()));
    }

    fn step_caller(&mut self, index: usize) {
        let side = &mut self.callers[index];
        if side.app.step(&mut side.stream, &mut self.rng) {
            side.gave_up = true;
            for token in std::mem::take(&mut side.under_way) {
                if self.rng.chance(0.5) {
                    self.net.push(Packet::Cancel(token));
                }
            }
            side.stream.reset(Status::cancelled("gave up"));
            if let Some(CallerEvent::End(status)) = side.stream.poll_event() {
                side.app.end = Some(status);
            }
        }
        self.poll_caller(index);
    }

    fn step_server(&mut self, index: usize) {
        let side = &mut self.servers[index];
        side.app.step(side.number, &mut side.stream, &mut self.rng);
        if self.gives_back && self.rng.chance(0.2) {
            side.stream.release_spare();
        }
        self.poll_server(index);
    }

    fn poll_caller(&mut self, index: usize) {
        let side = &mut self.callers[index];
        assert!(side.stream.held_bytes() <= HELD_BYTES_MAX, "R17 at the caller");
        while let Some(segment) = side.stream.poll_exchange(self.numbers.available(side.lent)) {
            self.numbers.lend(side.lent, side.stream.lent());
            side.lent = side.stream.lent();
            assert!(segment.bytes() <= SESSION_BYTES_MAX);
            side.exchanges += u32::from(!segment.reset);
            if !self.up {
                side.stream.handle_failure(Status::unavailable("gone"), false);
                continue;
            }
            side.under_way.push(self.next_token);
            assert!(side.under_way.len() <= usize::from(WIDTH_MAX), "R15");
            assert!(side.under_way.len() <= 2 || side.exchanges > 2, "R20: two at first");
            self.widest = self.widest.max(side.under_way.len());
            let segment = if self.as_bytes { through_bytes_of_caller(&segment) } else { segment };
            self.net.push(Packet::Exchange(self.next_token, segment));
            self.next_token += 1;
        }
        self.numbers.lend(side.lent, side.stream.lent());
        side.lent = side.stream.lent();
        if side.stream.is_over() && !side.freed {
            side.freed = true;
            self.numbers.close();
        }
    }

    fn poll_server(&mut self, index: usize) {
        let side = &mut self.servers[index];
        assert!(side.stream.held_bytes() <= HELD_BYTES_MAX, "R17 at the server");
        while let Some((token, segment)) = side.stream.poll_answer() {
            assert!(segment.bytes() <= SESSION_BYTES_MAX);
            self.held.retain(|(held, _)| *held != token);
            let segment = if self.as_bytes { through_bytes_of_server(&segment) } else { segment };
            if self.up {
                self.net.push(Packet::Answer(token, segment));
            }
        }
        if side.stream.is_over() {
            self.sessions.remove(side.number);
        }
    }

    fn deliver(&mut self, packet: Packet) {
        match packet {
            Packet::Exchange(token, _) if self.rng.chance(self.fails) => {
                self.net.push(Packet::Failure(token));
            }
            Packet::Exchange(token, segment) => self.deliver_exchange(token, segment),
            Packet::Cancel(token) => {
                let held = self.held.iter().position(|(held, _)| *held == token);
                if let Some(place) = held {
                    let (_, key) = self.held.swap_remove(place);
                    self.servers[key].stream.handle_abandoned(|held| *held == token);
                    self.step_server(key);
                }
            }
            Packet::Answer(token, segment) => {
                let Some(index) = self.forget(token) else { return };
                self.callers[index].stream.handle_answer(segment).unwrap();
                self.poll_caller(index);
            }
            Packet::Failure(token) => {
                let Some(index) = self.forget(token) else { return };
                self.callers[index].under_way.clear();
                self.callers[index]
                    .stream
                    .handle_failure(Status::resource_exhausted("rejected"), true);
                self.poll_caller(index);
            }
        }
    }

    /// The caller's stream that a token belongs to; none if it was cancelled.
    fn forget(&mut self, token: u64) -> Option<usize> {
        let index = self.callers.iter().position(|side| side.under_way.contains(&token))?;
        self.callers[index].under_way.retain(|other| *other != token);
        Some(index)
    }

    fn deliver_exchange(&mut self, token: u64, segment: CallerSegment<Blob>) {
        let number = segment.stream;
        let key = match self.sessions.classify(&segment) {
            Arrival::Stream(key) => key,
            Arrival::New => {
                let closes = self.callers[number as usize - 1].app.closes;
                let app = ServerApp::from_seed(&mut self.rng, closes);
                let stream = ServerStream::new(SESSION_BYTES_MAX);
                self.servers.push(ServerSide { number, stream, app });
                self.sessions.insert(number, self.servers.len() - 1);
                self.servers.len() - 1
            }
            Arrival::Answer(answer) => {
                assert_eq!(answer.end, None, "a caller within its bounds is not refused");
                self.net.push(Packet::Answer(token, answer));
                return;
            }
        };
        assert!(self.sessions.keys().count() as u32 <= self.slots / 2, "R21");
        self.held.push((token, key));
        self.servers[key].stream.handle_exchange(segment, token).unwrap();
        self.step_server(key);
    }
}

/// The blobs' numbers are their bytes.
fn write(blob: &Blob, place: &mut [u8]) {
    place[..4].copy_from_slice(&blob.stream.to_le_bytes());
    place[4..8].copy_from_slice(&blob.index.to_le_bytes());
}

fn read(bytes: &[u8], range: std::ops::Range<usize>) -> Blob {
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    Blob { stream: word(range.start), index: word(range.start + 4), bytes: range.len() }
}

fn through_bytes_of_caller(segment: &CallerSegment<Blob>) -> CallerSegment<Blob> {
    let mut bytes = vec![0; segment.bytes()];
    segment.write(&mut bytes, write);
    let parsed = CallerSegment::parse(&bytes, TAIL_BYTES_MAX).unwrap();
    let parsed = parsed.map(|range| read(&bytes, range));
    assert_eq!(parsed, *segment);
    parsed
}

fn through_bytes_of_server(segment: &ServerSegment<Blob>) -> ServerSegment<Blob> {
    let mut bytes = vec![0; segment.bytes()];
    segment.write(&mut bytes, write);
    let parsed = ServerSegment::parse(&bytes, TAIL_BYTES_MAX).unwrap();
    let parsed = parsed.map(|range| read(&bytes, range));
    assert_eq!(parsed, *segment);
    parsed
}

/// What must hold of a stream when all is over.
pub fn check_stream(caller: &CallerSide, server: Option<&ServerSide>, up: bool) {
    let end = caller.app.end.as_ref().expect("every stream ends");
    assert!(end.code() != Code::Unavailable || !up, "the server knows its streams");
    let Some(server) = server else {
        assert_ne!(end.code(), Code::Ok, "what never began did not work");
        return;
    };
    let (theirs, mine) = (&server.app, &caller.app);
    assert!(mine.got <= theirs.sent && theirs.got <= mine.sent);
    if theirs.closed {
        assert!(mine.closed && theirs.got == mine.sent, "all messages come before the close");
    }
    match end.code() {
        Code::Ok => {
            assert!(theirs.ended && mine.got == theirs.sent, "all messages come before the end");
            assert_eq!(end.message(), "done");
        }
        Code::Aborted => assert!(theirs.ended),
        Code::Cancelled => assert!(caller.gave_up),
        Code::Unavailable => {}
        other => assert_eq!(other, Code::ResourceExhausted),
    }
}
