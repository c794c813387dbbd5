//! Threads that make calls as long as processes are killed.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use petasos::{Channel, Request, block_on};
use petasos_base::sync::{AtomicBool, AtomicU64, Ordering};
use petasos_base::{SystemClock, Time};

use crate::error::BenchError;
use crate::router::client::Asked;
use crate::router::messages::generated::WorkClient;

/// How many calls are under way: some wait at workers.
const CALLERS: usize = 6;
/// How long a call may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// A call that has ended.
#[derive(Clone, Debug, Default)]
pub struct Call {
    pub begun: Time,
    pub ended: Time,
    /// Why it failed, if it did.
    pub failed: Option<String>,
    /// Of a call that may run once at most.
    pub number: Option<String>,
}

impl Call {
    /// How long it has taken, in microseconds.
    pub fn took_us(&self) -> f64 {
        (self.ended - self.begun).as_secs_f64() * 1e6
    }
}

/// Threads that call.
pub struct Callers {
    threads: Vec<JoinHandle<Vec<Call>>>,
    is_over: Arc<AtomicBool>,
    ended: Arc<AtomicU64>,
    seen: std::cell::Cell<u64>,
}

impl Callers {
    /// Starts them, and waits until the group can be called.
    ///
    /// # Errors
    /// If it cannot.
    pub fn start(group: &str, clock: &Arc<SystemClock>) -> Result<Callers, BenchError> {
        let client = WorkClient::new(block_on(Channel::connect(group))?);
        let (is_over, ended) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let start = |caller: usize| {
            let (client, clock) = (client.clone(), clock.clone());
            let (is_over, ended) = (is_over.clone(), ended.clone());
            std::thread::spawn(move || {
                let mut calls = Vec::new();
                while !is_over.load(Ordering::Relaxed) {
                    let number = format!("{caller}-{}", calls.len());
                    calls.push(call(&client, &clock, None));
                    calls.push(call(&client, &clock, Some(number)));
                    ended.fetch_add(2, Ordering::Relaxed);
                }
                calls
            })
        };
        let threads = (0..CALLERS).map(start).collect();
        Ok(Callers { threads, is_over, ended, seen: std::cell::Cell::new(0) })
    }

    /// Whether calls have ended since this was asked last.
    ///
    /// # Errors
    /// If none has.
    pub fn check(&self) -> Result<(), BenchError> {
        let ended = self.ended.load(Ordering::Relaxed);
        match self.seen.replace(ended) < ended {
            true => Ok(()),
            false => Err("calls have stopped".into()),
        }
    }

    /// Waits until all have ended, and returns all calls.
    ///
    /// # Errors
    /// If one has panicked.
    pub fn end(self) -> Result<Vec<Call>, BenchError> {
        self.is_over.store(true, Ordering::Relaxed);
        let mut calls = Vec::new();
        for thread in self.threads {
            calls.extend(thread.join().map_err(|_| "a caller has panicked")?);
        }
        Ok(calls)
    }
}

fn call(client: &WorkClient, clock: &SystemClock, number: Option<String>) -> Call {
    let bytes = number.clone().unwrap_or_default().into_bytes();
    let asked = Asked { bytes: bytes.into(), ..Asked::short(0) };
    let request = Request::new(asked.message()).with_timeout(PATIENCE);
    let begun = clock.now();
    let answer = match number {
        Some(_) => block_on(client.put(request)),
        None => block_on(client.get(request)),
    };
    let failed = answer.err().map(|status| status.to_string());
    Call { begun, ended: clock.now(), failed, number }
}
