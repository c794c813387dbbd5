//! What the journal's thread does.

use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use petasos_base::{SystemClock, Time};

use super::Event;
use super::queue::{Batch, Command, Made, Queue};
use crate::record::Record;
use crate::{Error, Files, Journal};

/// The thread's own.
pub(super) struct Worker<F: Files> {
    journal: Journal<F>,
    queue: Arc<Queue<F>>,
    tell: Box<dyn FnMut(Event) + Send>,
    clock: SystemClock,
    /// The thread that makes a segment, until it has.
    maker: Option<JoinHandle<()>>,
    /// When space is looked for again, if there was none.
    full_until: Option<Time>,
    /// Up to this place it was told that records are durable.
    told: u64,
    is_settled: bool,
}

impl<F: Files> Worker<F> {
    pub(super) fn new(
        journal: Journal<F>,
        queue: Arc<Queue<F>>,
        tell: Box<dyn FnMut(Event) + Send>,
    ) -> Worker<F> {
        let told = journal.durable_place();
        let clock = SystemClock::default();
        let (maker, full_until) = (None, None);
        Worker { journal, queue, tell, clock, maker, full_until, told, is_settled: true }
    }

    /// Runs until it is told to end, or cannot go on.
    pub(super) fn run(mut self) -> Result<(), Error> {
        // Also if `tell` panics: callers must not wait for events that never come.
        let closing = Closing(self.queue.clone());
        let mut result = self.serve();
        drop(closing);
        if let Some(maker) = self.maker.take() {
            // It has no invariants of ours.
            let _ = maker.join();
        }
        let Worker { journal, mut tell, .. } = self;
        result = result.and_then(|()| journal.close());
        tell(Event::Ended { result: result.clone() });
        result
    }

    fn serve(&mut self) -> Result<(), Error> {
        loop {
            self.make_segment();
            let taken = self.queue.take(self.timeout());
            let is_idle = taken.commands.is_empty();
            if let Some(made) = taken.made {
                self.take_made(made)?;
            }
            self.work(taken.commands)?;
            if taken.is_closed {
                return Ok(());
            }
            if is_idle && !self.is_settled {
                self.journal.settle()?;
                self.is_settled = true;
            }
        }
    }

    /// Nothing is waited for longer than there is something to do.
    fn timeout(&self) -> Option<Duration> {
        if !self.is_settled {
            return Some(SETTLE_AFTER);
        }
        // While a segment is being made, its end is waited for.
        let until = self.full_until.filter(|_| self.maker.is_none());
        until.map(|until| until - self.clock.now())
    }

    fn work(&mut self, commands: Vec<Command>) -> Result<(), Error> {
        let mut batches = Vec::new();
        for command in commands {
            if let Command::Append(batch) = command {
                batches.push(batch);
                continue;
            }
            self.append(&std::mem::take(&mut batches))?;
            self.change(command)?;
        }
        self.append(&batches)?;
        self.commit()
    }

    /// All appends between two other commands are one write.
    fn append(&mut self, batches: &[Batch]) -> Result<(), Error> {
        let records: Vec<Record<'_>> = batches.iter().flat_map(Batch::records).collect();
        let Some(first) = records.first() else { return Ok(()) };
        let bytes: usize = records.iter().map(Record::bytes).sum();
        while bytes > self.journal.room() && self.maker.is_some() {
            let made = self.queue.await_made();
            self.take_made(made)?;
        }
        match self.journal.append(&records) {
            Err(error @ Error::Failed(_)) => return Err(error),
            Err(error) => {
                let is_full = error == Error::Full;
                (self.tell)(Event::Refused { place: first.place, error });
                // Whoever was refused hears when it may try again.
                if is_full && self.full_until.is_none() {
                    self.full_until = Some(self.clock.now() + SPACE_AFTER);
                    (self.tell)(Event::Space { is_full });
                }
            }
            Ok(()) => self.is_settled = false,
        }
        Ok(())
    }

    fn commit(&mut self) -> Result<(), Error> {
        let upto = self.journal.sync()?;
        if upto > self.told {
            (self.tell)(Event::Durable { upto });
        }
        self.told = upto;
        Ok(())
    }

    fn change(&mut self, command: Command) -> Result<(), Error> {
        let journal = &mut self.journal;
        let (token, result) = match command {
            Command::Append(_) => unreachable!("appends are collected"),
            Command::Read(token, place, bytes_max) => {
                let result = journal.read(place, bytes_max);
                (self.tell)(Event::Read { token, result });
                return Ok(());
            }
            Command::HardState(token, hard) => (token, journal.set_hard_state(hard)),
            Command::Truncate(token, place) => (token, journal.truncate(place)),
            Command::Compact(token, upto) => (token, journal.compact(upto)),
            Command::Reset(token, place) => (token, journal.reset(place)),
        };
        // Places that are written again are told again.
        self.told = self.told.min(self.journal.durable_place());
        if let Err(error @ Error::Failed(_)) = result {
            return Err(error);
        }
        (self.tell)(Event::Done { token, result });
        Ok(())
    }

    /// Has a segment made, if there is none, and there may be space for one.
    fn make_segment(&mut self) {
        let is_full = self.full_until.is_some_and(|until| until > self.clock.now());
        if self.maker.is_some() || is_full {
            return;
        }
        let Some(preparation) = self.journal.prepare() else {
            // There is a segment to come, which was too short for what was refused: by now there
            // may be space for more.
            if self.full_until.take().is_some() {
                (self.tell)(Event::Space { is_full: false });
            }
            return;
        };
        let queue = self.queue.clone();
        let make = move || queue.made(preparation.run());
        let maker = thread::Builder::new().name("journal-segment".to_owned()).spawn(make);
        // Without a thread, the segment is made when it is needed.
        self.maker = maker.ok();
    }

    fn take_made(&mut self, made: Made<F>) -> Result<(), Error> {
        self.maker = None;
        let was_full = self.full_until.is_some();
        self.full_until = match self.journal.prepared(made) {
            Ok(()) => None,
            Err(error @ Error::Failed(_)) => return Err(error),
            // Other errors have promised nothing either, and may pass.
            Err(_) => Some(self.clock.now() + SPACE_AFTER),
        };
        let is_full = self.full_until.is_some();
        if is_full != was_full {
            (self.tell)(Event::Space { is_full });
        }
        Ok(())
    }
}

/// Closes the queue when it is dropped.
struct Closing<F: Files>(Arc<Queue<F>>);

impl<F: Files> Drop for Closing<F> {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// The marks are settled when nothing has come for so long.
const SETTLE_AFTER: Duration = Duration::from_millis(100);
/// Space is looked for so often (QR20).
const SPACE_AFTER: Duration = Duration::from_secs(1);
