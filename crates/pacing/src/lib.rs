//! Workers whose service times are deadlines that they sleep through, not work: as many as one
//! likes fit a machine with two cores, and packets do not compete with them.
//!
//! A worker serves one request at a time, in the order they come. As it knows how long each takes,
//! it knows the end when a request comes, and only waits for that. If it is woken up late, the next
//! request is not late because of it.
//!
//! Boundary rule: knows time; knows nothing of requests, and of how they come.

#![forbid(unsafe_code)]

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::num::NonZero;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use petasos_base::{SystemClock, Time};

/// A worker that serves one request after another.
#[derive(Clone, Copy, Debug, Default)]
pub struct OneByOne {
    free_at: Time,
}

impl OneByOne {
    /// When a request has been served that comes now and takes so long.
    pub fn served_at(&mut self, now: Time, takes_ns: u64) -> Time {
        self.free_at = self.free_at.max(now).plus_nanos(takes_ns);
        self.free_at
    }
}

/// Wakes tasks up when it is time. One thread does that for all workers.
#[derive(Debug)]
pub struct Deadlines {
    clock: SystemClock,
    due: Mutex<Due>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Due {
    at: BinaryHeap<Reverse<(Time, u64)>>,
    wakers: std::collections::HashMap<u64, Waker>,
    next: u64,
}

impl Deadlines {
    /// Starts the thread. It lives as long as the process.
    pub fn start() -> Arc<Deadlines> {
        let (due, changed) = (Mutex::default(), Condvar::new());
        let deadlines = Arc::new(Deadlines { clock: SystemClock::default(), due, changed });
        let its = deadlines.clone();
        std::thread::spawn(move || {
            wake_up_in_time();
            its.run();
        });
        deadlines
    }

    /// The time.
    pub fn now(&self) -> Time {
        self.clock.now()
    }

    /// Waits until a time.
    pub async fn until(&self, at: Time) {
        std::future::poll_fn(|cx| self.poll_until(at, cx)).await;
    }

    fn poll_until(&self, at: Time, cx: &Context<'_>) -> Poll<()> {
        if self.clock.now() >= at {
            return Poll::Ready(());
        }
        let mut due = self.lock();
        let number = due.next;
        due.next += 1;
        let is_first = due.at.peek().is_none_or(|Reverse((first, _))| at < *first);
        due.at.push(Reverse((at, number)));
        due.wakers.insert(number, cx.waker().clone());
        if is_first {
            self.changed.notify_one();
        }
        Poll::Pending
    }

    fn run(&self) {
        let mut due = self.lock();
        loop {
            let now = self.clock.now();
            while let Some(Reverse((at, number))) = due.at.peek().copied()
                && at <= now
            {
                due.at.pop();
                due.wakers.remove(&number).expect("each has one").wake();
            }
            let first = due.at.peek().map(|Reverse((at, _))| *at - now);
            let wait = first.unwrap_or(Duration::from_secs(3600));
            due = self.changed.wait_timeout(due, wait).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Due> {
        self.due.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Lets this thread's sleeps end when they should: by default they may take 50 µs longer.
pub fn wake_up_in_time() {
    if let Err(error) = rustix::thread::set_current_timer_slack(NonZero::new(1)) {
        eprintln!("sleeps will end late: {error}");
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::Wake;
    use std::thread::Thread;

    use super::*;

    struct Unpark(Thread);

    impl Wake for Unpark {
        fn wake(self: Arc<Unpark>) {
            self.0.unpark();
        }
    }

    fn block_on(future: impl Future<Output = ()>) {
        let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
        let mut future = pin!(future);
        while future.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {
            std::thread::park();
        }
    }

    #[test]
    fn requests_are_served_one_after_the_other() {
        let mut worker = OneByOne::default();
        let at = |ns| Time::from_nanos(ns);
        assert_eq!(worker.served_at(at(0), 1000), at(1000));
        assert_eq!(worker.served_at(at(50), 1000), at(2000), "it waits for the first");
        assert_eq!(worker.served_at(at(9000), 7), at(9007));
    }

    #[test]
    fn all_are_woken_up_whatever_their_order() {
        let deadlines = Deadlines::start();
        let now = deadlines.now();
        let waits: Vec<_> = [3_000_000, 1_000_000, 2_000_000]
            .map(|ns| {
                let deadlines = deadlines.clone();
                std::thread::spawn(move || {
                    block_on(deadlines.until(now.plus_nanos(ns)));
                    assert!(deadlines.now() >= now.plus_nanos(ns));
                })
            })
            .into();
        waits.into_iter().for_each(|thread| thread.join().expect("it was not too early"));
    }
}
