//! A leader: what it proposes, whom it hears, and when it ceases to lead (QR5, QR6).

use std::collections::VecDeque;

use super::Replica;
use super::hand_over::HandOver;
use crate::core::Diverged;
use crate::message::Appended;
use crate::peer::{Mode, Peer};
use crate::rounds::Rounds;
use crate::{Kind, MemberId, NotProposed, Output, Position};

/// What a replica has while it leads.
pub(super) struct Leading {
    /// The first entry of its term: from there on it knows what is committed.
    pub(super) begin: u64,
    pub(super) peers: Vec<Peer>,
    /// The entry of the configuration that `peers` are of.
    pub(super) configuration: u64,
    pub(super) rounds: Rounds,
    /// When a promise for the lease was asked for last.
    pub(super) lease_asked_us: Option<u64>,
    /// Messages with entries from the journal.
    pub(super) fetched: VecDeque<(MemberId, Vec<u8>)>,
    pub(super) hand_over: Option<HandOver>,
    /// Since when it leads, in microseconds.
    pub(super) since_us: u64,
    /// The last entry when the last beat began: who has it has caught up (QR8).
    pub(super) beat_last: u64,
    beat_us: u64,
    /// When it looks whether it hears a majority.
    check_us: u64,
}

impl Leading {
    pub(super) fn next_us(&self) -> u64 {
        let hand_over_us = self.hand_over.as_ref().map_or(u64::MAX, |hand_over| hand_over.until_us);
        self.beat_us.min(self.check_us).min(hand_over_us)
    }

    pub(super) fn peer(&self, id: MemberId) -> Option<&Peer> {
        self.peers.iter().find(|peer| peer.id == id)
    }
}

impl Replica {
    /// Proposes an entry, as the leader: its place. It is committed if, when
    /// [`committed`](Replica::committed) has reached that, the term there is still
    /// [`term`](Replica::term) as it is now.
    ///
    /// # Errors
    /// Why it was not proposed: it will never be committed.
    pub fn propose(&mut self, now_us: u64, data: &[u8]) -> Result<Position, NotProposed> {
        self.now_us = now_us;
        let leading = self.leading.as_ref();
        let leading = leading.ok_or(NotProposed::NotLeader { leader: self.election.leader })?;
        if leading.hand_over.is_some() {
            return Err(NotProposed::HandingOver);
        }
        if data.len() > self.settings.entry_bytes_max {
            return Err(NotProposed::TooLong);
        }
        let waiting = self.tail.bytes_from(self.committed() + 1);
        if waiting > 0 && waiting + data.len() > self.settings.uncommitted_bytes_max {
            return Err(NotProposed::Busy);
        }
        self.core.propose().expect("this replica leads");
        self.keep(Kind::Command, data);
        self.settle().expect("a leader only appends");
        Ok(self.core.last())
    }

    /// Whether the leader knows all that earlier leaders have acknowledged: an entry of its own
    /// term is committed.
    pub(super) fn knows_commit(&self) -> bool {
        self.leading.as_ref().is_some_and(|leading| self.committed() >= leading.begin)
    }

    pub(super) fn begin_to_lead(&mut self) {
        self.counters.elected += 1;
        let begin = self.core.last().index;
        self.leading = Some(Leading {
            begin,
            peers: Vec::new(),
            configuration: 0,
            rounds: Rounds::default(),
            lease_asked_us: None,
            fetched: VecDeque::new(),
            hand_over: None,
            since_us: self.now_us,
            beat_last: begin,
            beat_us: self.now_us + self.settings.beat_us,
            check_us: self.now_us + self.settings.election_us,
        });
        self.answer = None;
        self.election.leader = None;
        self.match_peers();
    }

    pub(super) fn cease_to_lead(&mut self) {
        self.leading = None;
        self.restart_timer();
    }

    /// Leads those who are members now, if the configuration is another one.
    pub(super) fn match_new_peers(&mut self) {
        let latest = self.configurations.latest_index();
        if self.leading.as_ref().is_some_and(|leading| leading.configuration != latest) {
            self.match_peers();
        }
    }

    fn match_peers(&mut self) {
        let Some(leading) = &mut self.leading else { return };
        let (id, membership) = (self.settings.id, self.configurations.latest());
        leading.configuration = self.configurations.latest_index();
        leading.peers.retain(|peer| membership.get(peer.id).is_some());
        for member in membership.members().iter().filter(|member| member.id != id) {
            if leading.peer(member.id).is_none() {
                // Who has the entries before this term's first needs nothing else.
                leading.peers.push(Peer::new(member.id, leading.begin, self.now_us));
            }
        }
    }

    pub(super) fn with_peer(&mut self, id: MemberId, change: impl FnOnce(&mut Peer)) {
        let mut peers = self.leading.iter_mut().flat_map(|leading| &mut leading.peers);
        if let Some(peer) = peers.find(|peer| peer.id == id) {
            change(peer);
        }
    }

    /// A timer of the leader's has passed.
    pub(super) fn lead(&mut self) -> Result<(), Diverged> {
        let now_us = self.now_us;
        let Some(leading) = &mut self.leading else { return Ok(()) };
        if now_us >= leading.beat_us {
            leading.beat_us = now_us + self.settings.beat_us;
            leading.beat_last = self.core.last().index;
            self.beat();
        }
        self.give_up_handing_over();
        match self.leading.as_ref().is_some_and(|leading| now_us >= leading.check_us) {
            true => self.check_majority(),
            false => Ok(()),
        }
    }

    /// Tells all that it is there, and begins anew with those whose answers are missing.
    fn beat(&mut self) {
        let patience_us = 2 * self.settings.beat_us;
        let Some(leading) = &mut self.leading else { return };
        for peer in &mut leading.peers {
            if peer.is_stuck(self.now_us, patience_us) {
                self.counters.resent += 1;
                peer.lost();
            }
            peer.beat();
        }
        if self.settings.lease_drift.is_some() && leading.hand_over.is_none() {
            leading.rounds.renew();
        }
    }

    /// A leader that has not heard a majority for the shortest timeout steps down (QR6).
    fn check_majority(&mut self) -> Result<(), Diverged> {
        let Some(leading) = &mut self.leading else { return Ok(()) };
        let since_us = self.now_us.saturating_sub(self.settings.election_us);
        leading.check_us = self.now_us + self.settings.beat_us;
        let leading = &*leading;
        let hears = |id| {
            let heard_us = leading.peer(id).and_then(|peer| peer.heard_us);
            id == self.settings.id || heard_us.is_some_and(|heard_us| heard_us >= since_us)
        };
        if self.configurations.latest().has_majority(hears) {
            return Ok(());
        }
        self.counters.majorities_lost += 1;
        let other = leading.peers.first().map_or(MemberId(u64::MAX), |peer| peer.id);
        self.core.notice_term(self.core.term() + 1, other)?;
        self.settle()
    }

    /// A follower says what its log ends with.
    pub(super) fn acknowledged(
        &mut self,
        from: MemberId,
        term: u64,
        appended: &Appended,
    ) -> Result<(), Diverged> {
        let now_us = self.now_us;
        let Appended { last, round, end, has_gap } = *appended;
        if term != self.core.term() || self.leading.is_none() {
            self.core.acknowledged(from, term, last)?;
            return self.settle();
        }
        let is_mine = self.core.position(last.index) == Some(last);
        self.with_peer(from, |peer| {
            peer.heard_us = Some(now_us);
            peer.echoed = peer.echoed.max(round);
            if is_mine {
                peer.acknowledge(last.index, now_us);
            }
            if has_gap {
                peer.fill_gap(end);
            }
        });
        self.confirm_rounds();
        if is_mine {
            self.count_follower(from)?;
            self.go_on_handing_over();
            return Ok(());
        }
        // Entries of later terms than the follower's last one cannot be in its log.
        match self.core.last_of_term(last.term, last.index) {
            Some(at) => self.with_peer(from, |peer| peer.probe(at)),
            None => self.send_snapshot(from),
        }
        Ok(())
    }

    /// The leader's log is durable further than before: so are its followers' acknowledgements
    /// that had to wait for that (QR5).
    pub(super) fn count_followers(&mut self) -> Result<(), Diverged> {
        let count = self.leading.as_ref().map_or(0, |leading| leading.peers.len());
        for at in 0..count {
            let peer = self.leading.as_ref().and_then(|leading| leading.peers.get(at));
            if let Some(id) = peer.filter(|peer| peer.told < peer.acked).map(|peer| peer.id) {
                self.count_follower(id)?;
            }
        }
        Ok(())
    }

    /// Tells the library what a follower has, as far as this replica has it, too.
    fn count_follower(&mut self, id: MemberId) -> Result<(), Diverged> {
        let durable = self.durability.entries();
        let mut news = None;
        self.with_peer(id, |peer| {
            let told = peer.acked.min(durable);
            news = (told > peer.told).then_some(told);
            peer.told = peer.told.max(told);
        });
        let Some(last) = news.and_then(|told| self.core.position(told)) else { return Ok(()) };
        self.core.acknowledged(id, self.core.term(), last)?;
        self.settle()
    }

    /// The follower lacks what the log no longer has.
    pub(super) fn send_snapshot(&mut self, to: MemberId) {
        let mut is_new = false;
        self.with_peer(to, |peer| {
            is_new = peer.mode != Mode::Snapshot;
            peer.mode = Mode::Snapshot;
        });
        if is_new {
            self.events.push_back(Output::SendSnapshot { to });
        }
    }
}
