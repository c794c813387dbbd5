//! How fast a session may send, and when it may send next.
//!
//! [`Pace`] is a rate in fixed point, so that charging a packet is a multiplication and a shift.
//! [`Pacer`] is a session's virtual clock: each charged byte advances it by the time that the byte
//! takes at the session's pace. It is a leaky bucket in the form of ITU-T I.371's generic cell rate
//! algorithm: one number per session, and nothing to refill.

use petasos_base::Time;

/// A rate, as the time that one byte takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Nanoseconds per byte, times 2^20.
    byte_ns_q20: u64,
}

impl Pace {
    /// The pace of `bytes_per_s`, at least one byte per second.
    pub fn from_bytes_per_s(bytes_per_s: f64) -> Pace {
        Pace { byte_ns_q20: (1e9 * UNIT / bytes_per_s.max(1.0)) as u64 }
    }

    /// The rate in bytes per second, for display.
    pub fn bytes_per_s(self) -> f64 {
        1e9 * UNIT / self.byte_ns_q20.max(1) as f64
    }

    /// Nanoseconds that `bytes` take, rounded down.
    #[inline]
    pub fn nanos(self, bytes: u32) -> u64 {
        self.byte_ns_q20.saturating_mul(u64::from(bytes)) >> UNIT_LOG
    }
}

/// When a paced session may send next.
///
/// `free_at` is when everything charged has left at the pace. A packet may leave while `free_at` is
/// at most `burst_ns` ahead. So a session that becomes due sends a train of about `burst_ns` worth
/// of its pace in one go, and at least one packet. It then waits until `free_at`, not only until
/// the next packet fits, so that the next departure is a whole train again.
///
/// Whatever the number of sessions, trains that are sent at the same time queue up at most
/// `burst_ns` worth of the bottleneck, or one packet of each session if that is more: the paces add
/// up to the bottleneck's rate, and each train is proportional to its pace.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pacer {
    free_at: Time,
}

impl Pacer {
    /// Whether a packet may leave now, within a burst of `burst_ns`.
    #[inline]
    pub fn is_open(&self, now: Time, burst_ns: u64) -> bool {
        self.free_at <= now.plus_nanos(burst_ns)
    }

    /// When a session that is not open may next be.
    #[inline]
    pub fn opens_at(&self) -> Time {
        self.free_at
    }

    /// Charges `bytes` that leave now, or that a pull sent now makes the server send.
    #[inline]
    pub fn charge(&mut self, now: Time, bytes: u32, pace: Pace) {
        self.free_at = self.free_at.max(now).plus_nanos(pace.nanos(bytes));
    }
}

const UNIT_LOG: u32 = 20;
const UNIT: f64 = (1u64 << UNIT_LOG) as f64;

#[cfg(test)]
mod tests {
    use super::*;

    const GIGABYTE: f64 = 1e9;

    #[test]
    fn a_byte_at_a_gigabyte_per_second_takes_a_nanosecond() {
        let pace = Pace::from_bytes_per_s(GIGABYTE);
        assert_eq!(pace.nanos(1500), 1500);
        assert_eq!(pace.bytes_per_s(), GIGABYTE);
        assert_eq!(Pace::from_bytes_per_s(3.125e9).nanos(1500), 479, "480 rounded down");
    }

    #[test]
    fn extreme_paces_neither_overflow_nor_stand_still() {
        assert_eq!(Pace::from_bytes_per_s(0.0).nanos(1), 1_000_000_000);
        let never = Pace::from_bytes_per_s(f64::NAN);
        assert_eq!(never, Pace::from_bytes_per_s(1.0));
        assert!(never.nanos(u32::MAX) > 1_000_000_000);
        assert_eq!(Pace::from_bytes_per_s(f64::INFINITY).nanos(u32::MAX), 0);
    }

    #[test]
    fn departures_keep_the_pace_and_idle_time_earns_no_more_than_a_burst() {
        let pace = Pace::from_bytes_per_s(GIGABYTE);
        let mut pacer = Pacer::default();
        let mut now = Time::from_nanos(1_000_000);
        let mut sent = Vec::new();
        for _ in 0..10 {
            while pacer.is_open(now, 3_000) {
                pacer.charge(now, 1_000, pace);
                sent.push(now.as_nanos());
            }
            now = pacer.opens_at();
        }
        assert_eq!(sent[..4], [1_000_000; 4], "a train after a long silence");
        assert_eq!(sent[4..8], [1_004_000; 4], "then one per train's time");
        assert_eq!(sent.len(), 40);
        assert_eq!(pacer.opens_at().as_nanos() - 1_000_000, 40 * 1_000, "at the pace in all");
    }

    #[test]
    fn without_a_burst_packets_leave_one_by_one() {
        let pace = Pace::from_bytes_per_s(GIGABYTE);
        let (mut pacer, now) = (Pacer::default(), Time::from_nanos(5));
        assert!(pacer.is_open(now, 0));
        pacer.charge(now, 100, pace);
        assert!(!pacer.is_open(Time::from_nanos(104), 0));
        assert!(pacer.is_open(Time::from_nanos(105), 0));
    }
}
