//! Limits the number of applications, in total and per user.
//!
//! An application keeps its mappings until its process has ended, even after it has detached. So
//! its place becomes free only then, unless the service gave it nothing. (A process that it has
//! forked may keep the memory even longer, which the kernel does not report.)

use std::sync::{Arc, OnceLock};

use crate::credentials::Process;

/// A place that is taken for as long as there is this; and its process, if it was given something.
#[derive(Debug)]
pub(crate) struct Place(Arc<OnceLock<()>>);

impl Place {
    /// Notes that the application is given memory.
    pub(crate) fn give(&self) {
        // It may have been before.
        let _ = self.0.set(());
    }
}

#[derive(Debug)]
struct Taken {
    uid: u32,
    /// Whether something was given. The other owner, if there is one, is the [`Place`].
    given: Arc<OnceLock<()>>,
    /// `None` if it cannot be seen when the process ends.
    process: Option<Process>,
}

impl Taken {
    fn is_free(&self) -> bool {
        let is_attached = Arc::strong_count(&self.given) > 1;
        let has_ended = || self.process.as_ref().is_none_or(Process::has_ended);
        !is_attached && (self.given.get().is_none() || has_ended())
    }
}

/// The places of a service.
#[derive(Debug)]
pub(crate) struct Places {
    taken: Vec<Taken>,
    max: usize,
    per_user_max: usize,
}

impl Places {
    pub(crate) fn new(max: usize, per_user_max: usize) -> Places {
        Places { taken: Vec::new(), max, per_user_max }
    }

    /// A place for a process of this user, if one is free.
    pub(crate) fn take(&mut self, uid: u32, process: Option<Process>) -> Option<Place> {
        self.taken.retain(|taken| !taken.is_free());
        if self.taken.len() >= self.max || self.of_user(uid) >= self.per_user_max {
            return None;
        }
        let given = Arc::new(OnceLock::new());
        self.taken.push(Taken { uid, given: given.clone(), process });
        Some(Place(given))
    }

    /// How many places are taken.
    pub(crate) fn count(&mut self) -> usize {
        self.taken.retain(|taken| !taken.is_free());
        self.taken.len()
    }

    fn of_user(&self, uid: u32) -> usize {
        self.taken.iter().filter(|taken| taken.uid == uid).count()
    }
}
