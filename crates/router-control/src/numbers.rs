//! How many clients, or workers, there are and were lately, and for whom (RT28, RT39).
//!
//! A number that is not in use any more is held back for two epochs, and counts until then: who
//! attaches and leaves without end uses up its own part, and nobody else's.

use std::collections::HashMap;

use petasos_control::RefuseCode;
use petasos_tls::Holder;

/// Of one holder, or of all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    live: usize,
    held: usize,
}

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Numbers {
    /// The most that live, and the most that are held back. One holder may have half of either.
    max: usize,
    all: Counts,
    of: HashMap<Holder, Counts>,
}

impl Numbers {
    pub(crate) fn new(max: usize) -> Numbers {
        Numbers { max, all: Counts::default(), of: HashMap::new() }
    }

    /// Lets so many live from now on. Those that live go on, also if they are more.
    pub(crate) fn set_max(&mut self, max: usize) {
        self.max = max;
    }

    /// Counts one more that lives.
    ///
    /// # Errors
    /// There are too many: of the holder, or of all.
    pub(crate) fn take(&mut self, holder: &Holder) -> Result<(), RefuseCode> {
        let of = self.of.get(holder).copied().unwrap_or_default();
        let half = self.max.div_ceil(2);
        if of.live >= half || of.held >= half {
            return Err(RefuseCode::QuotaUsedUp);
        }
        if self.all.live >= self.max || self.all.held >= self.max {
            return Err(RefuseCode::SessionsFull);
        }
        self.change(holder, |counts| counts.live += 1);
        Ok(())
    }

    /// One that was counted never lived.
    pub(crate) fn undo(&mut self, holder: &Holder) {
        self.change(holder, |counts| counts.live -= 1);
    }

    /// One lives no more, and its number is held back.
    pub(crate) fn hold(&mut self, holder: &Holder) {
        self.change(holder, |counts| {
            (counts.live, counts.held) = (counts.live - 1, counts.held + 1)
        });
    }

    /// A number that was held back is in use again.
    pub(crate) fn revive(&mut self, before: &Holder, holder: &Holder) {
        self.give_back(before);
        self.change(holder, |counts| counts.live += 1);
    }

    /// A number is free again.
    pub(crate) fn give_back(&mut self, holder: &Holder) {
        self.change(holder, |counts| counts.held -= 1);
    }

    fn change(&mut self, holder: &Holder, change: impl Fn(&mut Counts)) {
        change(&mut self.all);
        let counts = self.of.entry(holder.clone()).or_default();
        change(counts);
        if *counts == Counts::default() {
            self.of.remove(holder);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holder(name: &str) -> Holder {
        Holder::Name(name.as_bytes().to_vec())
    }

    #[test]
    fn rt39_who_comes_and_goes_uses_up_its_own_half() {
        let mut numbers = Numbers::new(4);
        let (one, two) = (holder("one"), holder("two"));
        for _ in 0..2 {
            numbers.take(&one).expect("there is room");
            numbers.hold(&one);
        }
        assert_eq!(numbers.take(&one), Err(RefuseCode::QuotaUsedUp));
        numbers.take(&two).expect("it has its own");
        numbers.take(&two).expect("it has its own");
        assert_eq!(numbers.take(&two), Err(RefuseCode::QuotaUsedUp));
        numbers.undo(&two);
        numbers.take(&two).expect("there is room again");
        let three = holder("three");
        numbers.take(&three).expect("there is room");
        numbers.hold(&three);
        numbers.take(&three).expect("two live");
        numbers.hold(&three);
        assert_eq!(numbers.take(&holder("four")), Err(RefuseCode::SessionsFull));
        numbers.give_back(&one);
        numbers.take(&one).expect("a number is free");
    }
}
