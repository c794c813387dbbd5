//! When each host wants to run next: a tournament tree, because hosts change these times.
//!
//! A heap of wake-ups would fill with stale entries. Here each host has exactly one time, and a
//! change costs as many steps as the tree is deep.

use petasos_base::Time;

/// The next run of each of a fixed number of hosts.
#[derive(Debug)]
pub(crate) struct Timers {
    due: Vec<Time>,
    /// `winners[i]` is the host with the earliest time below node `i`; the root is node 1, and
    /// the leaf of host `h` is `leaves + h`. Leaves are implied, not stored.
    winners: Vec<u32>,
    leaves: usize,
}

impl Timers {
    /// Timers of `hosts` hosts, none of which wants to run.
    pub(crate) fn new(hosts: u32) -> Timers {
        let leaves = (hosts as usize).next_power_of_two().max(2);
        let mut timers =
            Timers { due: vec![Time::NEVER; leaves], winners: vec![0; leaves], leaves };
        for node in (1..leaves).rev() {
            timers.winners[node] = timers.better(node);
        }
        timers
    }

    /// When `host` wants to run.
    #[inline]
    pub(crate) fn due(&self, host: u32) -> Time {
        self.due[host as usize]
    }

    /// Replaces the time of `host`.
    #[inline]
    pub(crate) fn set(&mut self, host: u32, due: Time) {
        if self.due[host as usize] == due {
            return;
        }
        self.due[host as usize] = due;
        let mut node = (self.leaves + host as usize) / 2;
        while node > 0 {
            self.winners[node] = self.better(node);
            node /= 2;
        }
    }

    /// The earliest time and its host; the lowest number wins a tie.
    #[inline]
    pub(crate) fn earliest(&self) -> (Time, u32) {
        let host = self.winners[1];
        (self.due[host as usize], host)
    }

    #[inline]
    fn better(&self, node: usize) -> u32 {
        let (left, right) = (self.winner(2 * node), self.winner(2 * node + 1));
        if self.due[left as usize] <= self.due[right as usize] { left } else { right }
    }

    #[inline]
    fn winner(&self, node: usize) -> u32 {
        if node >= self.leaves { (node - self.leaves) as u32 } else { self.winners[node] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use petasos_base::Rng;

    #[test]
    fn the_earliest_agrees_with_a_scan() {
        for hosts in [1, 2, 3, 7, 8, 100] {
            let mut rng = Rng::new(u64::from(hosts));
            let mut timers = Timers::new(hosts);
            let mut oracle = vec![Time::NEVER; hosts as usize];
            assert_eq!(timers.earliest(), (Time::NEVER, 0));
            for _ in 0..2000 {
                let host = rng.below(u64::from(hosts)) as u32;
                let due = Time::from_nanos(rng.below(40));
                timers.set(host, due);
                oracle[host as usize] = due;
                let expected = (0..hosts).map(|h| (oracle[h as usize], h)).min().unwrap();
                assert_eq!(timers.earliest(), expected);
                assert_eq!(timers.due(host), due);
            }
        }
    }
}
