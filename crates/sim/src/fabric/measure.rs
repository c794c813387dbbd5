//! Measurements of a group of threads.

use petasos_base::Time;
use petasos_report::Histogram;
use serde::Serialize;

/// Round trips and calls of the threads of one group: the senders or the victims.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    /// From the hand-over of a packet to the network card until its answer is processed; one for
    /// each answer. Only while measuring.
    pub(crate) rtt: Histogram,
    /// From the call to its completion. Only while measuring.
    pub(crate) latency: Histogram,
    /// Calls begun since the start.
    pub(crate) issued: u64,
    /// Calls completed since the start.
    pub(crate) completed: u64,
    measuring: bool,
}

impl Group {
    pub(crate) fn new() -> Group {
        let (rtt, latency) = (Histogram::new(), Histogram::new());
        Group { rtt, latency, issued: 0, completed: 0, measuring: false }
    }

    pub(crate) fn measure(&mut self, measuring: bool) {
        self.measuring = measuring;
    }

    #[inline]
    pub(crate) fn on_answer(&mut self, left_at: Time, now: Time) {
        if self.measuring {
            self.rtt.record_ns(now.nanos_since(left_at));
        }
    }

    #[inline]
    pub(crate) fn on_completed(&mut self, begun_at: Time, now: Time) {
        self.completed += 1;
        if self.measuring {
            self.latency.record_ns(now.nanos_since(begun_at));
        }
    }
}

/// Packet counters of all traffic together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Traffic {
    /// Packets sent by hosts.
    pub packets: u64,
    /// Packets dropped in switches and network cards because a buffer was full.
    pub drops_switch: u64,
    /// Packets dropped because a thread's receive queue was full.
    pub drops_receive_queue: u64,
    /// Packets lost on links by the configured faults, or refused by a checksum.
    pub drops_fault: u64,
    /// Packets marked by switches.
    pub marks: u64,
    /// Packets sent again by clients.
    pub retransmissions: u64,
    /// Of those, how many proved unnecessary.
    pub retransmissions_spurious: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Most frames that ever waited in one receive queue.
    pub receive_queue_frames_max: u32,
    /// Packets times links, the simulator's work.
    pub packet_hops: u64,
    /// Events of the simulation, turns of threads included.
    pub events: u64,
}

impl Traffic {
    /// Packets that did not arrive, for any reason.
    pub fn drops(&self) -> u64 {
        self.drops_switch + self.drops_receive_queue + self.drops_fault
    }
}

/// Jain's fairness index of `shares`: 1 if all are equal or there are none, 1/n if one has
/// everything.
pub(crate) fn jain_index(shares: impl Iterator<Item = f64>) -> f64 {
    let (mut count, mut sum, mut squares) = (0.0, 0.0, 0.0);
    for share in shares {
        count += 1.0;
        sum += share;
        squares += share * share;
    }
    if squares == 0.0 { 1.0 } else { sum * sum / (count * squares) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jain_index_spans_one_over_n_to_one() {
        assert_eq!(jain_index([5.0; 8].into_iter()), 1.0);
        assert_eq!(jain_index([0.0, 3.0, 0.0, 0.0].into_iter()), 0.25);
        assert_eq!(jain_index([2.0, 1.0].into_iter()), 0.9);
        assert_eq!(jain_index([0.0, 0.0].into_iter()), 1.0);
    }

    #[test]
    fn only_what_happens_while_measuring_is_recorded() {
        let mut group = Group::new();
        let at = Time::from_nanos;
        group.on_answer(at(1), at(5));
        group.measure(true);
        group.on_answer(at(1), at(9));
        group.on_completed(at(0), at(100));
        group.measure(false);
        group.on_completed(at(0), at(200));
        assert_eq!((group.rtt.count(), group.latency.count(), group.completed), (1, 1, 2));
        assert_eq!(group.rtt.quantile_us(1.0), Some(0.008));
    }
}
