//! The wakers of a loop's tasks.

use std::sync::Arc;
use std::task::Wake;

use petasos_base::sync::{AtomicBool, Ordering};

use super::current_with;
use crate::shared::{Command, Shared};
use crate::task::Task;

/// The waker of one task.
pub struct TaskWaker {
    shared: Arc<Shared>,
    task: Task,
    /// Whether the task is in a wake list already.
    woken: AtomicBool,
}

impl TaskWaker {
    /// A waker for a task of the loop that `shared` belongs to.
    pub fn new(shared: &Arc<Shared>, task: Task) -> Arc<TaskWaker> {
        Arc::new(TaskWaker { shared: shared.clone(), task, woken: AtomicBool::new(false) })
    }

    /// Call this before a poll of the task: a wake-up from now on requires another poll. Most polls
    /// happen because a call of the task has ended, which does not set the flag. Therefore the flag
    /// is read before it is written. If it is set in between, another poll follows.
    #[inline]
    pub fn polled(&self) {
        // Acquire: pairs with the release in `wake_by_ref`, so that the poll sees the reason of the
        // wake-up.
        if self.woken.load(Ordering::Acquire) {
            self.woken.swap(false, Ordering::Acquire);
        }
    }
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // Release: pairs with the acquire in `polled`.
        if self.woken.swap(true, Ordering::AcqRel) {
            return;
        }
        match current_with(self.shared.loop_id) {
            Some(local) if self.task == Task::MAIN => local.main_woken.set(true),
            Some(local) => local.make_ready(self.task),
            None => self.shared.send(Command::Wake(self.task)),
        }
    }
}
