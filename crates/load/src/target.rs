//! What load is sent to.

use core::time::Duration;

use petasos_base::{Clock, Time};

/// Something that answers requests. No method but [`Target::wait`] waits for anything.
pub trait Target {
    /// How many requests can be outstanding at once.
    fn outstanding_max(&self) -> usize;

    /// Sends a request. `slot` is below [`Target::outstanding_max`], and not that of an outstanding
    /// request.
    ///
    /// # Errors
    /// If no request can be sent any more. What concerns one request is its answer.
    fn send(&mut self, slot: u32) -> Result<(), TargetError>;

    /// Takes what has arrived, and adds the answers.
    ///
    /// # Errors
    /// If no answer can come any more.
    fn poll(&mut self, answers: &mut Answers) -> Result<(), TargetError>;

    /// Sleeps until something may have arrived, for at most `timeout`.
    fn wait(&mut self, timeout: Duration);
}

/// A target is lost, and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TargetError(pub String);

/// Answers with the times at which they came.
#[derive(Debug)]
pub struct Answers {
    clock: Clock,
    answers: Vec<Answer>,
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub slot: u32,
    pub at: Time,
    pub result: Result<(), String>,
}

impl Answers {
    pub(crate) fn new(clock: &Clock) -> Answers {
        Answers { clock: clock.clone(), answers: Vec::new() }
    }

    /// The request with this slot has been answered, or has failed for a reason.
    pub fn push(&mut self, slot: u32, result: Result<(), String>) {
        self.answers.push(Answer { slot, at: self.clock.now(), result });
    }

    /// Takes all answers.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = Answer> {
        self.answers.drain(..)
    }
}
