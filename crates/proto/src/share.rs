//! One receive queue, shared by the sessions that have long messages on the way to it.
//!
//! eRPC reserves a session's credits in the receive queue for as long as the session lives
//! (section 4.3.1), which bounds the number of sessions. Here a session starts with the few credits
//! of its set-up. While a message of several packets is on the way to this end, it is a *holder*,
//! and the queue's room is divided among the holders: a server tells its share as credits, a client
//! pulls no more than its own (W26). Messages of one packet need no share: slots bound them.
//!
//! Who holds a share is known without timers of its own: time is cut into epochs, and a session
//! that has received a part of a long message in this epoch or the last is a holder. It can miss
//! no more than an epoch of silence, within which a client falls back by itself
//! ([`crate::CREDITS_IDLE`]); so what was granted to one is granted to another only once the first
//! cannot use it any more.
//!
//! Invariants:
//! - `current` has the keys of this epoch's holders, each once; `previous` those of the last one's,
//!   of which `renewed` are in `current`, too;
//! - holders have been told `among`, which is at most a quarter less than their number.
//!
//! Pure logic: whoever owns the sessions lends them as [`Sharers`].

use core::time::Duration;

use petasos_base::Time;

use crate::CREDITS_IDLE;

/// How long a session that hears no more parts remains a holder, at least; at most twice as long.
/// Longer than [`CREDITS_IDLE`] by what a client's timer and the network may be late.
const EPOCH: Duration = CREDITS_IDLE.saturating_mul(2);

/// In which epoch a session last was a holder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Membership(u32);

/// A session that may hold a share: either half.
pub trait Sharer {
    /// Kept for the [`CreditShare`], which alone changes it.
    fn membership_mut(&mut self) -> &mut Membership;

    /// The room is divided among `holders` sessions (from 1), of which this is one.
    fn take_share(&mut self, holders: u32);

    /// The session has what it was set up with again.
    fn leave_share(&mut self);
}

/// All sessions of one receive queue.
pub trait Sharers {
    /// Names a session.
    type Key: Copy;

    /// The session of that name, if it still exists.
    fn sharer(&mut self, key: Self::Key) -> Option<&mut dyn Sharer>;
}

/// Who shares a receive queue. See the module's documentation.
#[derive(Clone, Debug)]
pub struct CreditShare<K> {
    epoch: u32,
    ends_at: Time,
    current: Vec<K>,
    previous: Vec<K>,
    renewed: usize,
    among: usize,
}

impl<K> Default for CreditShare<K> {
    fn default() -> CreditShare<K> {
        CreditShare {
            // A new session's membership is neither this epoch's nor the last one's.
            epoch: 2,
            ends_at: Time::NEVER,
            current: Vec::new(),
            previous: Vec::new(),
            renewed: 0,
            among: 1,
        }
    }
}

impl<K: Copy> CreditShare<K> {
    /// Whether a session need not be told to [`CreditShare::join`]: it has, in this epoch.
    #[inline(always)]
    pub fn has(&self, membership: Membership) -> bool {
        membership.0 == self.epoch
    }

    /// Makes the session `key`, to which a part of a long message has come, a holder.
    #[cold]
    pub fn join(&mut self, key: K, sharers: &mut impl Sharers<Key = K>, now: Time) {
        let Some(sharer) = sharers.sharer(key) else { return };
        let before = core::mem::replace(sharer.membership_mut(), Membership(self.epoch));
        if self.has(before) {
            return;
        }
        if self.holders() == 0 {
            self.ends_at = now + EPOCH;
        }
        self.renewed += usize::from(before.0.wrapping_add(1) == self.epoch);
        self.current.push(key);
        let holders = self.holders();
        if holders > self.among + self.among / 4 {
            return self.deal(holders, sharers);
        }
        sharer.take_share(self.among as u32);
    }

    /// Whether [`CreditShare::end_epoch`] has something to do.
    #[inline(always)]
    pub fn is_due(&self, now: Time) -> bool {
        now >= self.ends_at
    }

    /// Ends the epoch: those that were holders in the last one only are none any more.
    #[cold]
    pub fn end_epoch(&mut self, sharers: &mut impl Sharers<Key = K>, now: Time) {
        for key in self.previous.drain(..) {
            if let Some(sharer) = sharers.sharer(key)
                && sharer.membership_mut().0 != self.epoch
            {
                sharer.leave_share();
            }
        }
        core::mem::swap(&mut self.previous, &mut self.current);
        self.renewed = 0;
        self.epoch = self.epoch.wrapping_add(1);
        let holders = self.holders();
        self.ends_at = if holders == 0 { Time::NEVER } else { now + EPOCH };
        if holders != self.among {
            self.deal(holders.max(1), sharers);
        }
    }

    /// Sessions that hold a share now.
    pub fn holders(&self) -> usize {
        self.current.len() + self.previous.len() - self.renewed
    }

    /// Gives every holder its share anew.
    fn deal(&mut self, among: usize, sharers: &mut impl Sharers<Key = K>) {
        self.among = among;
        for key in self.previous.iter().chain(&self.current) {
            if let Some(sharer) = sharers.sharer(*key) {
                sharer.take_share(among as u32);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A session that notes what it was told.
    #[derive(Clone, Copy, Default)]
    struct Half {
        membership: Membership,
        among: Option<u32>,
    }

    impl Sharer for Half {
        fn membership_mut(&mut self) -> &mut Membership {
            &mut self.membership
        }

        fn take_share(&mut self, holders: u32) {
            self.among = Some(holders);
        }

        fn leave_share(&mut self) {
            self.among = None;
        }
    }

    struct Halves(Vec<Half>);

    impl Sharers for Halves {
        type Key = usize;

        fn sharer(&mut self, key: usize) -> Option<&mut dyn Sharer> {
            Some(self.0.get_mut(key)?)
        }
    }

    #[test]
    fn one_holder_has_everything_and_loses_it_after_two_quiet_epochs() {
        let (mut share, mut halves) = (CreditShare::default(), Halves(vec![Half::default(); 2]));
        assert!(!share.is_due(Time::from_nanos(u64::MAX - 1)), "nothing to do for nobody");
        share.join(1, &mut halves, Time::ZERO);
        assert_eq!((halves.0[0].among, halves.0[1].among), (None, Some(1)));
        let mut now = Time::ZERO + EPOCH;
        assert!(share.is_due(now));
        share.end_epoch(&mut halves, now);
        assert_eq!(halves.0[1].among, Some(1));
        now = now + EPOCH;
        share.end_epoch(&mut halves, now);
        assert_eq!((halves.0[1].among, share.holders()), (None, 0));
        assert!(!share.is_due(now + EPOCH));
    }

    #[test]
    fn a_session_that_is_gone_counts_until_its_epochs_are_over() {
        let (mut share, mut halves) = (CreditShare::default(), Halves(vec![Half::default(); 2]));
        share.join(0, &mut halves, Time::ZERO);
        share.join(1, &mut halves, Time::ZERO);
        halves.0.pop();
        share.join(1, &mut halves, Time::ZERO);
        assert_eq!(share.holders(), 2);
        for _ in 0..2 {
            share.end_epoch(&mut halves, Time::ZERO);
        }
        assert_eq!((share.holders(), halves.0[0].among), (0, None));
    }

    proptest! {
        /// Whoever joins and whenever epochs end: exactly those are holders that joined in this
        /// epoch or the last, and all were told at most their number and at least four fifths of
        /// it.
        #[test]
        fn holders_are_those_of_two_epochs_and_share_alike(
            steps in prop::collection::vec(prop::option::weighted(0.9, 0usize..40), 1..300),
        ) {
            let mut share = CreditShare::default();
            let mut halves = Halves(vec![Half::default(); 40]);
            let mut joined = [None; 40];
            let mut epoch = 0;
            for step in steps {
                match step {
                    Some(key) => {
                        joined[key] = Some(epoch);
                        share.join(key, &mut halves, Time::ZERO);
                        prop_assert!(share.has(halves.0[key].membership));
                    }
                    None => {
                        epoch += 1;
                        share.end_epoch(&mut halves, Time::ZERO);
                    }
                }
                let holds = |at: &Option<u32>| at.is_some_and(|at| at + 1 >= epoch);
                prop_assert_eq!(share.holders(), joined.iter().filter(|at| holds(at)).count());
                for (half, at) in halves.0.iter().zip(&joined) {
                    prop_assert_eq!(half.among.is_some(), holds(at));
                    let among = half.among.map_or(share.holders(), |among| among as usize);
                    prop_assert!(among <= share.holders() && share.holders() <= among * 5 / 4);
                }
            }
        }
    }
}
