//! Workers, for handlers that block or compute: a Tokio runtime, or the server's own threads.
//!
//! A handler on workers is a job; the loop awaits it through a [`Running`]. If that is dropped, the
//! job ends at its next await. If a job panics, the panic continues in the code that awaits it. A
//! job that waits occupies no thread, so streams that stay open do not keep other jobs from
//! running.
//!
//! Invariants: the number of unfinished jobs has the configured limit; no code of the application,
//! wakers included, runs under a lock.

use core::future::{Future, poll_fn};
use core::pin::{Pin, pin};
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::io;
use std::panic::resume_unwind;
use std::sync::{Arc, Mutex, MutexGuard};

use petasos_base::sync::{AtomicUsize, Ordering};
use petasos_base::{Clock, Time};
use petasos_call::Status;
use petasos_endpoint::{PeerKey, WorkerPool};
use petasos_rpc::current;
use petasos_rpc::intercept::CallSpan;

/// Polls a handler whose call has this much time left, outside of loops and workers.
pub async fn with_time_left<F: Future + Unpin>(timeout: Duration, mut handler: F) {
    let deadline = Clock::system().now() + timeout;
    poll_fn(|cx| current::with_deadline(deadline, || Pin::new(&mut handler).poll(cx))).await;
}

/// The number of jobs has reached its limit.
#[derive(Debug)]
pub struct Full;

impl From<Full> for Status {
    fn from(_: Full) -> Status {
        Status::resource_exhausted("too many calls wait for the server's workers")
    }
}

/// Runs handlers that block or compute, up to a number of jobs.
pub struct Workers {
    place: Place,
    /// Jobs that are not over.
    jobs: Arc<AtomicUsize>,
    jobs_max: usize,
}

enum Place {
    #[cfg(feature = "tokio")]
    Runtime(tokio::runtime::Handle),
    Threads(WorkerPool),
}

impl Workers {
    /// Runs jobs on this thread's Tokio runtime, if there is one, otherwise on `threads` new
    /// threads.
    pub fn start(threads: usize, jobs_max: usize) -> io::Result<Workers> {
        #[cfg(feature = "tokio")]
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let jobs = Arc::default();
            return Ok(Workers { place: Place::Runtime(runtime), jobs, jobs_max });
        }
        Workers::on_threads(threads, jobs_max)
    }

    /// Runs jobs on new threads.
    pub(crate) fn on_threads(threads: usize, jobs_max: usize) -> io::Result<Workers> {
        let place = Place::Threads(WorkerPool::new(threads, jobs_max)?);
        Ok(Workers { place, jobs: Arc::default(), jobs_max })
    }

    /// Runs the future that `make` returns, within a span if there is one. `make` is called only if
    /// another job is allowed. The loop awaits the result.
    pub fn run<F>(
        &self,
        timeout: Option<Duration>,
        span: CallSpan,
        make: impl FnOnce() -> F,
    ) -> Result<Running<F>, Full>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        self.run_for(PeerKey::default(), timeout, span, make)
    }

    /// Like [`Workers::run`], for a peer. On threads, each job of a peer waits for at most one job
    /// of each other peer.
    pub(crate) fn run_for<F>(
        &self,
        peer: PeerKey,
        timeout: Option<Duration>,
        span: CallSpan,
        make: impl FnOnce() -> F,
    ) -> Result<Running<F>, Full>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        // Relaxed: this count guards nothing else.
        if self.jobs.fetch_add(1, Ordering::Relaxed) >= self.jobs_max {
            self.jobs.fetch_sub(1, Ordering::Relaxed);
            return Err(Full);
        }
        let count = Count(self.jobs.clone());
        let deadline = timeout.map_or(Time::NEVER, |timeout| Clock::system().now() + timeout);
        let shared = Arc::new(JobState::default());
        let (state, future) = (shared.clone(), make());
        let job = async move {
            let _count = count;
            let mut future = pin!(future);
            let mut poll = |cx: &mut Context<'_>| state.poll_job(deadline, future.as_mut(), cx);
            poll_fn(|cx| span.around(|| poll(cx))).await;
        };
        match &self.place {
            #[cfg(feature = "tokio")]
            Place::Runtime(runtime) => drop(runtime.spawn(job)),
            Place::Threads(threads) => threads.spawn_for(peer, job),
        }
        Ok(Running { shared })
    }
}

/// Counts a job until it is dropped.
struct Count(Arc<AtomicUsize>);

impl Drop for Count {
    fn drop(&mut self) {
        // Relaxed: as above.
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The state that a job shares with the code that awaits it.
struct JobState<T> {
    stage: Mutex<Stage<T>>,
}

enum Stage<T> {
    Running {
        worker: Option<Waker>,
        awaiting: Option<Waker>,
    },
    Done(std::thread::Result<T>),
    /// The result was taken, or nobody wants it.
    Over,
}

impl<T> Default for JobState<T> {
    fn default() -> JobState<T> {
        JobState { stage: Mutex::new(Stage::Running { worker: None, awaiting: None }) }
    }
}

impl<T> JobState<T> {
    fn stage(&self) -> MutexGuard<'_, Stage<T>> {
        self.stage.lock().expect("nothing panics under the lock")
    }

    fn poll_job<F: Future<Output = T>>(
        &self,
        deadline: Time,
        future: Pin<&mut F>,
        cx: &mut Context<'_>,
    ) -> Poll<()> {
        let waker = cx.waker().clone();
        let earlier = match &mut *self.stage() {
            Stage::Running { worker, .. } => worker.replace(waker),
            _ => return Poll::Ready(()),
        };
        drop(earlier);
        match current::catch_with_deadline(deadline, || future.poll(cx)) {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(output)) => self.finish(Ok(output)),
            Err(panic) => self.finish(Err(panic)),
        }
    }

    fn finish(&self, result: std::thread::Result<T>) -> Poll<()> {
        let mut stage = self.stage();
        if let Stage::Running { awaiting, worker } = &mut *stage {
            let wakers = (awaiting.take(), worker.take());
            *stage = Stage::Done(result);
            drop(stage);
            if let (Some(awaiting), _) = wakers {
                awaiting.wake();
            }
        }
        Poll::Ready(())
    }
}

/// Awaits a job.
pub struct Running<F: Future> {
    shared: Arc<JobState<F::Output>>,
}

impl<F: Future> Future for Running<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let waker = cx.waker().clone();
        let mut stage = self.shared.stage();
        if let Stage::Running { awaiting, .. } = &mut *stage {
            let earlier = awaiting.replace(waker);
            drop(stage);
            drop(earlier);
            return Poll::Pending;
        }
        let earlier = core::mem::replace(&mut *stage, Stage::Over);
        drop(stage);
        match earlier {
            Stage::Done(Ok(output)) => Poll::Ready(output),
            Stage::Done(Err(panic)) => resume_unwind(panic),
            _ => panic!("a job is not awaited once it is over"),
        }
    }
}

impl<F: Future> Drop for Running<F> {
    fn drop(&mut self) {
        let earlier = core::mem::replace(&mut *self.shared.stage(), Stage::Over);
        if let Stage::Running { worker: Some(worker), .. } = earlier {
            worker.wake();
        }
    }
}
