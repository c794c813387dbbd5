//! A worker: answers queries one after another, whatever carries them.

use std::sync::{Arc, Mutex, PoisonError};

use petasos::{Code, Request, Response, Status};
use petasos_base::Time;
use petasos_base::sync::{AtomicU64, Ordering};
use petasos_pacing::{Deadlines, OneByOne};

use crate::answer::{Answer, Refusal};
use crate::engine::Engine;
use crate::messages::{Query, Results, Search};
use crate::recording::Recording;

/// Where answers come from.
pub enum Source {
    /// Each is searched for.
    Engine(Box<Engine>),
    /// Each was recorded, and comes as late as it took then, times `stretch`. Meanwhile the worker
    /// sleeps.
    Recording { recording: Recording, stretch: f64, deadlines: Arc<Deadlines> },
}

/// A worker of several with the same source.
#[derive(Clone)]
pub struct Worker {
    source: Arc<Source>,
    queue: Arc<Mutex<OneByOne>>,
    answered: Arc<AtomicU64>,
}

/// Workers with one source, which count together.
pub struct Workers {
    source: Arc<Source>,
    answered: Arc<AtomicU64>,
}

impl Workers {
    pub fn new(source: Source) -> Workers {
        Workers { source: Arc::new(source), answered: Arc::default() }
    }

    /// One more.
    pub fn worker(&self) -> Worker {
        let (source, answered) = (self.source.clone(), self.answered.clone());
        Worker { source, queue: Arc::default(), answered }
    }

    /// How many queries were answered or refused.
    pub fn answered(&self) -> u64 {
        self.answered.load(Ordering::Relaxed)
    }
}

impl Worker {
    /// Answers a query.
    ///
    /// # Errors
    /// See [`Refusal`].
    pub async fn find(&self, text: &str, limit: u32) -> Result<Answer, Refusal> {
        self.answered.fetch_add(1, Ordering::Relaxed);
        match &*self.source {
            Source::Engine(engine) => Answer::find(engine, text, limit),
            Source::Recording { recording, stretch, deadlines } => {
                let record = recording.get(text).ok_or(Refusal::NotRecorded)?;
                let takes_ns = (record.took_ns as f64 * stretch) as u64;
                deadlines.until(self.served_at(deadlines.now(), takes_ns)).await;
                Ok(record.answer.with_at_most(limit))
            }
        }
    }

    fn served_at(&self, now: Time, takes_ns: u64) -> Time {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).served_at(now, takes_ns)
    }
}

impl Search for Worker {
    async fn find(&self, request: Request<Query>) -> Result<Response<Results>, Status> {
        let answer = Worker::find(self, request.text(), request.limit()).await;
        let answer = answer.map_err(|refusal| Status::new(code(&refusal), refusal.to_string()))?;
        Ok(Response::new(answer.message()))
    }
}

fn code(refusal: &Refusal) -> Code {
    match refusal {
        Refusal::Query(_) => Code::InvalidArgument,
        Refusal::NotRecorded => Code::NotFound,
        Refusal::Engine(_) => Code::Internal,
    }
}

#[cfg(test)]
mod tests {
    use petasos::block_on;

    use super::*;
    use crate::recording::Record;

    #[test]
    fn a_recording_is_answered_one_after_another_and_nothing_else_is() {
        let took_ns = 3_000_000;
        let answer = Answer { total: 5, hits: Vec::new() };
        let record = Record { query: "bee".into(), kind: "term".into(), took_ns, answer };
        let deadlines = Deadlines::start();
        let recording = Recording::from([("bee".to_owned(), record)]);
        let source = Source::Recording { recording, stretch: 2.0, deadlines: deadlines.clone() };
        let workers = Workers::new(source);
        let worker = workers.worker();
        let begun = deadlines.now();
        let second = std::thread::spawn({
            let worker = worker.clone();
            move || block_on(worker.find("bee", 0)).map(|answer| answer.total)
        });
        let first = block_on(worker.find("bee", 0)).map(|answer| answer.total);
        let second = second.join().expect("it does not panic");
        assert_eq!((first.ok(), second.ok()), (Some(5), Some(5)));
        assert!(deadlines.now() >= begun.plus_nanos(4 * took_ns), "twice as long, and two of them");
        let other = block_on(worker.find("ant", 0));
        assert!(matches!(other, Err(Refusal::NotRecorded)), "{other:?}");
        assert_eq!(workers.answered(), 3);
    }
}
