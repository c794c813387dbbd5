//! Names of the futures that a loop polls.

/// A future that the loop polls: that of a handler, of a spawned task, or of `block_on`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Task {
    /// The method's index in the loop, or one of the constants.
    pub kind: u32,
    /// The slot, among those of the same kind.
    pub slot: u32,
}

impl Task {
    pub(crate) const SPAWNED: u32 = u32::MAX;
    pub(crate) const MAIN: Task = Task { kind: u32::MAX - 1, slot: 0 };
    pub(crate) const NONE: Task = Task { kind: u32::MAX - 2, slot: 0 };
    /// The task that processes the requests of handlers for a watch.
    pub(crate) const WATCHES: Task = Task { kind: u32::MAX - 3, slot: 0 };

    /// Whether this is the task of a method's handler.
    pub(crate) fn is_handler(self) -> bool {
        self.kind < Task::WATCHES.kind
    }
}
