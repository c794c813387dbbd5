//! Which runtime an application gets.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, MutexGuard};

use crate::runtime::Runtime;
use crate::runtime::threads::Shared;

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

/// The runtime of an application that attaches: the one that has the fewest.
pub(super) fn place<'a>(
    first: &'a mut Runtime,
    others: &'a [Arc<Shared>],
    _name: &str,
) -> Place<'a> {
    let mut place = Place::First(first);
    for other in others {
        let other = other.borrow();
        if other.members.len() < place.members.len() {
            place = Place::Other(other);
        }
    }
    place
}
