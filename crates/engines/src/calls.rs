//! An engine's data about running calls.
//!
//! A call takes the place of its index, which is the lowest that no other call has. So there are no
//! more places than the datapath has had calls at a time. If the engine never sees the end of a
//! call, the next call with its index replaces it.

use petasos_engine::{CallId, Decompose};

/// An engine follows calls below this index; others pass without being followed.
const CALLS_MAX: usize = 65_536;

/// What is known of each call.
#[derive(Debug)]
pub(crate) struct Calls<T> {
    places: Vec<Option<(CallId, T)>>,
}

impl<T> Default for Calls<T> {
    fn default() -> Calls<T> {
        Calls { places: Vec::new() }
    }
}

impl<T> Calls<T> {
    /// Follows a call. Gives what was known of an earlier one in its place.
    ///
    /// # Errors
    /// There are too many; what was to be known of it comes back.
    pub(crate) fn insert(&mut self, id: CallId, what: T) -> Result<Option<T>, T> {
        let at = id.index as usize;
        if at >= CALLS_MAX {
            return Err(what);
        }
        if at >= self.places.len() {
            self.places.resize_with(at + 1, || None);
        }
        Ok(self.places[at].replace((id, what)).map(|(_, what)| what))
    }

    /// Whether no call was ever followed: then there is nothing to look for.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// What is known of a call.
    pub(crate) fn get_mut(&mut self, id: CallId) -> Option<&mut T> {
        match self.places.get_mut(id.index as usize) {
            Some(Some((known, what))) if *known == id => Some(what),
            _ => None,
        }
    }

    /// Forgets a call.
    pub(crate) fn remove(&mut self, id: CallId) -> Option<T> {
        self.get_mut(id)?;
        self.places[id.index as usize].take().map(|(_, what)| what)
    }

    /// What is known of the calls that go on, for the engine's state.
    pub(crate) fn into_open<'a>(
        self,
        decompose: &'a Decompose<'_>,
    ) -> impl Iterator<Item = (CallId, T)> + 'a
    where
        T: 'a,
    {
        self.places.into_iter().flatten().filter(|(id, _)| decompose.is_open(*id))
    }
}
