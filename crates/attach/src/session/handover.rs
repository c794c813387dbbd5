//! D14: how far an application has moved to the service's successor.

/// What was said of it, in this order. Each step is said by one side, once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Handover {
    /// There is no successor.
    #[default]
    None,
    /// The service has said that there is one.
    Announced,
    /// The application has attached to it, and serves there what it serves here.
    Attached,
    /// The service has said that calls are to begin there.
    Moving,
    /// The application has begun its last call here.
    Moved,
}

impl Handover {
    /// Goes on to `next`. Says whether that was the next step.
    pub(super) fn step(&mut self, next: Handover) -> bool {
        let is_next = *self as u8 + 1 == next as u8;
        if is_next {
            *self = next;
        }
        is_next
    }
}
