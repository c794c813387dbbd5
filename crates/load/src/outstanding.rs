//! Requests that have not been answered yet.

use petasos_base::Time;

/// An outstanding request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    /// When it was to be sent.
    pub due: Time,
    /// Its number among those that count; `None` while the target warms up.
    pub number: Option<u64>,
}

/// A slot for each request that may be outstanding.
#[derive(Debug)]
pub(crate) struct Outstanding {
    slots: Vec<Option<Request>>,
    free: Vec<u32>,
}

impl Outstanding {
    /// At most `max` requests.
    pub(crate) fn new(max: usize) -> Outstanding {
        let max = u32::try_from(max).unwrap_or(u32::MAX);
        // The last one is taken first, so that few are used if few are needed.
        Outstanding { slots: vec![None; max as usize], free: (0..max).rev().collect() }
    }

    /// A slot for a request; `None` if all are taken.
    #[inline]
    pub(crate) fn take(&mut self, request: Request) -> Option<u32> {
        let slot = self.free.pop()?;
        self.slots[slot as usize] = Some(request);
        Some(slot)
    }

    /// The request that is answered; `None` if there is none in this slot, which a target should
    /// not say.
    #[inline]
    pub(crate) fn give(&mut self, slot: u32) -> Option<Request> {
        let request = self.slots.get_mut(slot as usize)?.take()?;
        self.free.push(slot);
        Some(request)
    }

    /// How many are outstanding.
    pub(crate) fn count(&self) -> usize {
        self.slots.len() - self.free.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_slot_is_taken_once() {
        let request = |number| Request { due: Time::ZERO, number: Some(number) };
        let mut outstanding = Outstanding::new(2);
        assert_eq!(outstanding.take(request(1)), Some(0));
        assert_eq!(outstanding.take(request(2)), Some(1));
        assert_eq!(outstanding.take(request(3)), None);
        assert_eq!((outstanding.give(0), outstanding.give(0)), (Some(request(1)), None));
        assert_eq!((outstanding.give(7), outstanding.count()), (None, 1));
        assert_eq!(outstanding.take(request(3)), Some(0));
    }
}
