//! Rate: a window of outstanding datagrams, echoed in batches or one by one.

use std::io;

use petasos_base::Clock;

use crate::FloorError;
use crate::limits::{DATAGRAM_BYTES_MAX, RECEIVE_BYTES_MAX, SEGMENTS_MAX};
use crate::link::{Link, Path, check_datagram_bytes};
use crate::pace::{Idle, Pace, deadline};
use crate::turn::{Turn, thread_cpu_s};

/// The parameters of a flood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flood {
    /// Bytes of each datagram.
    pub datagram_bytes: usize,
    /// Outstanding datagrams; best a multiple of the batch, since only whole batches are sent.
    pub window: usize,
    /// Datagrams of one segmented send. With 1, each is sent and received by its own call, without
    /// segmentation or coalescing. A batch that does not fit one send is divided evenly.
    pub batch: usize,
}

impl Flood {
    /// The datagrams of each send: the largest even part of the batch that the kernel takes.
    fn train(&self) -> usize {
        let fitting = (DATAGRAM_BYTES_MAX / self.datagram_bytes).min(SEGMENTS_MAX);
        let parts = (1..=fitting).rev().find(|part| self.batch.is_multiple_of(*part));
        parts.expect("one datagram fits and divides every batch")
    }

    /// The path that this flood takes, and that the echo must take.
    pub fn path(&self) -> Path {
        match self.batch {
            0 | 1 => Path::Singles,
            _ => Path::Trains { datagram_bytes: self.datagram_bytes },
        }
    }

    pub(crate) fn check(&self) -> Result<(), FloorError> {
        check_datagram_bytes(self.datagram_bytes)?;
        let Flood { batch, window, .. } = *self;
        let possible = (1..=window).contains(&batch);
        if possible { Ok(()) } else { Err(FloorError::Batch { batch, window }) }
    }
}

/// Keeps a window of datagrams outstanding and counts their echoes, until `stop`.
///
/// # Errors
/// See [`FloorError`].
pub fn flood(
    link: &mut Link,
    flood: Flood,
    clock: &Clock,
    stop: impl FnMut() -> bool,
) -> Result<Turn, FloorError> {
    flood.check()?;
    let mut client = Client::new(link, flood)?;
    let (cpu_start, start) = (thread_cpu_s(), clock.now());
    client.run(&mut Pace::new(clock, stop))?;
    let mut turn = client.turn.clone();
    turn.elapsed_s = clock.now().nanos_since(start) as f64 / 1e9;
    turn.cpu_s = thread_cpu_s() - cpu_start;
    turn.bytes = turn.datagrams * flood.datagram_bytes as u64;
    client.settle(clock)?;
    Ok(turn)
}

struct Client<'l> {
    link: &'l mut Link,
    window: usize,
    datagram_bytes: usize,
    train: usize,
    /// One train, each datagram tagged.
    request: Vec<u8>,
    tag: u8,
    buffer: Vec<u8>,
    /// 0 to `window`.
    outstanding: usize,
    turn: Turn,
}

impl<'l> Client<'l> {
    fn new(link: &'l mut Link, flood: Flood) -> Result<Client<'l>, FloorError> {
        let mut buffer = vec![0; RECEIVE_BYTES_MAX];
        link.prepare(flood.path(), &mut buffer)?;
        let train = flood.train();
        let mut client = Client {
            link,
            window: flood.window,
            datagram_bytes: flood.datagram_bytes,
            train,
            request: vec![0; train * flood.datagram_bytes],
            tag: 0,
            buffer,
            outstanding: 0,
            turn: Turn::default(),
        };
        client.retag();
        Ok(client)
    }

    fn run(&mut self, pace: &mut Pace<impl FnMut() -> bool>) -> io::Result<()> {
        self.fill()?;
        loop {
            if self.receive()? {
                self.fill()?;
                if pace.progress_ends() {
                    return Ok(());
                }
                continue;
            }
            match pace.idle() {
                Idle::Wait => {}
                Idle::Silent => self.give_up_outstanding()?,
                Idle::Stop => return Ok(()),
            }
        }
    }

    /// Counts what has arrived. Returns true if it belonged to this window.
    #[inline]
    fn receive(&mut self) -> io::Result<bool> {
        let Some(arrival) = self.link.receive(&mut self.buffer)? else { return Ok(false) };
        if arrival.len == 0 || self.buffer[0] != self.tag {
            return Ok(false);
        }
        // A duplicate made by the network must not count below zero.
        let datagrams = arrival.datagrams().min(self.outstanding);
        self.outstanding -= datagrams;
        self.turn.datagrams += datagrams as u64;
        Ok(true)
    }

    /// Sends as many trains as the window has room for.
    #[inline]
    fn fill(&mut self) -> io::Result<()> {
        while self.window - self.outstanding >= self.train {
            if !self.link.send(&self.request)? {
                return Ok(());
            }
            self.outstanding += self.train;
        }
        Ok(())
    }

    /// Starts a new window in place of one that the network lost.
    #[cold]
    fn give_up_outstanding(&mut self) -> io::Result<()> {
        self.turn.lost += self.outstanding as u64;
        self.outstanding = 0;
        self.retag();
        self.fill()
    }

    fn retag(&mut self) {
        self.tag = self.link.next_tag();
        self.request.iter_mut().step_by(self.datagram_bytes).for_each(|byte| *byte = self.tag);
    }

    /// Receives what is still in flight, so that it does not disturb the next turn.
    fn settle(&mut self, clock: &Clock) -> io::Result<()> {
        let silence = std::time::Duration::from_micros(crate::SILENCE_MAX_US);
        let mut expired = deadline(clock, silence);
        while self.outstanding > 0 && !expired() {
            self.receive()?;
        }
        Ok(())
    }
}
