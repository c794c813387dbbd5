//! Decides when to look at a full ring again. The service does not report when the ring has room: a
//! service that reads makes room within microseconds, and one that does not read may take long.

use std::time::Duration;

use petasos_base::Time;

const FIRST: Duration = Duration::from_micros(20);
const LONGEST: Duration = Duration::from_millis(1);

#[derive(Debug)]
pub(crate) struct Again {
    at: Time,
    wait: Duration,
}

impl Again {
    /// The ring has room.
    pub(crate) const fn new() -> Again {
        Again { at: Time::NEVER, wait: FIRST }
    }

    /// The ring has taken something of what waits, or nothing; and whether something still waits.
    pub(crate) fn note(&mut self, has_taken: bool, is_full: bool, now: Time) {
        if !is_full {
            *self = Again::new();
            return;
        }
        // A turn that comes early does not make the next one late.
        let is_due = now >= self.at;
        if has_taken || self.at == Time::NEVER {
            self.wait = FIRST;
        } else if is_due {
            self.wait = (2 * self.wait).min(LONGEST);
        } else {
            return;
        }
        self.at = now + self.wait;
    }

    pub(crate) fn at(&self) -> Time {
        self.at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_ring_is_looked_at_less_and_less_often_until_it_takes_something() {
        let (mut again, mut now, mut looks) = (Again::new(), Time::from_nanos(7), 0);
        assert_eq!(again.at(), Time::NEVER);
        let end = now + Duration::from_secs(1);
        again.note(false, true, now);
        while now < end {
            assert!(now < again.at() && again.at() <= now + LONGEST);
            // Turns for other reasons change nothing.
            let at = again.at();
            again.note(false, true, now);
            assert_eq!(again.at(), at);
            now = at;
            again.note(false, true, now);
            looks += 1;
        }
        assert!((1000..1010).contains(&looks), "{looks}");
        again.note(true, true, now);
        assert_eq!(again.at(), now + FIRST);
        again.note(true, false, now);
        assert_eq!(again.at(), Time::NEVER);
    }
}
