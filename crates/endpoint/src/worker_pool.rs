//! Threads that run worker handlers, beside any loop.
//!
//! How a pool ends: when its last clone is dropped (endpoints hold one per method), its threads
//! finish what is queued, and the drop waits for them.

use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;

use petasos_buf::MsgBuf;
use petasos_wire::RejectCode;

use crate::handler::RequestHandle;
use crate::mail::{Mail, WorkerAnswer};
use crate::mailbox::Mailbox;

/// Answers up to this length are copied into the slot's preallocated response.
pub(crate) const COPIED_BYTES_MAX: usize = 4096;

/// A request as a worker sees it.
#[derive(Clone, Copy, Debug)]
pub struct WorkerRequest<'a> {
    /// Which method was called.
    pub method: u16,
    /// The request's bytes.
    pub payload: &'a [u8],
}

/// What runs on a worker thread for each request of a method. An error declines to answer, with
/// that reason; a panic answers [`RejectCode::HandlerFailed`].
pub type WorkerHandler = dyn Fn(WorkerRequest<'_>) -> Result<MsgBuf, RejectCode> + Send + Sync;

/// Threads that run worker handlers, for one endpoint or several. Clones are the same pool.
#[derive(Clone)]
pub struct WorkerPool {
    inner: Arc<PoolInner>,
}

struct PoolInner {
    shared: Arc<PoolShared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

struct PoolShared {
    queue: Mutex<Queue>,
    news: Condvar,
    queue_max: usize,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    closed: bool,
}

/// A request on its way to a worker, and where the answer goes.
pub(crate) struct Job {
    pub(crate) handle: RequestHandle,
    pub(crate) method: u16,
    pub(crate) request: MsgBuf,
    pub(crate) handler: Arc<WorkerHandler>,
    pub(crate) answer_to: Arc<Mailbox<Mail>>,
}

/// One method's entry in the endpoint.
pub(crate) struct WorkerMethod {
    pub(crate) pool: WorkerPool,
    pub(crate) handler: Arc<WorkerHandler>,
    pub(crate) answer_to: Arc<Mailbox<Mail>>,
}

impl WorkerPool {
    /// Starts `threads` threads, at least one. At most `queue_max` requests wait for one.
    ///
    /// # Errors
    /// The system's, if it gives no thread.
    pub fn new(threads: usize, queue_max: usize) -> io::Result<WorkerPool> {
        let shared =
            Arc::new(PoolShared { queue: Mutex::default(), news: Condvar::new(), queue_max });
        let inner = PoolInner { shared: shared.clone(), threads: Mutex::default() };
        // From here on a failure ends the threads that have been started.
        let pool = WorkerPool { inner: Arc::new(inner) };
        for number in 0..threads.max(1) {
            let shared = shared.clone();
            let builder = std::thread::Builder::new().name(format!("petasos-worker-{number}"));
            let thread = builder.spawn(move || shared.work())?;
            pool.inner.threads().push(thread);
        }
        Ok(pool)
    }

    /// Queues `job` for a thread, or gives it back if too many wait.
    pub(crate) fn submit(&self, job: Job) -> Result<(), Job> {
        let shared = &self.inner.shared;
        let mut queue = shared.queue();
        if queue.jobs.len() >= shared.queue_max {
            return Err(job);
        }
        queue.jobs.push_back(job);
        drop(queue);
        shared.news.notify_one();
        Ok(())
    }
}

impl core::fmt::Debug for WorkerPool {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let waiting = self.inner.shared.queue().jobs.len();
        f.debug_struct("WorkerPool").field("waiting", &waiting).finish_non_exhaustive()
    }
}

impl PoolShared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().expect("nothing panics under the lock")
    }

    /// A worker thread's life.
    fn work(&self) {
        while let Some(job) = self.next() {
            job.run();
        }
    }

    fn next(&self) -> Option<Job> {
        let mut queue = self.queue();
        loop {
            if let Some(job) = queue.jobs.pop_front() {
                return Some(job);
            }
            if queue.closed {
                return None;
            }
            queue = self.news.wait(queue).expect("nothing panics under the lock");
        }
    }
}

impl PoolInner {
    fn threads(&self) -> MutexGuard<'_, Vec<JoinHandle<()>>> {
        self.threads.lock().expect("nothing panics under the lock")
    }
}

impl Drop for PoolInner {
    fn drop(&mut self) {
        self.shared.queue().closed = true;
        self.shared.news.notify_all();
        let this = std::thread::current().id();
        for thread in self.threads().drain(..) {
            // A handler may own the last clone; then its own thread ends by itself.
            if thread.thread().id() != this {
                // Handlers' panics are caught; whatever else there is, a drop must not panic.
                let _ = thread.join();
            }
        }
    }
}

impl Job {
    fn run(self) {
        let Job { handle, method, request, handler, answer_to } = self;
        // What a panicking handler leaves behind is its own; the pool shares nothing with it.
        let run = || handler(WorkerRequest { method, payload: &request });
        let result = catch_unwind(AssertUnwindSafe(run));
        let result = result.unwrap_or(Err(RejectCode::HandlerFailed)).map(in_pool_class);
        let answer = Box::new(WorkerAnswer { handle, request, result });
        // If the endpoint is gone, so is the call.
        let _ = answer_to.post(Mail::Answer(answer));
    }
}

/// A long answer moves into the endpoint's pool, whose buffers have capacities of powers of two:
/// if it has to be copied for that, then here and not in the loop.
fn in_pool_class(answer: MsgBuf) -> MsgBuf {
    if answer.len() <= COPIED_BYTES_MAX || answer.capacity().is_power_of_two() {
        return answer;
    }
    let mut copy = MsgBuf::with_capacity(answer.len().next_power_of_two());
    copy.copy_from(&answer);
    copy
}
