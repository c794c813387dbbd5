//! Calls that are futures, as a target: whatever makes them.

use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Wake;
use std::thread::Thread;

use crate::target::{Answers, Target, TargetError};

/// What lets calls go on, if they need the thread that polls them.
pub trait Driver {
    /// Does what there is to do, without waiting.
    fn turn(&mut self);

    /// Sleeps until there may be something to do, or a waker of a call wakes this thread
    /// ([`Thread::unpark`]), for at most `timeout`.
    fn wait(&mut self, timeout: Duration);
}

/// For calls that go on in other threads.
#[derive(Clone, Copy, Debug, Default)]
pub struct Parked;

impl Driver for Parked {
    fn turn(&mut self) {}

    fn wait(&mut self, timeout: Duration) {
        std::thread::park_timeout(timeout);
    }
}

/// Calls of one kind, each made by `make`, which begins it.
pub struct Calls<M, F, D> {
    make: M,
    /// Dropped before what drives them.
    slots: Vec<CallSlot<F>>,
    driver: D,
    woken: Arc<Mutex<Vec<u32>>>,
    /// What is polled now; its room is kept.
    polled: Vec<u32>,
    /// Whether calls leave with the next poll.
    is_lazy: bool,
}

struct CallSlot<F> {
    call: Option<Pin<Box<F>>>,
    waker: Waker,
}

impl<M, F, D> Calls<M, F, D>
where
    M: FnMut() -> F,
    F: Future<Output = Result<(), String>>,
    D: Driver,
{
    /// At most `outstanding_max` calls at once. They are polled by this thread.
    pub fn new(make: M, driver: D, outstanding_max: u32) -> Calls<M, F, D> {
        let woken = Arc::new(Mutex::new(Vec::with_capacity(outstanding_max as usize)));
        let thread = std::thread::current();
        let slot = |number| {
            let woken = Woken { slot: number, woken: woken.clone(), thread: thread.clone() };
            CallSlot { call: None, waker: Waker::from(Arc::new(woken)) }
        };
        let slots = (0..outstanding_max).map(slot).collect();
        Calls { make, slots, driver, woken, polled: Vec::new(), is_lazy: false }
    }

    /// Lets calls leave with the next poll, so that those that are begun before it leave together:
    /// for closed loops, where no time of sending is asked for.
    pub fn lazy(self) -> Calls<M, F, D> {
        Calls { is_lazy: true, ..self }
    }
}

impl<M, F, D> Target for Calls<M, F, D>
where
    M: FnMut() -> F,
    F: Future<Output = Result<(), String>>,
    D: Driver,
{
    fn outstanding_max(&self) -> usize {
        self.slots.len()
    }

    fn send(&mut self, slot: u32) -> Result<(), TargetError> {
        self.slots[slot as usize].call = Some(Box::pin((self.make)()));
        // A call has a waker once it is polled.
        lock(&self.woken).push(slot);
        if !self.is_lazy {
            self.driver.turn();
        }
        Ok(())
    }

    fn poll(&mut self, answers: &mut Answers) -> Result<(), TargetError> {
        self.driver.turn();
        core::mem::swap(&mut self.polled, &mut lock(&self.woken));
        for number in self.polled.drain(..) {
            let slot = &mut self.slots[number as usize];
            // A waker may wake more than once, and late.
            let Some(call) = &mut slot.call else { continue };
            if let Poll::Ready(result) = call.as_mut().poll(&mut Context::from_waker(&slot.waker)) {
                slot.call = None;
                answers.push(number, result);
            }
        }
        Ok(())
    }

    fn wait(&mut self, timeout: Duration) {
        if lock(&self.woken).is_empty() {
            self.driver.wait(timeout);
        }
    }
}

/// The waker of a slot's calls.
struct Woken {
    slot: u32,
    woken: Arc<Mutex<Vec<u32>>>,
    thread: Thread,
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        lock(&self.woken).push(self.slot);
        self.thread.unpark();
    }
}

fn lock(woken: &Mutex<Vec<u32>>) -> std::sync::MutexGuard<'_, Vec<u32>> {
    // Nothing panics while it holds the lock, and numbers are right at any time.
    woken.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};

    use petasos_base::Clock;

    use super::*;

    /// A call that another thread completes.
    struct Call {
        done: Receiver<Result<(), String>>,
        wakers: Sender<Waker>,
    }

    impl Future for Call {
        type Output = Result<(), String>;

        fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
            match self.done.try_recv() {
                Ok(result) => Poll::Ready(result),
                Err(_) => {
                    self.wakers.send(cx.waker().clone()).expect("the test reads it");
                    Poll::Pending
                }
            }
        }
    }

    fn polled(target: &mut impl Target) -> Vec<(u32, Result<(), String>)> {
        let mut answers = Answers::new(&Clock::system());
        target.poll(&mut answers).expect("it is never lost");
        answers.drain().map(|answer| (answer.slot, answer.result)).collect()
    }

    #[test]
    fn calls_are_answered_as_they_complete() {
        let (wakers, woken) = channel();
        let (completers, completer) = channel();
        let make = || {
            let (complete, done) = channel();
            completers.send(complete).expect("the test keeps them");
            Call { done, wakers: wakers.clone() }
        };
        let mut calls = Calls::new(make, Parked, 3);
        (0..3).for_each(|slot| calls.send(slot).expect("it is never lost"));
        assert_eq!(polled(&mut calls), []);
        let all: Vec<_> = completer.try_iter().zip(woken.try_iter()).collect();
        for slot in [2, 0, 1] {
            let (complete, waker) = &all[slot as usize];
            complete.send(Ok(())).expect("the call is there");
            assert_eq!(polled(&mut calls), [], "nothing is polled that was not woken");
            waker.wake_by_ref();
            assert_eq!(polled(&mut calls), [(slot, Ok(()))]);
        }
    }

    /// Counts turns.
    #[derive(Default)]
    struct Turns(Arc<Mutex<u32>>);

    impl Driver for Turns {
        fn turn(&mut self) {
            *self.0.lock().expect("nothing panics") += 1;
        }

        fn wait(&mut self, _: Duration) {}
    }

    #[test]
    fn lazy_calls_leave_together_with_a_poll() {
        let make = || core::future::ready(Ok(()));
        for (is_lazy, expected) in [(false, 3), (true, 0)] {
            let turns = Turns::default();
            let count = turns.0.clone();
            let calls = Calls::new(make, turns, 3);
            let mut calls = if is_lazy { calls.lazy() } else { calls };
            (0..3).for_each(|slot| calls.send(slot).expect("it is never lost"));
            assert_eq!(*count.lock().expect("nothing panics"), expected);
            assert_eq!(polled(&mut calls).len(), 3);
            assert_eq!(*count.lock().expect("nothing panics"), expected + 1);
        }
    }

    #[test]
    fn a_call_wakes_the_thread_that_waits() {
        let (wakers, woken) = channel::<Waker>();
        let (complete, done) = channel();
        let mut call = Some(Call { done, wakers });
        let make = || call.take().expect("it is called once");
        let mut calls = Calls::new(make, Parked, 1);
        calls.send(0).expect("it is never lost");
        assert_eq!(polled(&mut calls), []);
        let other = std::thread::spawn(move || {
            complete.send(Err("no".to_owned())).expect("the call is there");
            let waker = woken.recv().expect("it was polled");
            waker.wake_by_ref();
            waker.wake();
        });
        // Far longer than it takes: without the waker, the watchdog of tests would end this.
        let mut answered = Vec::new();
        while answered.is_empty() {
            calls.wait(Duration::from_secs(3600));
            answered = polled(&mut calls);
        }
        assert_eq!(answered, [(0, Err("no".to_owned()))]);
        other.join().expect("it does not panic");
        assert_eq!(polled(&mut calls), [], "waking a call that is over does nothing");
    }
}
