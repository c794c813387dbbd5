//! Workers whose service times are deadlines that they sleep through, not work: as many as one
//! likes fit a machine with two cores, and packets do not compete with them.
//!
//! A worker serves one request at a time, in the order they come. As it knows how long each takes,
//! it knows the end when a request comes, and only waits for that. If it is woken up late, the next
//! request is not late because of it.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::num::NonZero;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use petasos_base::{Rng, SystemClock, Time};
use petasos_queueing::Service;

/// How long requests take.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    pub service: Service,
    /// The mean, in nanoseconds; with 0, workers answer at once.
    pub mean_ns: u64,
    /// How much longer a request is on its way to the worker than it really is, and its answer on
    /// the way back: as if the worker were further away.
    pub way_ns: u64,
}

/// A worker's queue.
#[derive(Debug)]
pub struct Queue {
    times: Times,
    rng: Rng,
    free_at: Time,
}

impl Queue {
    pub fn new(times: Times, seed: u64) -> Queue {
        Queue { times, rng: Rng::new(seed), free_at: Time::ZERO }
    }

    /// When a request that comes now is to be answered. With `sleep_ns`, it takes so long and waits
    /// for nobody.
    pub fn answered_at(&mut self, now: Time, sleep_ns: u64) -> Time {
        let Times { service, mean_ns, way_ns } = self.times;
        if sleep_ns > 0 {
            return now.plus_nanos(sleep_ns);
        }
        if mean_ns == 0 {
            return now;
        }
        let takes_ns = (service.sample(&mut self.rng) * mean_ns as f64) as u64;
        self.free_at = self.free_at.max(now.plus_nanos(way_ns)).plus_nanos(takes_ns);
        self.free_at.plus_nanos(way_ns)
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
        eprintln!("petasos bench: sleeps will end late: {error}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_served_one_after_the_other() {
        let times = Times { service: Service::Deterministic, mean_ns: 1000, way_ns: 100 };
        let mut queue = Queue::new(times, 1);
        let at = |ns| Time::from_nanos(ns);
        assert_eq!(queue.answered_at(at(0), 0), at(1200));
        assert_eq!(queue.answered_at(at(50), 0), at(2200), "it waits for the first");
        assert_eq!(queue.answered_at(at(60), 7), at(67), "this one waits for nobody");
        assert_eq!(queue.answered_at(at(9000), 0), at(10_200));
        let mut at_once = Queue::new(Times { mean_ns: 0, ..times }, 1);
        assert_eq!(at_once.answered_at(at(5), 0), at(5));
    }

    #[test]
    fn all_are_woken_up_whatever_their_order() {
        let deadlines = Deadlines::start();
        let now = deadlines.now();
        let waits: Vec<_> = [3_000_000, 1_000_000, 2_000_000]
            .map(|ns| {
                let deadlines = deadlines.clone();
                std::thread::spawn(move || {
                    petasos::block_on(deadlines.until(now.plus_nanos(ns)));
                    assert!(deadlines.now() >= now.plus_nanos(ns));
                })
            })
            .into();
        waits.into_iter().for_each(|thread| thread.join().expect("it was not too early"));
    }
}
