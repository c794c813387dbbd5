//! Which runtime an application gets.

use std::ops::{Deref, DerefMut};
use std::sync::MutexGuard;

use petasos_service::HubId;

use crate::runtime::Runtime;
use crate::runtime::set::RuntimeSet;

/// A runtime, which its thread does not touch meanwhile.
pub(super) enum Place<'a> {
    First(&'a mut Runtime),
    Other(MutexGuard<'a, Runtime>),
}

impl Deref for Place<'_> {
    type Target = Runtime;

    fn deref(&self) -> &Runtime {
        match self {
            Place::First(runtime) => runtime,
            Place::Other(runtime) => runtime,
        }
    }
}

impl DerefMut for Place<'_> {
    fn deref_mut(&mut self) -> &mut Runtime {
        match self {
            Place::First(runtime) => runtime,
            Place::Other(runtime) => runtime,
        }
    }
}

/// The runtime of an application of a name: the one that it is awaited at, or else, of those that
/// it may get, the one that has the fewest applications.
pub(super) fn place<'a>(
    first: &'a mut Runtime,
    set: &'a RuntimeSet,
    (name, awaited): (&str, Option<HubId>),
) -> Place<'a> {
    let candidates = awaited.map_or_else(|| set.candidates(name), |id| vec![id]);
    let load = |id: &HubId| match set.thread(*id) {
        Some(thread) => thread.load(),
        None => first.members.len() as u32,
    };
    let least = candidates.into_iter().min_by_key(load).and_then(|id| set.thread(id));
    match least {
        Some(thread) => Place::Other(thread.borrow()),
        None => Place::First(first),
    }
}
