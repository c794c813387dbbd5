//! External sessions as their carrier sees them.
//!
//! The calls of an *external* session do not travel as packets. Another part of the program, the
//! *carrier*, takes them ([`crate::Context::poll_external`]), brings them to their server in its
//! own way, and returns their outcomes. In the other direction it delivers requests, and takes
//! their answers. The managed service reaches applications so (ADR 23).
//!
//! The layers above do not see a difference: such a session has a [`SessionId`], its calls end in
//! continuations, and its requests are answered through handles.

use petasos_buf::MsgBuf;
use petasos_wire::RejectCode;

use crate::call::CallId;
use crate::sessions::SessionId;

/// What a carrier has to do for the endpoint, in the order in which it was asked for.
#[derive(Debug)]
pub enum ExternalEvent {
    /// A call has begun. Its request is [`crate::Context::external_request`]'s.
    Call {
        /// The call, until it is finished or cancelled.
        call: CallId,
        /// The method's number, as the session's server assigned it.
        method: u16,
    },
    /// A call is over here: it was cancelled or is late, or its session was closed.
    Cancel(CallId),
    /// A request that the carrier has delivered under this number was answered.
    Answer(u64, ExternalAnswer),
    /// The session was closed. Its calls were cancelled before.
    Closed(SessionId),
}

/// The answer to a request.
#[derive(Debug)]
pub enum ExternalAnswer {
    /// The response, in a buffer of the endpoint's pool.
    Response(MsgBuf),
    /// There is none, for this reason.
    Rejected(RejectCode),
}

/// What an external session allows.
#[derive(Clone, Copy, Debug)]
pub struct ExternalLimits {
    /// Concurrent calls, a power of two.
    pub slots: u32,
    /// The longest request, and the longest response, in bytes.
    pub message_bytes_max: u32,
}

/// Values that are named until they are taken. No name is used twice.
#[derive(Debug)]
pub(crate) struct Named<T> {
    places: Vec<(u32, Option<T>)>,
    free: Vec<u32>,
}

impl<T> Default for Named<T> {
    fn default() -> Named<T> {
        Named { places: Vec::new(), free: Vec::new() }
    }
}

impl<T> Named<T> {
    pub(crate) fn add(&mut self, value: T) -> u64 {
        let place = self.free.pop().unwrap_or_else(|| {
            self.places.push((0, None));
            self.places.len() as u32 - 1
        });
        let (generation, at) = &mut self.places[place as usize];
        *at = Some(value);
        u64::from(*generation) << 32 | u64::from(place)
    }

    pub(crate) fn get(&self, name: u64) -> Option<&T> {
        let (generation, value) = self.places.get(name as u32 as usize)?;
        value.as_ref().filter(|_| u64::from(*generation) == name >> 32)
    }

    pub(crate) fn take(&mut self, name: u64) -> Option<T> {
        let (generation, value) = self.places.get_mut(name as u32 as usize)?;
        if u64::from(*generation) != name >> 32 {
            return None;
        }
        let taken = value.take()?;
        // A place whose generations are used up is not used again.
        if let Some(next) = generation.checked_add(1) {
            *generation = next;
            self.free.push(name as u32);
        }
        Some(taken)
    }

    /// Those that were not taken, with their names.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, &T)> {
        let all = self.places.iter().enumerate();
        all.filter_map(|(at, (generation, value))| {
            Some((u64::from(*generation) << 32 | at as u64, value.as_ref()?))
        })
    }

    pub(crate) fn len(&self) -> usize {
        self.iter().count()
    }

    /// The names of those for which `is` holds.
    pub(crate) fn names(&self, is: impl Fn(&T) -> bool) -> Vec<u64> {
        self.iter().filter(|(_, value)| is(value)).map(|(name, _)| name).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::Named;

    #[test]
    fn a_name_is_of_one_value_only() {
        let mut named = Named::default();
        let first = named.add('a');
        let second = named.add('b');
        assert_eq!((named.get(first), named.get(second), named.len()), (Some(&'a'), Some(&'b'), 2));
        assert_eq!(
            (named.take(first), named.take(first), named.get(first)),
            (Some('a'), None, None)
        );
        let third = named.add('c');
        assert_eq!((named.get(first), named.get(third)), (None, Some(&'c')));
        assert_eq!(named.names(|value| *value == 'c'), [third]);
        assert_eq!(named.take(u64::MAX), None);
    }
}
