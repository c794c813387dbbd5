//! Futures that programs spawn on a loop.

use core::cell::RefCell;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;

use petasos_base::Time;

use super::local::{Local, Task};
use super::shared::TaskWaker;

type Spawned = Pin<Box<dyn Future<Output = ()>>>;

struct Slot {
    /// `None` while it is polled, and when it is free.
    future: Option<Spawned>,
    alarm: Arc<TaskWaker>,
    waker: Waker,
}

/// The spawned futures of a loop.
#[derive(Default)]
pub(crate) struct Tasks {
    slots: Vec<Slot>,
    free: Vec<u32>,
}

impl Local {
    /// Adds a future, to be polled in the next turn.
    pub(crate) fn spawn(&self, future: Spawned) {
        let mut tasks = self.tasks.borrow_mut();
        let slot = match tasks.free.pop() {
            Some(slot) => {
                tasks.slots[slot as usize].future = Some(future);
                slot
            }
            None => {
                let slot = tasks.slots.len() as u32;
                let alarm = TaskWaker::new(&self.shared, Task { kind: Task::SPAWNED, slot });
                let waker = Waker::from(alarm.clone());
                tasks.slots.push(Slot { future: Some(future), alarm, waker });
                slot
            }
        };
        drop(tasks);
        self.make_ready(Task { kind: Task::SPAWNED, slot });
    }

    /// Polls a spawned future. If it panics, it is over.
    pub(crate) fn poll_spawned(&self, slot: u32) {
        let task = Task { kind: Task::SPAWNED, slot };
        let (mut future, waker) = {
            let tasks = &mut *self.tasks.borrow_mut();
            let Some(entry) = tasks.slots.get_mut(slot as usize) else { return };
            entry.alarm.polled();
            let Some(future) = entry.future.take() else { return };
            (future, entry.waker.clone())
        };
        let poll = || {
            let mut context = Context::from_waker(&waker);
            self.polling(task, &waker, Time::NEVER, || future.as_mut().poll(&mut context))
        };
        let is_over = !matches!(catch_unwind(AssertUnwindSafe(poll)), Ok(Poll::Pending));
        if is_over {
            drop(future);
            self.tasks.borrow_mut().free.push(slot);
        } else {
            self.tasks.borrow_mut().slots[slot as usize].future = Some(future);
        }
    }

    /// Drops every spawned future.
    pub(crate) fn drop_spawned(&self) {
        let slots = core::mem::take(&mut self.tasks.borrow_mut().slots);
        drop(slots);
    }
}

struct Joined<T> {
    output: Option<T>,
    is_over: bool,
    waker: Option<Waker>,
}

/// Gives what a spawned future gave. Dropping it lets the future run on.
pub struct JoinHandle<T> {
    joined: Rc<RefCell<Joined<T>>>,
}

/// Tells the handle when the future is over, or was dropped.
struct Teller<T> {
    joined: Rc<RefCell<Joined<T>>>,
}

impl<T> Drop for Teller<T> {
    fn drop(&mut self) {
        let waker = {
            let mut joined = self.joined.borrow_mut();
            joined.is_over = true;
            joined.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// `future` as a task without an output, and the handle to its output.
pub(crate) fn joinable<F: Future + 'static>(future: F) -> (Spawned, JoinHandle<F::Output>) {
    let joined = Joined { output: None, is_over: false, waker: None };
    let joined = Rc::new(RefCell::new(joined));
    let teller = Teller { joined: joined.clone() };
    let task = async move {
        let output = future.await;
        teller.joined.borrow_mut().output = Some(output);
    };
    (Box::pin(task), JoinHandle { joined })
}

/// `None` if the future panicked, or was dropped with its loop.
impl<T> Future for JoinHandle<T> {
    type Output = Option<T>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<T>> {
        let waker = cx.waker().clone();
        let mut joined = self.joined.borrow_mut();
        if joined.is_over {
            return Poll::Ready(joined.output.take());
        }
        let earlier = joined.waker.replace(waker);
        drop(joined);
        drop(earlier);
        Poll::Pending
    }
}
