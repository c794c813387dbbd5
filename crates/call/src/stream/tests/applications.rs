//! Applications at both ends of a stream, with paces and habits from a seed.

use petasos_base::Rng;

use super::super::*;
use crate::{Code, Codec, Encoding, Metadata, Status};

/// A message's body without bytes: whose it is, and how long it would be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blob {
    pub stream: u32,
    pub index: u32,
    pub bytes: usize,
}

impl Body for Blob {
    fn len(&self) -> usize {
        self.bytes
    }
}

/// Lengths of messages; enough for any index to be written into.
#[derive(Clone, Copy, Debug)]
pub struct Sizes(u64);

/// The longest message: more than what several exchanges may have together (R17).
pub const BLOB_BYTES_MAX: usize = WIDE_BYTES_MAX + (100 << 10);

impl Sizes {
    pub fn from_seed(rng: &mut Rng) -> Sizes {
        Sizes(rng.below(4))
    }

    /// Not even all messages of an application reach the limit of R17.
    pub fn never_fill(self) -> bool {
        self.0 == 0
    }

    fn draw(self, rng: &mut Rng) -> usize {
        let choices = [[8, 9, 30], [8, 1000, 40_000], [20_000, 70_000, 131_064], [8, 65_520, 1]];
        let index = usize::try_from(rng.below(3)).unwrap();
        match choices[usize::try_from(self.0).unwrap()][index] {
            1 => BLOB_BYTES_MAX,
            bytes => bytes,
        }
    }
}

pub fn message(stream: u32, index: u32, sizes: Sizes, rng: &mut Rng) -> Message<Blob> {
    let body = Blob { stream, index, bytes: sizes.draw(rng) };
    Message { encoding: Encoding::Native, codec: Codec::IDENTITY, body }
}

/// Chance of writing or reading in one step.
fn pace(rng: &mut Rng) -> f64 {
    [0.03, 0.3, 1.0][usize::try_from(rng.below(3)).unwrap()]
}

#[derive(Clone, Debug)]
pub struct CallerApp {
    pub sizes: Sizes,
    pub to_send: u32,
    pub sent: u32,
    pub writes: f64,
    /// 0 for one that never reads, until it gives up.
    pub reads: f64,
    pub closes: bool,
    pub closed: bool,
    /// Steps until it gives up.
    pub patience: Option<u32>,
    pub head: bool,
    pub got: u32,
    pub end: Option<Status>,
}

impl CallerApp {
    pub fn from_seed(rng: &mut Rng) -> CallerApp {
        let reads = if rng.chance(0.1) { 0.0 } else { pace(rng) };
        let patience = (reads == 0.0 || rng.chance(0.1)).then(|| rng.below(600) as u32);
        CallerApp {
            sizes: Sizes::from_seed(rng),
            to_send: rng.below(30) as u32,
            sent: 0,
            writes: pace(rng),
            reads,
            closes: rng.chance(0.8),
            closed: false,
            patience,
            head: false,
            got: 0,
            end: None,
        }
    }

    /// One step. True: it gives up.
    pub fn step(&mut self, stream: &mut CallerStream<Blob>, rng: &mut Rng) -> bool {
        if let Some(left) = &mut self.patience {
            *left = left.saturating_sub(1);
            if *left == 0 {
                self.patience = None;
                return self.end.is_none();
            }
        }
        if self.sent < self.to_send && stream.can_send() && rng.chance(self.writes) {
            stream.send(message(stream.number(), self.sent, self.sizes, rng));
            self.sent += 1;
        }
        if self.sent == self.to_send && self.closes && stream.is_open() {
            stream.close();
            self.closed = true;
        }
        while rng.chance(self.reads) {
            let Some(event) = stream.poll_event() else { break };
            self.take(stream.number(), event);
        }
        false
    }

    pub fn take(&mut self, number: u32, event: CallerEvent<Blob>) {
        assert_eq!(self.end, None, "nothing follows the end");
        match event {
            CallerEvent::Head(metadata) => {
                assert!(!self.head && self.got == 0, "a head comes once, before messages");
                assert_eq!(metadata.get("stream"), Some(&*number.to_string()));
                self.head = true;
            }
            CallerEvent::Message(message) => {
                assert_eq!((message.body.stream, message.body.index), (number, self.got));
                self.got += 1;
            }
            CallerEvent::End(status) => self.end = Some(status),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ends {
    /// When it has sent everything, whatever the caller does.
    WhenDone,
    /// When the caller has closed, too.
    WhenClosed,
    /// In the middle, with what is not sent dropped.
    Aborts,
}

#[derive(Clone, Debug)]
pub struct ServerApp {
    pub sizes: Sizes,
    pub to_send: u32,
    pub sent: u32,
    pub writes: f64,
    pub reads: f64,
    pub has_head: bool,
    pub ends: Ends,
    pub started: bool,
    pub got: u32,
    pub closed: bool,
    pub reset: bool,
    pub ended: bool,
}

impl ServerApp {
    pub fn from_seed(rng: &mut Rng, caller_closes: bool) -> ServerApp {
        let waits = caller_closes && rng.chance(0.6);
        let ends = if waits { Ends::WhenClosed } else { Ends::WhenDone };
        ServerApp {
            sizes: Sizes::from_seed(rng),
            to_send: rng.below(30) as u32,
            sent: 0,
            writes: pace(rng),
            reads: pace(rng),
            has_head: rng.chance(0.5),
            ends: if rng.chance(0.1) { Ends::Aborts } else { ends },
            started: false,
            got: 0,
            closed: false,
            reset: false,
            ended: false,
        }
    }

    pub fn step<H>(&mut self, number: u32, stream: &mut ServerStream<Blob, H>, rng: &mut Rng) {
        while rng.chance(self.reads) && !self.ended {
            let Some(event) = stream.poll_event() else { break };
            self.take(number, event);
        }
        if !self.started || self.reset || self.ended {
            return;
        }
        if self.has_head && self.sent == 0 {
            let mut metadata = Metadata::new();
            metadata.append("stream", &number.to_string()).unwrap();
            stream.head(metadata);
            self.has_head = false;
        }
        if self.sent < self.to_send && stream.can_send() && rng.chance(self.writes) {
            stream.send(message(number, self.sent, self.sizes, rng));
            self.sent += 1;
        }
        if self.ends == Ends::Aborts && self.sent > self.to_send / 2 {
            stream.abort(Status::aborted("of its own"));
            self.ended = true;
        } else if self.sent == self.to_send && (self.closed || self.ends != Ends::WhenClosed) {
            stream.end(Status::new(Code::Ok, "done"));
            self.ended = true;
        }
    }

    fn take(&mut self, number: u32, event: ServerEvent<Blob>) {
        assert!(!self.reset, "nothing follows a reset");
        match event {
            ServerEvent::Open(open) => {
                assert!(!self.started, "a stream begins once");
                assert_eq!(open.time_left_us, u64::from(number));
                self.started = true;
            }
            ServerEvent::Message(message) => {
                assert!(self.started && !self.closed);
                assert_eq!((message.body.stream, message.body.index), (number, self.got));
                self.got += 1;
            }
            ServerEvent::Closed => self.closed = true,
            ServerEvent::Reset => self.reset = true,
        }
    }
}
