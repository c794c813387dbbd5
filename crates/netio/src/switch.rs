//! A switch that other threads may turn.

use std::sync::Arc;

use petasos_base::sync::{AtomicBool, Ordering};

/// A property of a backend that is on or off. A clone is another handle to the same switch, which
/// any thread may turn while packets are sent. A backend looks at it once per batch.
#[derive(Clone, Debug)]
pub struct Switch {
    on: Arc<AtomicBool>,
}

impl Switch {
    /// A switch that is on or off at first.
    pub fn new(on: bool) -> Switch {
        Switch { on: Arc::new(AtomicBool::new(on)) }
    }

    /// Turns it on or off, for all batches that begin from now on.
    pub fn set(&self, on: bool) {
        self.on.store(on, Ordering::Relaxed);
    }

    /// Whether it is on.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.on.load(Ordering::Relaxed)
    }
}

impl Default for Switch {
    /// One that is on.
    fn default() -> Switch {
        Switch::new(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clones_are_handles_to_one_switch() {
        let switch = Switch::default();
        let handle = switch.clone();
        assert!(switch.is_on());
        handle.set(false);
        assert!(!switch.is_on() && Switch::new(true).is_on());
    }
}
