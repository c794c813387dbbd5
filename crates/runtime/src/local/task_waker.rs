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
    /// Whether the task is on a list already.
    woken: AtomicBool,
}

impl TaskWaker {
    /// Wakes a task of the loop, which `shared` is of.
    pub fn new(shared: &Arc<Shared>, task: Task) -> Arc<TaskWaker> {
        Arc::new(TaskWaker { shared: shared.clone(), task, woken: AtomicBool::new(false) })
    }

    /// The task is about to be polled: whoever wakes it from now on means another poll. Most tasks
    /// are polled because a call of theirs has ended, which this is not asked about: so the flag is
    /// looked at before it is changed. One that is set in between stands for a poll to come.
    #[inline]
    pub fn polled(&self) {
        // Acquire: pairs with the release of `wake_by_ref`, so that the poll sees why it was woken.
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
