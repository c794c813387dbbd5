//! Threads for jobs that take long or block.
//!
//! One pool serves both kinds of handlers: functions over bytes ([`Endpoint::register_worker`]) and
//! the futures of the layer above. A function is a job that never waits.
//!
//! [`Endpoint::register_worker`]: crate::Endpoint::register_worker

use core::future::Future;
use std::io;
use std::sync::Arc;

use petasos_base::sync::{AtomicUsize, Ordering};

use crate::peer_key::PeerKey;
use crate::worker_threads::Threads;

/// Threads that run jobs, for one endpoint or several. Clones are the same pool.
///
/// When the last clone is dropped (endpoints hold one per method), the threads end with the last
/// job. The drop does not wait for them: see [`Endpoint::shut_down`](crate::Endpoint::shut_down).
#[derive(Clone)]
pub struct WorkerPool {
    inner: Arc<Inner>,
}

struct Inner {
    threads: Arc<Threads>,
    /// Requests for worker methods that no thread has started yet.
    waiting: Arc<AtomicUsize>,
    waiting_max: usize,
}

impl WorkerPool {
    /// Starts `threads` threads, at least one. At most `waiting_max` requests for worker methods
    /// wait for one.
    ///
    /// # Errors
    /// The system's, if it cannot start a thread.
    pub fn new(threads: usize, waiting_max: usize) -> io::Result<WorkerPool> {
        let shared = Arc::<Threads>::default();
        let inner = Inner { threads: shared.clone(), waiting: Arc::default(), waiting_max };
        // From here on a failure ends the threads that have been started.
        let pool = WorkerPool { inner: Arc::new(inner) };
        for number in 0..threads.max(1) {
            let shared = shared.clone();
            let thread = std::thread::Builder::new().name(format!("petasos-worker-{number}"));
            thread.spawn(move || shared.work())?;
        }
        Ok(pool)
    }

    /// Runs a job, however many wait. One thread at a time polls it; while it waits, it occupies no
    /// thread. A panic ends only the job.
    pub fn spawn(&self, job: impl Future<Output = ()> + Send + 'static) {
        self.spawn_for(PeerKey::default(), job);
    }

    /// Like [`WorkerPool::spawn`], for a peer. Peers take turns: however many jobs of one peer
    /// wait, each job of another waits for only one of them.
    pub fn spawn_for(&self, peer: PeerKey, job: impl Future<Output = ()> + Send + 'static) {
        self.inner.threads.spawn(peer, Box::pin(job));
    }

    /// Runs the job that `make` returns for `request`, or returns the request if too many wait.
    pub(crate) fn submit<T, F>(&self, request: T, make: impl FnOnce(T) -> F) -> Result<(), T>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let Some(place) = Place::take(&self.inner) else { return Err(request) };
        let job = make(request);
        self.spawn(async move {
            drop(place);
            job.await;
        });
        Ok(())
    }
}

impl core::fmt::Debug for WorkerPool {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let waiting = self.inner.waiting.load(Ordering::Relaxed);
        f.debug_struct("WorkerPool").field("waiting", &waiting).finish_non_exhaustive()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.threads.close();
    }
}

/// A place among the waiting requests.
struct Place(Arc<AtomicUsize>);

impl Place {
    fn take(pool: &Inner) -> Option<Place> {
        // Relaxed: this count guards nothing else.
        let earlier = pool.waiting.fetch_add(1, Ordering::Relaxed);
        let place = Place(pool.waiting.clone());
        (earlier < pool.waiting_max).then_some(place)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // Relaxed: as above.
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
