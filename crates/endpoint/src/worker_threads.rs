//! Threads that poll jobs. A job that waits occupies no thread: its waker puts it on the queue
//! again.
//!
//! Invariants: a task is on the queue at most once, exactly while it is `Queued`; one thread at a
//! time polls it. Only these threads poll and drop jobs, and never under a lock: code that wakes a
//! task may hold locks that a job's drop takes, as `h2` does. So when the pool is closed, the
//! threads stay until all jobs are over.

use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::task::Wake;

use crate::fair_queue::FairQueue;
use crate::peer_key::PeerKey;

pub(crate) type Job = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The state that the threads share.
#[derive(Default)]
pub(crate) struct Threads {
    state: Mutex<State>,
    more: Condvar,
}

#[derive(Default)]
struct State {
    /// Tasks that wait for a thread.
    queue: FairQueue<PeerKey, Arc<Task>>,
    /// Tasks that are not over.
    tasks: usize,
    /// Whether the pool is closed: no more jobs come.
    is_closed: bool,
}

struct Task {
    peer: PeerKey,
    threads: Arc<Threads>,
    stage: Mutex<Stage>,
}

enum Stage {
    /// Waits to be woken.
    Waiting(Job),
    Queued(Job),
    /// A thread has the job.
    Polled {
        is_woken: bool,
    },
    Over,
}

impl Threads {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics under the lock")
    }

    /// Adds a job of `peer`.
    pub(crate) fn spawn(self: &Arc<Self>, peer: PeerKey, job: Job) {
        let stage = Mutex::new(Stage::Queued(job));
        let task = Arc::new(Task { peer, threads: self.clone(), stage });
        self.state().tasks += 1;
        self.push(task);
    }

    fn push(&self, task: Arc<Task>) {
        self.state().queue.push(task.peer, task);
        self.more.notify_one();
    }

    /// Closes the pool: no more jobs come, and the threads end with the last one.
    pub(crate) fn close(&self) {
        self.state().is_closed = true;
        self.more.notify_all();
    }

    /// The main function of a thread.
    pub(crate) fn work(&self) {
        while let Some(task) = self.next() {
            if task.run() {
                let mut state = self.state();
                state.tasks -= 1;
                if state.is_closed && state.tasks == 0 {
                    self.more.notify_all();
                }
            }
        }
    }

    fn next(&self) -> Option<Arc<Task>> {
        let mut state = self.state();
        loop {
            if let Some(task) = state.queue.pop() {
                return Some(task);
            }
            if state.is_closed && state.tasks == 0 {
                return None;
            }
            state = self.more.wait(state).expect("nothing panics under the lock");
        }
    }
}

impl Task {
    fn stage(&self) -> MutexGuard<'_, Stage> {
        self.stage.lock().expect("nothing panics under the lock")
    }

    /// Polls the job. Returns whether it is over; a job that panics is.
    fn run(self: Arc<Self>) -> bool {
        let polled = Stage::Polled { is_woken: false };
        let earlier = core::mem::replace(&mut *self.stage(), polled);
        let Stage::Queued(mut job) = earlier else { unreachable!("it was on the queue") };
        let waker = Waker::from(self.clone());
        let mut context = Context::from_waker(&waker);
        let poll = || job.as_mut().poll(&mut context);
        if !matches!(catch_unwind(AssertUnwindSafe(poll)), Ok(Poll::Pending)) {
            *self.stage() = Stage::Over;
            let _ = catch_unwind(AssertUnwindSafe(|| drop(job)));
            return true;
        }
        let mut stage = self.stage();
        if matches!(*stage, Stage::Polled { is_woken: false }) {
            *stage = Stage::Waiting(job);
            return false;
        }
        *stage = Stage::Queued(job);
        drop(stage);
        let threads = self.threads.clone();
        threads.push(self);
        false
    }
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        let mut stage = self.stage();
        match core::mem::replace(&mut *stage, Stage::Over) {
            Stage::Waiting(job) => {
                *stage = Stage::Queued(job);
                drop(stage);
                let threads = self.threads.clone();
                threads.push(self);
            }
            Stage::Polled { .. } => *stage = Stage::Polled { is_woken: true },
            other => *stage = other,
        }
    }
}

#[cfg(test)]
mod tests {
    use core::future::poll_fn;
    use std::sync::mpsc;

    use super::*;

    /// Threads that poll until the last is gone, which is awaited.
    fn with_threads(count: usize, test: impl FnOnce(&Arc<Threads>)) {
        let threads = Arc::<Threads>::default();
        let started: Vec<_> = (0..count)
            .map(|_| {
                let threads = threads.clone();
                std::thread::spawn(move || threads.work())
            })
            .collect();
        test(&threads);
        threads.close();
        started.into_iter().for_each(|thread| thread.join().expect("it does not panic"));
    }

    /// A job that waits `times` times, giving its waker away each time, and then tells its end.
    fn waiting(times: u32, wakers: mpsc::Sender<Waker>, end: mpsc::Sender<()>) -> Job {
        let mut left = times;
        Box::pin(async move {
            poll_fn(|cx| {
                if left == 0 {
                    return Poll::Ready(());
                }
                left -= 1;
                let _ = wakers.send(cx.waker().clone());
                Poll::Pending
            })
            .await;
            let _ = end.send(());
        })
    }

    #[test]
    fn jobs_that_wait_have_no_thread() {
        with_threads(1, |threads| {
            let (wakers, held) = mpsc::channel();
            let (end, ended) = mpsc::channel();
            for _ in 0..10 {
                threads.spawn(PeerKey::default(), waiting(1, wakers.clone(), end.clone()));
            }
            let held: Vec<Waker> = held.iter().take(10).collect();
            assert!(ended.try_recv().is_err(), "all wait on one thread");
            held.into_iter().for_each(Waker::wake);
            assert_eq!(ended.iter().take(10).count(), 10);
        });
    }

    #[test]
    fn no_wake_is_lost_and_none_polls_twice_at_once() {
        with_threads(3, |threads| {
            let (wakers, held) = mpsc::channel();
            let (end, ended) = mpsc::channel();
            threads.spawn(PeerKey::default(), waiting(2000, wakers, end));
            // Woken while it is polled as often as not.
            for waker in held {
                waker.wake_by_ref();
                waker.wake();
            }
            ended.recv().expect("it ends");
        });
    }

    #[test]
    fn a_job_that_panics_harms_no_other() {
        with_threads(1, |threads| {
            let (end, ended) = mpsc::channel();
            threads.spawn(
                PeerKey::default(),
                Box::pin(async { panic!("a job that fails on purpose") }),
            );
            threads.spawn(PeerKey::default(), waiting(0, mpsc::channel().0, end));
            ended.recv().expect("the thread lives");
        });
    }
}
