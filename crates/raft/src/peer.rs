//! What a leader knows of a follower, and what it may send it.

use std::collections::VecDeque;

use crate::MemberId;

/// How a follower gets entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Where its log and the leader's part is not known: one message at a time.
    Probing {
        /// Whether a message is on its way.
        asked: bool,
    },
    /// Entries are sent ahead of its acknowledgements.
    Streaming,
    /// The caller fetches entries that are no longer in memory.
    Fetching,
    /// The caller sends a snapshot.
    Snapshot,
}

/// A follower, or learner, as its leader knows it.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) id: MemberId,
    pub(crate) mode: Mode,
    /// The next entry that it is sent.
    pub(crate) next: u64,
    /// Its log is the leader's up to here, and durable.
    pub(crate) acked: u64,
    /// What the library has been told of that (QR5).
    pub(crate) told: u64,
    /// The lowest place at which it was asked since the last beat, while it is probed.
    probed: u64,
    /// Messages with entries that are on their way: the last entry and the bytes of each.
    in_flight: VecDeque<(u64, usize)>,
    in_flight_bytes: usize,
    /// When `acked` went up, or the first of what is on its way was sent.
    progress_us: u64,
    /// When it was heard in this term.
    pub(crate) heard_us: Option<u64>,
    /// The last round that it has answered.
    pub(crate) echoed: u64,
    /// It has to be sent something, if only to ask.
    pub(crate) is_due: bool,
}

impl Peer {
    /// A follower whose log is not known. It is asked about the entry before `next`.
    pub(crate) fn new(id: MemberId, next: u64, now_us: u64) -> Peer {
        Peer {
            id,
            mode: Mode::Probing { asked: false },
            next,
            acked: 0,
            told: 0,
            probed: u64::MAX,
            in_flight: VecDeque::new(),
            in_flight_bytes: 0,
            progress_us: now_us,
            heard_us: None,
            echoed: 0,
            is_due: true,
        }
    }

    /// Its log is the leader's up to `last`.
    pub(crate) fn acknowledge(&mut self, last: u64, now_us: u64) {
        if last < self.acked {
            return;
        }
        if last > self.acked {
            self.progress_us = now_us;
        }
        self.acked = last;
        while let Some((_, bytes)) = self.in_flight.pop_front_if(|(sent, _)| *sent <= last) {
            self.in_flight_bytes -= bytes;
        }
        match self.mode {
            Mode::Probing { .. } | Mode::Snapshot => {
                self.mode = Mode::Streaming;
                self.next = last + 1;
            }
            Mode::Streaming | Mode::Fetching => self.next = self.next.max(last + 1),
        }
    }

    /// Its log is another one behind `at`, if not before: it is asked there.
    ///
    /// An answer leads to a question at once only if it leads further back. Others wait for the
    /// next beat, so that messages that the network doubles do not double further ones.
    pub(crate) fn probe(&mut self, at: u64) {
        if at < self.probed {
            self.restart(at + 1);
            self.probed = at;
        }
    }

    /// A snapshot was sent to it, or could not be: it is asked what it has at the next beat.
    pub(crate) fn snapshot_sent(&mut self, begin: u64) {
        if self.mode == Mode::Snapshot {
            self.restart(begin + 1);
            self.asked();
        }
    }

    /// Its log ends with `end`, and what follows that was lost, or overtaken: it is sent again,
    /// once for all that is on its way.
    pub(crate) fn fill_gap(&mut self, end: u64) {
        if self.mode == Mode::Streaming && end + 1 < self.next {
            self.restart(end.max(self.acked) + 1);
        }
    }

    /// What was on its way is lost: begins again behind what it has acknowledged.
    pub(crate) fn lost(&mut self) {
        if matches!(self.mode, Mode::Streaming | Mode::Probing { .. }) {
            self.restart(if self.acked > 0 { self.acked + 1 } else { self.next });
        }
    }

    fn restart(&mut self, next: u64) {
        self.mode = Mode::Probing { asked: false };
        self.next = next;
        self.in_flight.clear();
        self.in_flight_bytes = 0;
        self.is_due = true;
    }

    /// Whether entries that were sent have not been acknowledged for `patience_us`.
    pub(crate) fn is_stuck(&self, now_us: u64, patience_us: u64) -> bool {
        !self.in_flight.is_empty() && now_us.saturating_sub(self.progress_us) > patience_us
    }

    /// Whether it may be sent entries now.
    pub(crate) fn may_send(&self, bytes_max: usize, messages_max: usize) -> bool {
        match self.mode {
            Mode::Probing { asked } => !asked,
            Mode::Streaming => {
                self.in_flight_bytes < bytes_max && self.in_flight.len() < messages_max
            }
            Mode::Fetching | Mode::Snapshot => false,
        }
    }

    /// Entries up to `last`, of so many bytes, are on their way.
    pub(crate) fn sent(&mut self, last: u64, bytes: usize, now_us: u64) {
        if self.in_flight.is_empty() {
            self.progress_us = now_us;
        }
        self.in_flight.push_back((last, bytes));
        self.in_flight_bytes += bytes;
        self.next = last + 1;
        self.asked();
    }

    /// A message is on its way.
    pub(crate) fn asked(&mut self) {
        self.is_due = false;
        if let Mode::Probing { asked } = &mut self.mode {
            *asked = true;
        }
    }

    /// A beat: it is told that the leader is there, and asked again if it is asked anything.
    pub(crate) fn beat(&mut self) {
        self.probed = u64::MAX;
        self.is_due = true;
        if let Mode::Probing { asked } = &mut self.mode {
            *asked = false;
        }
    }
}
