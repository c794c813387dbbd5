//! One receive queue, shared by the sessions that are receiving long messages into it.
//!
//! eRPC reserves a session's credits in the receive queue for as long as the session lives (section
//! 4.3.1), which bounds the number of sessions. Here a session starts with the few credits of its
//! set-up. While it receives a message of several packets, it is a *holder*, and the queue's room
//! is divided among the holders: a server grants its share as credits, and a client pulls no more
//! than its own share (W26). Messages of one packet need no share: slots bound them.
//!
//! No session needs a timer for this. Time is divided into epochs, and a session that has received
//! a part of a long message in this epoch or the last is a holder. So a session that has stopped
//! being one has been silent for at least an epoch, and a client falls back by itself within that
//! time ([`crate::CREDITS_IDLE`]). What was granted to one session is therefore granted to another
//! only when the first can no longer use it.
//!
//! Invariants:
//! - `current` has the keys of this epoch's holders, each once; `previous` has those of the last
//!   epoch's, of which `renewed` are also in `current`;
//! - holders have been told that they are `among`, which is at most a quarter less than their
//!   number.
//!
//! This is pure logic: the owner of the sessions passes them as [`Sharers`].

use core::time::Duration;

use petasos_base::Time;

use crate::CREDITS_IDLE;

/// How long a session remains a holder after the last part that it received: at least this, at most
/// twice as long. It is longer than [`CREDITS_IDLE`] by the possible delay of a client's timer and
/// of the network.
const EPOCH: Duration = CREDITS_IDLE.saturating_mul(2);

/// The epoch in which a session last became a holder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Membership(u32);

/// A session that may hold a share: the client's half or the server's.
pub trait Sharer {
    /// A number that the session keeps for the [`CreditShare`], which alone changes it.
    fn membership_mut(&mut self) -> &mut Membership;

    /// Tells the session that the room is divided among `holders` sessions (at least 1), itself
    /// included.
    fn take_share(&mut self, holders: u32);

    /// Tells the session to fall back to the credits of its set-up.
    fn leave_share(&mut self);
}

/// All sessions of one receive queue.
pub trait Sharers {
    /// The name of a session.
    type Key: Copy;

    /// The session with this name, if it still exists.
    fn sharer(&mut self, key: Self::Key) -> Option<&mut dyn Sharer>;
}

/// The sessions that share a receive queue. See the module's documentation.
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
    /// Whether a session already is a holder in this epoch. If not, call [`CreditShare::join`].
    #[inline(always)]
    pub fn has(&self, membership: Membership) -> bool {
        membership.0 == self.epoch
    }

    /// Makes the session `key`, which has received a part of a long message, a holder.
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

    /// Ends the epoch. Sessions that were holders only in the previous one cease to be holders.
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

    /// Tells every holder its new share.
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
