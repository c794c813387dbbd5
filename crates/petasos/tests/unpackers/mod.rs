//! Holds the threads that decompress what comes in datagrams, so that a test decides when.
#![allow(dead_code, reason = "each test file uses its own part")]

use std::net::IpAddr;
use std::num::NonZero;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use petasos_base::sync::{AtomicUsize, Ordering};
use petasos_endpoint::PeerKey;
use petasos_runtime::unpacking::{self, Busy, Unpacking};

/// Far longer than any test.
const PATIENCE: Duration = Duration::from_secs(60);
/// The messages that may wait in the process.
pub const PLACES: usize = 1024;

/// The threads are the process's.
static ONLY: Mutex<()> = Mutex::new(());

/// Messages of a peer that nobody else has, as many as are taken. Each keeps its thread until it is
/// released, at the latest when this is dropped.
pub struct Unpackers {
    waiting: Vec<Unpacking<()>>,
    release: mpsc::Sender<()>,
    _only: MutexGuard<'static, ()>,
}

impl Unpackers {
    /// No thread is free any more when this returns.
    pub fn hold() -> Unpackers {
        let only = ONLY.lock().unwrap_or_else(PoisonError::into_inner);
        let (release, released) = mpsc::channel();
        let (released, started) = (Arc::new(Mutex::new(released)), Arc::new(AtomicUsize::new(0)));
        let processors = std::thread::available_parallelism().map_or(1, NonZero::get);
        let threads = (processors / 2).max(1);
        let mut waiting = Vec::new();
        loop {
            let (released, started_too) = (released.clone(), started.clone());
            let unpack = move || {
                started_too.fetch_add(1, Ordering::Relaxed);
                let released = released.lock().unwrap_or_else(PoisonError::into_inner);
                let outcome = released.recv_timeout(PATIENCE);
                assert_ne!(outcome, Err(RecvTimeoutError::Timeout), "it is never released");
            };
            let peer = PeerKey::of_address(IpAddr::from([203, 0, 113, 1]));
            match unpacking::start(peer, unpack) {
                Ok(unpacking) => waiting.push(unpacking),
                Err(Busy) if started.load(Ordering::Relaxed) >= threads => break,
                // Those of an earlier test have been given up, and still have to be let go.
                Err(Busy) => std::thread::yield_now(),
            }
            assert!(waiting.len() <= PLACES, "there is no end to what is taken");
        }
        Unpackers { waiting, release, _only: only }
    }

    pub fn taken(&self) -> usize {
        self.waiting.len()
    }

    /// Lets one message end.
    pub fn release_one(&self) {
        self.release.send(()).expect("messages wait for it");
    }
}
