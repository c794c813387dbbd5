//! Records the events of clients and handlers, in the order in which they see them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use petasos::Code;
use petasos_base::Time;
use petasos_sim::cluster::Life;

use crate::check::{Judge, Violation};
use crate::event::{Event, Outcome};
use crate::plan::{Plan, Tally};
use crate::sabotage::Sabotage;

struct Book {
    now: Time,
    judge: Judge,
    tally: Tally,
    runs: u64,
    /// Runs of each call so far.
    by_call: BTreeMap<u64, usize>,
}

/// The record of all hosts of a run.
#[derive(Clone)]
pub(crate) struct Journal {
    book: Arc<Mutex<Book>>,
    pub(crate) sabotage: Option<Sabotage>,
}

impl Journal {
    pub(crate) fn new(judge: Judge, sabotage: Option<Sabotage>) -> Journal {
        let (tally, by_call) = (Tally::default(), BTreeMap::new());
        let book = Book { now: Time::ZERO, judge, tally, runs: 0, by_call };
        Journal { book: Arc::new(Mutex::new(book)), sabotage }
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().expect("nothing panics under the lock")
    }

    /// Sets the time of the events that are recorded from now on.
    pub(crate) fn set_now(&self, now: Time) {
        self.book().now = now;
    }

    pub(crate) fn now(&self) -> Time {
        self.book().now
    }

    pub(crate) fn note(&self, event: Event) {
        let book = &mut *self.book();
        book.tally.count(&event);
        book.judge.note(book.now, &event);
    }

    /// Gives a run its number. Also returns how many runs the call had before.
    pub(crate) fn begin_run(&self, call: u64, server: Life, right: bool) -> (u64, usize) {
        let (run, before) = {
            let book = &mut *self.book();
            book.runs += 1;
            let runs = book.by_call.entry(call).or_default();
            *runs += 1;
            let is_again = *runs > 1 && Plan::of(call).kind.is_stream();
            book.tally.streams_again += u64::from(is_again);
            (book.runs, *runs - 1)
        };
        self.note(Event::Ran { call, run, server, right });
        (run, before)
    }

    pub(crate) fn verdict(&self) -> Result<(), Violation> {
        self.book().judge.verdict()
    }

    pub(crate) fn finish(&self) -> Result<(), Violation> {
        self.book().judge.finish()
    }

    pub(crate) fn tally(&self) -> Tally {
        self.book().tally
    }
}

impl Tally {
    fn count(&mut self, event: &Event) {
        match event {
            Event::Begun { .. } => self.begun += 1,
            Event::Ran { .. } => self.runs += 1,
            Event::GotUp { .. } | Event::GotDown { .. } => self.pieces += 1,
            Event::Cancelled { .. } => self.cancelled += 1,
            Event::Ended { outcome, .. } => {
                *match outcome {
                    Outcome::Answer { .. } | Outcome::End => &mut self.answered,
                    Outcome::Failed { code: Code::Aborted, .. } => &mut self.aborted,
                    Outcome::Failed { code: Code::DeadlineExceeded, .. } => &mut self.late,
                    Outcome::Failed { code: Code::Unavailable, .. } => &mut self.unavailable,
                    Outcome::Failed { .. } => &mut self.otherwise,
                } += 1;
            }
            _ => {}
        }
    }
}
