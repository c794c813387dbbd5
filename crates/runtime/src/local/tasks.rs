//! Futures that programs spawn on a loop.

use core::cell::RefCell;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use std::rc::Rc;
use std::sync::Arc;

use petasos_base::Time;

use super::{Local, TaskWaker};
use crate::task::Task;

type Spawned = Pin<Box<dyn Future<Output = ()>>>;

struct Slot {
    /// `None` during a poll, and when the slot is free. Boxed, because each poll takes it out.
    body: Option<Box<Body>>,
    task_waker: Arc<TaskWaker>,
}

/// A future with its waker. They are moved together, so that a poll needs no clone.
struct Body {
    future: Spawned,
    waker: Waker,
}

/// Frees the slot of a completed future.
struct FreesSlot<'l> {
    local: &'l Local,
    slot: u32,
}

impl Drop for FreesSlot<'_> {
    fn drop(&mut self) {
        self.local.tasks.borrow_mut().free.push(self.slot);
    }
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
        let slot = tasks.free.pop().unwrap_or_else(|| {
            let slot = tasks.slots.len() as u32;
            let task_waker = TaskWaker::new(&self.shared, Task { kind: Task::SPAWNED, slot });
            tasks.slots.push(Slot { body: None, task_waker });
            slot
        });
        let entry = &mut tasks.slots[slot as usize];
        entry.body = Some(Box::new(Body { future, waker: Waker::from(entry.task_waker.clone()) }));
        drop(tasks);
        self.make_ready(Task { kind: Task::SPAWNED, slot });
    }

    /// Polls a spawned future. A panic ends the future, and propagates.
    #[inline]
    pub(crate) fn poll_spawned(&self, slot: u32) {
        let body = {
            let tasks = &mut *self.tasks.borrow_mut();
            let Some(entry) = tasks.slots.get_mut(slot as usize) else { return };
            entry.task_waker.polled();
            entry.body.take()
        };
        let Some(mut body) = body else { return };
        let Body { future, waker } = &mut *body;
        let over = FreesSlot { local: self, slot };
        let task = Task { kind: Task::SPAWNED, slot };
        let mut context = Context::from_waker(waker);
        let poll = || future.as_mut().poll(&mut context);
        if self.polling(task, waker, Time::NEVER, poll).is_pending() {
            core::mem::forget(over);
            self.tasks.borrow_mut().slots[slot as usize].body = Some(body);
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

/// Returns the output of a spawned future. Dropping the handle lets the future continue.
pub struct JoinHandle<T> {
    joined: Rc<RefCell<Joined<T>>>,
}

/// Notifies the handle when the future has completed, or was dropped.
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

/// Splits `future` into a task without an output and a handle for the output.
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
