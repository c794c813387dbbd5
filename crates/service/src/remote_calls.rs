//! A table of calls with one end on another host, by their names.

/// A call whose other end is beyond this host. No two calls of a hub have the same name, until four
/// billion calls later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RemoteCall(u64);

impl RemoteCall {
    fn new(place: usize, generation: u32) -> RemoteCall {
        RemoteCall(u64::from(generation) << 32 | place as u64)
    }

    /// The name as a number.
    pub const fn to_number(self) -> u64 {
        self.0
    }

    /// The call of a number that [`RemoteCall::to_number`] gave.
    pub const fn from_number(number: u64) -> RemoteCall {
        RemoteCall(number)
    }

    /// A small number that no other call has while this one is known to the hub.
    const fn place(self) -> usize {
        self.0 as u32 as usize
    }
}

/// Values of calls, by their names.
#[derive(Debug)]
pub struct RemoteCalls<T> {
    places: Vec<Option<(RemoteCall, T)>>,
    len: usize,
}

impl<T> Default for RemoteCalls<T> {
    fn default() -> RemoteCalls<T> {
        RemoteCalls { places: Vec::new(), len: 0 }
    }
}

impl<T> RemoteCalls<T> {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Sets the value of a call. That of an earlier call at its place is dropped.
    pub fn insert(&mut self, call: RemoteCall, value: T) {
        if self.places.len() <= call.place() {
            self.places.resize_with(call.place() + 1, || None);
        }
        let earlier = self.places[call.place()].replace((call, value));
        self.len += usize::from(earlier.is_none());
    }

    /// The value of a call.
    #[inline]
    pub fn get(&self, call: RemoteCall) -> Option<&T> {
        let (known, value) = self.places.get(call.place())?.as_ref()?;
        (*known == call).then_some(value)
    }

    /// The value of a call, mutable.
    #[inline]
    pub fn get_mut(&mut self, call: RemoteCall) -> Option<&mut T> {
        let (known, value) = self.places.get_mut(call.place())?.as_mut()?;
        (*known == call).then_some(value)
    }

    /// Takes the value of a call.
    #[inline]
    pub fn remove(&mut self, call: RemoteCall) -> Option<T> {
        let place = self.places.get_mut(call.place())?;
        if place.as_ref().is_none_or(|(known, _)| *known != call) {
            return None;
        }
        self.len -= 1;
        place.take().map(|(_, value)| value)
    }

    /// All calls and their values.
    pub fn iter(&self) -> impl Iterator<Item = (RemoteCall, &T)> {
        self.places.iter().flatten().map(|(call, value)| (*call, value))
    }
}

/// Gives names to calls.
#[derive(Debug, Default)]
pub(crate) struct Names {
    /// By place: how many calls had it before.
    generations: Vec<u32>,
    free: Vec<u32>,
}

impl Names {
    /// A name that no call has, or had in its place.
    pub(crate) fn take(&mut self) -> RemoteCall {
        let place = self.free.pop().map(|place| place as usize).unwrap_or_else(|| {
            self.generations.push(0);
            self.generations.len() - 1
        });
        RemoteCall::new(place, self.generations[place])
    }

    /// Another call may have the place of this one.
    pub(crate) fn release(&mut self, call: RemoteCall) {
        let generation = &mut self.generations[call.place()];
        *generation = generation.wrapping_add(1);
        self.free.push(call.place() as u32);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{HashMap, HashSet};

    use super::*;

    #[test]
    fn values_are_found_by_their_names_only() {
        let (mut names, mut calls) = (Names::default(), RemoteCalls::default());
        let (mut model, mut gone) = (HashMap::new(), HashSet::new());
        let mut rng = petasos_base::Rng::new(5);
        for step in 0..20_000u64 {
            if model.len() < 20 && rng.chance(0.5) {
                let call = names.take();
                assert!(!gone.contains(&call) && !model.contains_key(&call));
                assert_eq!(RemoteCall::from_number(call.to_number()), call);
                calls.insert(call, step);
                model.insert(call, step);
            } else if let Some(call) = model.keys().next().copied() {
                assert_eq!(calls.get(call), model.get(&call));
                assert_eq!(calls.remove(call), model.remove(&call));
                names.release(call);
                gone.insert(call);
                assert!(calls.get(call).is_none() && calls.get_mut(call).is_none());
                assert_eq!(calls.remove(call), None);
            }
            assert_eq!((calls.len(), calls.is_empty()), (model.len(), model.is_empty()));
        }
        assert!(calls.iter().all(|(call, value)| model.get(&call) == Some(value)));
        assert!(calls.places.len() <= 20);
    }
}
